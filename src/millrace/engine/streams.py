"""A stream as it was declared: its columns, its time, its partitions, and what is kept of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa

from millrace.errors import PlanError, SchemaError
from millrace.plan.bind import nearest
from millrace.schema import Schema, type_name
from millrace.time import print_duration

LONGEST_NAME = 200
SYSSTREAM = "sysstream"
"""The stream on which an engine tells of itself; its rows do not count among those that came."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """The declaration of a stream; it rests in the registry and travels to every task.

    Parameters
    ----------
    name
        What queries call it.
    schema
        The columns that queries see.
    time
        The column that holds the event time.
    delay
        How far behind the newest row of its partition a row may be before it is late, in us.
    partition, order
        The columns that name a row's source partition and its place in it. With both, whether
        a row is late depends on the data alone; without them, on the epoch it arrives in too.
    key
        The columns by which the stream's history is spread over shards.
    retain
        How long history is kept, in us; None keeps none.
    idle
        After how long without rows a partition no longer holds time back, in us.
    text
        The column of JSON text that rows are decoded from; None if they arrive typed.
    ordered
        Whether the source itself delivers each partition in a stable order (files do).
    born
        The number of the registry's change that declared it.
    first_retain
        What was declared as `retain`, if that has been changed since; 0 if nothing was.
    pushed
        Whether its source are the rows that clients push.
    """

    name: str
    schema: Schema
    time: str
    delay: int = 0
    partition: str | None = None
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    retain: int | None = None
    idle: int | None = None
    text: str | None = None
    ordered: bool = False
    born: int = 0
    first_retain: int | None = None
    pushed: bool = False

    def __post_init__(self) -> None:
        check_name("stream", self.name)
        for role, names in (("time", (self.time,)), ("key", self.key), ("order", self.order)):
            for name in names:
                _require_column(self, role, name)
        if self.partition is not None:
            _require_column(self, "partition", self.partition)
        if self.schema.type_of(self.time) != pa.timestamp("us", tz="UTC"):
            raise SchemaError(
                f'time column "{self.time}" of stream "{self.name}" is not a timestamp',
                hint="Declare it as timestamp, or convert it at the source.",
            )
        for name in self.order:
            _require_order(self, name, self.schema.type_of(name))
        if self.partition is not None and self.schema.type_of(self.partition) == pa.binary():
            raise SchemaError(
                f'partition column "{self.partition}" of stream "{self.name}" is binary',
                hint="Name partitions by text or by numbers.",
            )
        if self.partition is not None and not self.order:
            raise PlanError(
                f'stream "{self.name}" names a partition column and no order columns',
                detail="Whether a row is late depends on the rows before it in its partition.",
                hint='Name the column that orders a partition, such as order="offset".',
            )

    @property
    def exact(self) -> bool:
        """Whether lateness depends on the data alone, and not on how it is cut into epochs."""
        return self.ordered or bool(self.order)

    @property
    def as_declared(self) -> StreamSpec:
        """The stream as it was declared, before anything was changed."""
        if self.first_retain is None:
            return self
        return replace(self, retain=self.first_retain or None, first_retain=None)

    def retained(self, retain: int) -> StreamSpec:
        """Return the stream with its history kept for another while, or from now on."""
        first = self.retain or 0 if self.first_retain is None else self.first_retain
        return replace(self, retain=retain, first_retain=first)

    def to_json(self) -> dict[str, Any]:
        """Spell the declaration as JSON."""
        return {**asdict(self), "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        lists = {each: tuple(spelt[each]) for each in ("order", "key")}
        return cls(**{**spelt, **lists, "schema": Schema.from_json(spelt["schema"])})

    def __str__(self) -> str:
        delay = f" DELAY {print_duration(self.delay)}" if self.delay else ""
        retain = f" RETAIN {print_duration(self.retain)}" if self.retain else ""
        return f"STREAM {self.name} ({self.schema}) TIMESTAMP BY {self.time}{delay}{retain}"


def check_name(kind: str, name: str) -> None:
    """Raise unless `name` may stand for a stream or a query; sinks make folders of them."""
    if not name or name.startswith("_"):
        raise PlanError(
            f'{kind} name "{name}" is reserved',
            detail='Names that are empty or start with "_" belong to millrace.',
        )
    if len(quote(name, safe="")) > LONGEST_NAME:
        raise PlanError(
            f'{kind} name "{name[:40]}..." is too long',
            detail=f"Spelt as in an address it has more than {LONGEST_NAME} characters.",
        )


def _require_order(spec: StreamSpec, name: str, kind: pa.DataType) -> None:
    tests = (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date, pa.types.is_string)
    if not any(test(kind) for test in tests):
        raise SchemaError(
            f'order column "{name}" of stream "{spec.name}" is {type_name(kind)}',
            detail="A place in a partition is an integer, a timestamp, a date or text.",
        )


def _require_column(spec: StreamSpec, role: str, name: str) -> None:
    if name not in spec.schema:
        raise SchemaError(
            f'{role} column "{name}" does not exist in stream "{spec.name}"',
            detail=f"The columns are {', '.join(spec.schema.names)}.",
            hint=nearest(name, list(spec.schema.names)),
        )
