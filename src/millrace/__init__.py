"""A million standing SQL queries on one Spark stream.

>>> import millrace
>>> condition = millrace.col("price") > 100
>>> str(millrace.select("trades", "symbol", where=condition))
'SELECT symbol FROM trades WHERE price > 100'
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millrace.client.async_client import AsyncClient as AsyncClient
    from millrace.client.client import Client as Client
    from millrace.client.connecting import connect as connect
    from millrace.client.connecting import connect_async as connect_async
    from millrace.client.patience import Patience as Patience
    from millrace.client.result import Result as Result
    from millrace.connectors.files import Files as Files
    from millrace.connectors.formats.options import ReadOptions as ReadOptions
    from millrace.connectors.sinks.callback import CallbackSink as CallbackSink
    from millrace.connectors.sinks.memory import MemorySink as MemorySink
    from millrace.connectors.sinks.parquet import ParquetSink as ParquetSink
    from millrace.connectors.sinks.sink import Backlog as Backlog
    from millrace.engine.local import Feed as Feed
    from millrace.engine.settings import Settings as Settings
    from millrace.errors import MillraceError as MillraceError
    from millrace.plan.nodes import select as select
    from millrace.plan.term import call as call
    from millrace.plan.term import col as col
    from millrace.session import Query as Query
    from millrace.session import Session as Session
    from millrace.session import Table as Table
    from millrace.session import Template as Template

__version__ = "0.1.0"

# Loaded at first use: the process that workers are forked from must set its environment before
# Arrow is imported, and a command's --help need not wait for numba.
_HOMES = {
    "AsyncClient": "client.async_client",
    "Backlog": "connectors.sinks.sink",
    "CallbackSink": "connectors.sinks.callback",
    "Client": "client.client",
    "Feed": "engine.local",
    "Files": "connectors.files",
    "MemorySink": "connectors.sinks.memory",
    "MillraceError": "errors",
    "ParquetSink": "connectors.sinks.parquet",
    "Patience": "client.patience",
    "Query": "session",
    "ReadOptions": "connectors.formats.options",
    "Result": "client.result",
    "Session": "session",
    "Settings": "engine.settings",
    "Table": "session",
    "Template": "session",
    "call": "plan.term",
    "col": "plan.term",
    "connect": "client.connecting",
    "connect_async": "client.connecting",
    "select": "plan.nodes",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module 'millrace' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"millrace.{_HOMES[name]}"), name)
