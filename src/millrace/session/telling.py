"""Telling: a session whose engine tells of itself, on the stream `sysstream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.connectors.pushed import Batch, Pushed, PushLog, folder_of
from millrace.engine.sysstream import NAME, SysStream, sysstream_spec
from millrace.time import SECOND, to_micros

if TYPE_CHECKING:
    from millrace.session.session import Session


def tell_of_itself(
    session: Session, *, every: str | int = SECOND, unheard: int | None = None
) -> SysStream:
    """Declare `sysstream`, which queries may read like any other stream; return who tells.

    It tells at most once in `every`, while a query reads it or somebody has asked; with `unheard`,
    a part of that once in so long at all times. What it tells is pushed as rows of clients are;
    where epochs are fed by hand, the next one takes it.
    """
    if session.engine.sysstream is None:
        session.bind(sysstream_spec(), Pushed())
        log = _log(session)

        def push(rows: pa.RecordBatch) -> None:
            log.append([Batch(rows, origin="engine")])

        deliver = None if session.fed_by_hand else push
        session.engine.sysstream = SysStream(to_micros(every), deliver, unheard=unheard)
    return session.engine.sysstream


def _log(session: Session) -> PushLog:
    spec = session.engine.registry.catalog.stream(NAME)
    return PushLog(session.engine.root, folder_of(NAME, spec.born))
