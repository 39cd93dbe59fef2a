"""A million standing SQL queries on one Spark stream.

>>> import millrace
>>> condition = millrace.col("price") > 100
>>> str(millrace.select("trades", "symbol", where=condition))
'SELECT symbol FROM trades WHERE price > 100'
"""

from millrace.connectors.files import Files
from millrace.connectors.formats.options import ReadOptions
from millrace.connectors.sinks.callback import CallbackSink
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.connectors.sinks.sink import Backlog
from millrace.engine.local import Feed
from millrace.engine.settings import Settings
from millrace.errors import MillraceError
from millrace.plan.expressions import call, col
from millrace.plan.nodes import select
from millrace.session import Query, Session

__all__ = [
    "Backlog",
    "CallbackSink",
    "Feed",
    "Files",
    "MemorySink",
    "MillraceError",
    "ParquetSink",
    "Query",
    "ReadOptions",
    "Session",
    "Settings",
    "call",
    "col",
    "select",
]
__version__ = "0.1.0"
