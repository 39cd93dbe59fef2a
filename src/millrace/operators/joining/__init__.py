"""Joins of windows for all queries of a family at once: one join, however many queries."""
