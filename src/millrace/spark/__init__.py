"""Millrace on Spark: the only package that imports pyspark."""
