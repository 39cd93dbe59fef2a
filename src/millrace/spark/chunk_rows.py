"""Chunks as Spark sees them: one row of eight columns each."""

from __future__ import annotations

CHUNK_DDL = (
    "shard int, source string, task int, ordinal int, kind string, name string, payload binary, "
    "hop int"
)
RECEIPT_DDL = "receipt binary"
DECISION_PROPERTY = "millrace.decision"
"""The local property by which a task learns which logged decision of which query it runs under."""
