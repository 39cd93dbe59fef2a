"""Operators on relations that change in time; rows carry the interval in which they are there."""
