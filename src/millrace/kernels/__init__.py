"""Arrays in, arrays out; the only home of numba."""
