"""Who hears what on SysStream: all of the engine as a whole, and each of their own queries."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.streams import SYSSTREAM
from millrace.server.principals import ForbiddenError, Principal

OF_ALL = ("stream", "index", "table", "epoch", "engine")
"""What everybody is told of; of sinks only the operator is."""


def told_to(who: Principal, stream: str, rows: pa.Table) -> pa.Table:
    """Return the rows of a stream that somebody may see: of all but SysStream, all of them."""
    if stream != SYSSTREAM or who.operator:
        return rows
    owners = {
        "query": rows.column("name"),
        "family": rows.column("query"),
        "operator": rows.column("query"),
        "store": rows.column("query"),
    }
    kept = pc.is_in(rows.column("type"), pa.array(OF_ALL))
    for kind, names in owners.items():
        known = set(names.unique().drop_null().to_pylist())
        mine = pa.array([each for each in known if who.sees(each)], pa.string())
        of_kind = pc.equal(rows.column("type"), kind)
        kept = pc.or_(kept, pc.and_(of_kind, pc.is_in(names, mine)))
    return rows.filter(kept)


def require_hearing(who: Principal, streams: Sequence[str]) -> None:
    """Refuse a query over streams of which one tells of what is of others."""
    if not who.operator and SYSSTREAM in streams:
        raise not_theirs()


def require_not_told(stream: str) -> None:
    """Refuse rows of clients on the stream that is the engine's own."""
    if stream == SYSSTREAM:
        raise ForbiddenError(
            f'rows of stream "{stream}" are told by the engine', hint="Push into another stream."
        )


def not_theirs() -> ForbiddenError:
    """Say that only the operator listens to everybody."""
    return ForbiddenError(
        f'a query over "{SYSSTREAM}" is for the operator',
        detail="It tells of the queries of all tenants.",
        hint="The console shows what concerns you, and so does a SELECT that is asked once.",
    )
