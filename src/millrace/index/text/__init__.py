"""Text conditions of many queries: which needles must stand in a row, and one scan for them all."""
