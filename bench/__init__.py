"""Benchmarks: each module is a program that prints a table and, last, one line of JSON."""
