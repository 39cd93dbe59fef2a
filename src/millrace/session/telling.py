"""Telling: a session whose engine tells of itself, on the stream `sysstream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.engine.local import Feed
from millrace.engine.sysstream import COLUMNS, SysStream, sysstream_spec
from millrace.time import SECOND, to_micros

if TYPE_CHECKING:
    from millrace.session.session import Session


def tell_of_itself(session: Session, *, every: str | int = SECOND) -> SysStream:
    """Declare `sysstream`, which queries may read like any other stream; return who tells.

    It tells at most once in `every`, and only while a query reads it or somebody has asked.
    """
    if session.engine.sysstream is None:
        session.bind(sysstream_spec(), Feed(COLUMNS))
        session.engine.sysstream = SysStream(to_micros(every))
    return session.engine.sysstream
