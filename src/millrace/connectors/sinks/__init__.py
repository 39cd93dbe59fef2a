"""Sinks: where results go. A sink is handed tables and knows nothing of epochs' files."""

from millrace.connectors.sinks.callback import CallbackSink
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.connectors.sinks.sink import Backlog, Move, Sink, Span

__all__ = ["Backlog", "CallbackSink", "MemorySink", "Move", "ParquetSink", "Sink", "Span"]
