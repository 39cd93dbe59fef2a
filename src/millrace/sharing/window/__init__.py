"""Window joins that many queries share: a range on either side, and a window of their own each."""
