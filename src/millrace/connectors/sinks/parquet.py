"""A sink that writes Parquet files, each row exactly once.

Every query has a folder, every span of epochs at most one file in it. All queries are rolled
together, when the span has grown large or old enough:

    <directory>/<query>/.<sink>-<random>.tmp                               while it is written
    <directory>/<query>/part-000000000120-000000000163.parquet             epochs 120 to 163

A file is complete and synced under its hidden name before the cursor promises it, and it gets
its final name by one rename after that. If the program ends in between, the next one finds the
promise: a hidden file that is still there is renamed, one that is gone was renamed before.

Invariant: a promised file exists under exactly one of its two names until a consumer moves it
away; so a consumer may take finished files at any moment and meets no row twice.

The same rows in the same span give the same bytes: canonical order, fixed writer settings, and
row groups cut by the size of the values. A span without rows writes nothing.

Cost: rows wait in memory up to `GROUP_BYTES` a query, at most `roll_bytes` and one epoch in
all; beyond that they go to the hidden file. One fsync a file and two a folder for each roll.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from millrace.connectors.sinks.parts import Part
from millrace.connectors.sinks.sink import (
    Backlog,
    FanOut,
    Move,
    Span,
    check_fan_out,
    check_queries,
    check_sink_name,
)
from millrace.errors import PlanError, SinkError
from millrace.state.sizes import to_bytes
from millrace.time import to_micros

_FINAL = re.compile(r"part-\d+-(\d+)(?:-\d+)?\.parquet")


class ParquetSink:
    """Writes the results of some queries below one directory.

    Parameters
    ----------
    directory
        On a file system of this machine; made if it does not exist. Two sinks may not share it.
    queries
        The queries and templates whose results it wants; None stands for all.
    fan_out
        "rows": every match is a row; "counts": the number of matches of each query and epoch;
        "sets": every matching row once, with the set of its queries.
    name
        Under which the cursor is kept; the program's next run has to give the same.
    roll_rows, roll_bytes, roll_every, roll_epochs
        A file is finished when a span has so many rows, bytes (in memory, of all queries
        together), is so old, or covers so many epochs; None leaves a condition out.

    Examples
    --------
    >>> sink = ParquetSink("/data/alerts", "big", roll_bytes="64 MB", roll_every="1 minute")
    >>> sink.due(Span(0, 7, n_rows=10, n_bytes=640, age=61_000_000))
    True
    """

    durable = True

    def __init__(  # noqa: PLR0913  when to roll has four answers
        self,
        directory: Path | str,
        queries: Sequence[str] | str | None = None,
        *,
        name: str = "parquet",
        roll_rows: int | None = None,
        roll_bytes: int | str | None = "128 MB",
        roll_every: str | int | None = "10 seconds",
        roll_epochs: int | None = None,
        fan_out: FanOut = "rows",
        backlog: Backlog | None = None,
    ) -> None:
        self.name = check_sink_name(name)
        self.queries = check_queries(queries)
        self.fan_out = check_fan_out(fan_out)
        self.backlog = backlog or Backlog()
        given: object = directory
        if not (isinstance(given, str | Path) and str(given).strip()):
            raise PlanError(
                f'directory {directory!r} of sink "{name}" is no path',
                hint='Write it as in ParquetSink("/data/answers").',
            )
        self._directory = Path(directory).absolute()
        self._roll_rows = _whole("roll_rows", roll_rows)
        self._roll_epochs = _whole("roll_epochs", roll_epochs)
        self._roll_bytes = None if roll_bytes is None else to_bytes(roll_bytes)
        self._roll_every = None if roll_every is None else to_micros(roll_every)
        self._check_limits()
        self._parts: dict[tuple[str, pa.Schema], Part] = {}

    def open(self, promised: Sequence[Move]) -> None:
        """Give promised files their names, then remove what other hidden files are left."""
        self._parts = {}
        self.fulfil(promised)
        hidden = re.compile(rf"\.{re.escape(self.name)}-[0-9a-f]{{12}}\.tmp")
        for found in self._directory.glob("*/.*.tmp"):
            if hidden.fullmatch(found.name):
                found.unlink(missing_ok=True)

    def require_place(self, next_epoch: int) -> None:
        """Make the directory, and refuse one in which somebody else's files would be in the way.

        Of epochs from `next_epoch` on, where the cursor stands, this sink has written none yet.
        """
        try:
            make_folder(self._directory)
            present = self._files()
        except OSError as cause:
            raise self._unusable(cause) from cause
        strange = [each for each, last in present if last >= next_epoch]
        if strange:
            raise SinkError(
                f'directory "{self._directory}" of sink "{self.name}" is in use',
                detail=f'It has files of epochs to come, such as "{strange[0]}": they were '
                "written by another sink, or for another root.",
                hint="Give each sink of each root a directory of its own, or move these files "
                "away.",
            )

    def rehearse_place(self) -> None:
        """Refuse a directory that cannot be made, and make nothing."""
        places = (self._directory, *self._directory.parents)
        try:
            os.scandir(next(each for each in places if each.exists())).close()
        except OSError as cause:
            raise self._unusable(cause) from cause

    def _unusable(self, cause: OSError) -> SinkError:
        return SinkError(
            f'directory "{self._directory}" of sink "{self.name}" cannot be used',
            detail=f"{cause.strerror}.",
            hint="Give a directory that can be made and written on this machine.",
        )

    def _files(self) -> list[tuple[Path, int]]:
        """Return the finished files of the wanted queries, each with its last epoch."""
        folders = ["*"] if self.queries is None else [folder_name(each) for each in self.queries]
        found = [file for each in folders for file in self._directory.glob(f"{each}/part-*")]
        named = [(each, _FINAL.fullmatch(each.name)) for each in found]
        return sorted((each, int(match[1])) for each, match in named if match)

    def take(self, query: str, epoch: int, table: pa.Table) -> None:  # noqa: ARG002  in the table
        """Add rows to the file of the query; other columns than before begin another file."""
        part = self._parts.get((query, table.schema))
        if part is None:
            part = Part(self._hidden_name(query), table.schema)
            self._parts[query, table.schema] = part
        part.add(table)

    def due(self, span: Span) -> bool:
        """Say whether a limit is reached."""
        reached = (
            (span.n_rows, self._roll_rows),
            (span.n_bytes, self._roll_bytes),
            (span.age, self._roll_every),
            (span.n_epochs, self._roll_epochs),
        )
        return any(limit is not None and value >= limit for value, limit in reached)

    def prepare(self, span: Span) -> tuple[Move, ...]:
        """Finish and sync the hidden files."""
        moves: dict[str, Move] = {}
        for (query, _), part in self._parts.items():
            part.finish()
            final = _final_name(query, span, moves)
            moves[final] = Move(str(part.path.relative_to(self._directory)), final)
        for folder in {part.path.parent for part in self._parts.values()}:
            sync_folder(folder)
        return tuple(moves.values())

    def fulfil(self, moves: Sequence[Move]) -> None:
        """Rename the files that have not been renamed yet."""
        self._parts = {}
        for move in moves:
            self._rename(self._directory / move.temporary, self._directory / move.final)
        for folder in {(self._directory / move.final).parent for move in moves}:
            sync_folder(folder)

    def close(self) -> None:
        """Forget the open span; `open` removes its hidden files, if the cursor names none."""
        self._parts = {}

    def _rename(self, temporary: Path, final: Path) -> None:
        if not temporary.exists():
            return
        if final.exists():
            raise SinkError(
                f'file "{final}" of sink "{self.name}" exists already',
                detail="It was written by another sink, or for a root that began anew.",
                hint="Move the file away; the sink then goes on by itself.",
            )
        temporary.rename(final)

    def _hidden_name(self, query: str) -> Path:
        folder = self._directory / folder_name(query)
        make_folder(folder)
        return folder / f".{self.name}-{secrets.token_hex(6)}.tmp"

    def _check_limits(self) -> None:
        limits = (self._roll_rows, self._roll_bytes, self._roll_every, self._roll_epochs)
        given = [limit for limit in limits if limit is not None]
        if not given or min(given) < 1:
            raise PlanError(
                f'sink "{self.name}" never finishes a file, or finishes it before it begins',
                hint="Give at least one of roll_rows, roll_bytes, roll_every, roll_epochs.",
            )
        self._check_room(self.backlog.n_bytes, self._roll_bytes, "bytes")
        self._check_room(self.backlog.n_epochs, self._roll_epochs, "epochs")

    def _check_room(self, room: int | None, roll: int | None, unit: str) -> None:
        """Refuse a backlog that is used up before a file is full: it would drop for ever."""
        if room is not None and roll is not None and room < 4 * roll:
            raise PlanError(
                f'the backlog of sink "{self.name}" is too small for its files',
                detail=f"A file may wait for {roll} {unit}, the backlog for {room}.",
                hint="Let the backlog hold at least four files.",
            )


def _whole(name: str, given: int | None) -> int | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int)):
        raise PlanError(f"{name} is {given!r}", hint="Give a whole number.", node=("option", name))
    return given


def folder_name(query: str) -> str:
    """Name the folder of a query; readers of Parquet leave out names that begin with _ or a dot.

    Examples
    --------
    >>> folder_name("big"), folder_name("a/b"), folder_name("_x")
    ('big', 'a%2Fb', '%5Fx')
    """
    quoted = quote(query, safe="")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[0] in "._" else quoted


def make_folder(folder: Path) -> None:
    """Make a folder durably; a synced file in a folder that is not is lost with it."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _final_name(query: str, span: Span, taken: dict[str, Move]) -> str:
    stem = f"{folder_name(query)}/part-{span.first:012d}-{span.stop - 1:012d}"
    names = (f"{stem}.parquet", *(f"{stem}-{ordinal}.parquet" for ordinal in range(2, 1000)))
    return next(name for name in names if name not in taken)
