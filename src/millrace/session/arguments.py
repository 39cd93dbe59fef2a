"""What a program hands to a session is looked at before anything is done with it."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from millrace.connectors.sinks.sink import Sink
from millrace.engine.sysstream import NAME as SYSSTREAM
from millrace.errors import PlanError, SchemaError
from millrace.plan.nodes import Selection
from millrace.plan.relations import Relation, StreamOf
from millrace.state.root import Root, open_root

_LARGEST_ID = (1 << 64) - 1
_ROOT = "A root is the directory in which everything durable is kept; it is made if need be."


def root_of(given: object) -> Root:
    """Open what was given as a root: a path, an address, or a root that is open."""
    if isinstance(given, str | os.PathLike):
        if not os.fspath(given):
            raise PlanError("the root has no path", detail=_ROOT, hint='Write "." to mean here.')
        return open_root(Path(given))
    if not isinstance(given, Root):
        raise PlanError(
            f"a root cannot be {_shown(given)}",
            detail=_ROOT,
            hint='Give its path: Session("/var/lib/alerts").',
        )
    return given


def require_asked(asked: object) -> None:
    """Refuse what is neither SQL nor a selection or a plan."""
    if not isinstance(asked, str | Selection | StreamOf | Relation):
        many = isinstance(asked, list | tuple)
        raise PlanError(
            f"a query cannot be {_shown(asked)}",
            hint="For many queries there is Session.queries(texts, into=...)."
            if many
            else "Give SQL as a text, or what millrace.select returns.",
        )


def require_text(what: str, given: object) -> None:
    """Refuse a name, or what else has to be a text, that is none."""
    if not isinstance(given, str):
        raise PlanError(f"{what} cannot be {_shown(given)}", hint="Give a text.")


def require_sink(given: object) -> None:
    """Refuse what cannot be delivered to."""
    if not isinstance(given, Sink) or isinstance(given, type):
        raise PlanError(
            f"a sink cannot be {_shown(given)}",
            hint="Give a millrace.ParquetSink, CallbackSink or MemorySink.",
        )


def ids_of(given: object) -> list[int]:
    """Return the ids of queries that were given as numbers, in a list, an array or a column."""
    if isinstance(given, pa.Array | pa.ChunkedArray):
        if given.type == pa.uint64() and not given.null_count:
            return list(given.to_pylist())  # as insert returns them
        given = given.to_pylist()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise PlanError(
            f"ids of queries cannot be {_shown(given)}",
            hint="Give a list of ids, as insert returns them.",
        )
    return [_id(each) for each in given]


def _id(given: object) -> int:
    plain = hasattr(given, "__index__") and not isinstance(given, bool)
    found = operator.index(given) if plain else -1  # type: ignore[arg-type]
    if not 0 <= found <= _LARGEST_ID:
        raise SchemaError(
            f"{given!r} is not the id of a query",
            detail="Ids are whole numbers, as insert and queries return them, or Query.id.",
            hint="By its name a query is found with Session.standing(name).",
        )
    return found


def _shown(given: object) -> str:
    if given is None:
        return "None"
    if isinstance(given, int | float):
        return f"the number {given}"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def names_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return names of which one may be given by itself."""
    return (given,) if isinstance(given, str) else tuple(given)


def require_not_reserved(stream: str) -> None:
    """Raise if a stream has the name of the one on which the engine tells of itself."""
    if stream.casefold() == SYSSTREAM:
        raise PlanError(
            f'stream name "{stream}" is reserved',
            detail="On that stream the engine tells of itself.",
            hint="Choose another name.",
        )
