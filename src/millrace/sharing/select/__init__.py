"""Select joins that many queries share: a range on either side, and the same keys."""
