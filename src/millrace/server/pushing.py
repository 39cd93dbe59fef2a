"""Pushing: batches of clients are typed where they enter, and synced together.

    body ─► rows of the stream's types, rejects ─► queue of the stream ─► one file ─► acknowledged

While one file is being synced, batches wait for the next one (group commit). What was acknowledged
is in a synced file, and stays there until an epoch that counts it is committed.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.connectors.decode import decode_json_column
from millrace.connectors.formats.decoded import Decoded, join
from millrace.connectors.formats.ndjson import read_ndjson
from millrace.connectors.formats.options import ReadOptions
from millrace.connectors.formats.parquet import fit_rows
from millrace.connectors.pushed import Batch, PushLog, folder_of
from millrace.engine.streams import StreamSpec
from millrace.errors import MillraceError, PlanError, SchemaError
from millrace.schema import Schema, castable, conform
from millrace.server.arrow_checks import read_arrow, require_few
from millrace.server.limits import Limits
from millrace.server.quotas import LimitError
from millrace.state.root import Root

MOST_WAITING = 256 << 20
LOOK_SECONDS = 1.0


class BadRowsError(MillraceError):
    """Rows that clients sent do not fit the stream; none of them was taken."""

    code = "rows"

    def __init__(self, decoded: Decoded) -> None:
        first = decoded.rejects.slice(0, 1).to_pylist()[0]
        n_bad = decoded.rejects.num_rows
        super().__init__(
            f"row {first['ordinal']} does not fit: {first['reason']}",
            detail=f"{n_bad:,} of {n_bad + decoded.rows.num_rows:,} rows do not fit; none counts.",
            hint="Correct them, or send them with ?bad=dead-letter to have them set aside.",
        )


def require_pushed(spec: StreamSpec) -> None:
    """Refuse rows for a stream that reads another source: nobody would ever read them."""
    if not spec.pushed:
        raise PlanError(
            f'rows cannot be pushed into stream "{spec.name}"',
            detail="Its rows come from a source of its own; pushed ones would never be read.",
            hint="Push into a stream that is declared FROM push().",
        )


def read_body(body: bytes, kind: str, schema: Schema, limits: Limits) -> Decoded:
    """Bring the body of a request into the columns of a stream; too many rows are not begun."""
    most_rows = limits.push_rows
    match kind:
        case "application/vnd.apache.arrow.stream":
            table = read_arrow(body, most_rows=most_rows, body_bytes=limits.body_bytes)
            decoded = _fitted(table, schema)
        case "application/x-ndjson":
            require_few(body.count(b"\n"), most_rows)
            options = ReadOptions()
            pieces = list(read_ndjson(BytesIO(body), (0, len(body)), schema, options))
            decoded = join(pieces) if pieces else Decoded.nothing(schema)
        case _:
            decoded = _from_json(body, schema, most_rows)
    require_few(decoded.rows.num_rows + decoded.rejects.num_rows, most_rows)
    return decoded


def _fitted(table: pa.Table, schema: Schema) -> Decoded:
    for column in schema:
        at = table.schema.get_field_index(column.name)
        if at < 0 or not castable(table.schema.field(at).type, column.type):
            conform(table.slice(0, 0), schema)  # says which, and why
    if not table.num_rows:
        return Decoded.nothing(schema)
    [batch] = table.combine_chunks().to_batches()
    return fit_rows(batch, schema, np.arange(batch.num_rows))


def _from_json(body: bytes, schema: Schema, most_rows: int) -> Decoded:
    try:
        rows: Any = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        raise SchemaError("the body is not JSON", detail=f"{cause}.") from cause
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list):
        raise SchemaError("the body is not an array of rows", hint='Send [{"column": value}, …].')
    require_few(len(rows), most_rows)
    if not rows:
        return Decoded.nothing(schema)
    texts = pa.array([json.dumps(each) for each in rows], pa.string())
    return decode_json_column(texts, schema)


def _no_constant(word: str) -> object:
    message = f"{word} is not JSON; write it as a text"
    raise ValueError(message)


class Pushing:
    """The push logs of one gateway."""

    def __init__(
        self, root: Root, *, most_waiting: int = MOST_WAITING, backlog: int = 1 << 62
    ) -> None:
        self._root, self._most_waiting, self._backlog = root, most_waiting, backlog
        self._queues: dict[str, _Queue] = {}
        self._waiting = 0

    async def push(self, spec: StreamSpec, batch: Batch) -> str:
        """Append a batch to the log of a stream; durable on return, which gives its name."""
        size = batch.rows.nbytes
        if self._waiting + size > self._most_waiting:
            raise LimitError("bytes waiting to be written", self._most_waiting, self._waiting,
                             hint="Send more slowly.")  # fmt: skip
        folder = folder_of(spec.name, spec.born)
        queue = self._queues.get(folder)
        if queue is None:
            queue = self._queues[folder] = _Queue(self._root, folder)
        held = await queue.backlog()
        if held > self._backlog:
            raise LimitError("bytes pushed and not counted yet", self._backlog, held,
                             hint="The engine is behind, or not there; send later.")  # fmt: skip
        self._waiting += size
        try:
            number, place = await queue.put(batch)
        finally:
            self._waiting -= size
        return f"{number}.{place}"


class _Queue:
    """The batches that wait to be written to one stream's log."""

    def __init__(self, root: Root, folder: str) -> None:
        self._log = PushLog(root, folder)
        self._weighed = PushLog(root, folder)  # by another thread than the one that appends
        self._waiting: list[tuple[Batch, asyncio.Future[tuple[int, int]]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._held, self._looked = 0, -LOOK_SECONDS

    async def backlog(self) -> int:
        """Return how much of the stream's log waits for the engine, to the second."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = math.inf
            try:
                self._held = await asyncio.to_thread(self._weighed.backlog)
            finally:
                self._looked = time.monotonic()
        return self._held

    async def put(self, batch: Batch) -> tuple[int, int]:
        done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            try:
                number = await asyncio.to_thread(self._log.append, [batch for batch, _ in group])
            except Exception as error:
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            for place, (_, done) in enumerate(group):
                if not done.done():
                    done.set_result((number, place))
        self._writing = None
