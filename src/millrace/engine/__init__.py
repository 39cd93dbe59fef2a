"""Epochs: decided, logged, run, committed, delivered and supervised; knows no Spark."""
