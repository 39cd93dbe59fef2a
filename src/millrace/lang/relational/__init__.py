"""Binding of whole CQL: joins, windows, groups, subqueries and set operations become plans."""
