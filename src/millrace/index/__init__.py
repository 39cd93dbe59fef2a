"""The predicate index: finds the standing conditions that a row fulfils."""
