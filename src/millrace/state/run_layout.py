"""How runs are laid out in a file: blocks, fences, and the directory of them (`run_file`).

A run that is to take little room has narrow columns (`narrow`), which differ from block to block.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.state.container import pack
from millrace.state.names import Part
from millrace.state.narrow import Narrow, narrowed
from millrace.state.order import ascending, check_schema, keys_and_times
from millrace.state.run_file import BLOCK_ROWS, FENCE_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class LaidOut:
    """A run, its blocks as they are stored, and the narrow columns of each."""

    table: pa.Table
    blocks: Sequence[tuple[pa.RecordBatch, Sequence[Narrow]]]

    @property
    def n_bytes(self) -> int:
        """How many bytes the blocks take."""
        return sum(rows.nbytes for rows, _ in self.blocks)


def laid_out(runs: Mapping[str, pa.Table], narrow: Collection[str] = ()) -> dict[str, LaidOut]:
    """Cut runs into blocks, those in `narrow` into narrow ones; an empty run is left out."""
    found = {}
    for name, table in runs.items():
        if table.num_rows:
            check_schema(table.schema)
            cut = (block.combine_chunks().to_batches()[0] for block in _cut(table))
            blocks = [narrowed(each) if name in narrow else (each, ()) for each in cut]
            found[name] = LaidOut(table, blocks)
    return found


def packed(runs: Mapping[str, LaidOut], meta: Mapping[str, Any] | None) -> list[memoryview]:
    """Give the parts of a file that holds runs by name, and the document `meta`."""
    messages = {name: each.table.schema.serialize().to_pybytes() for name, each in runs.items()}
    schemas = list(dict.fromkeys(messages.values()))
    sections: list[tuple[str, Part]] = [
        (f"schema:{ordinal}", message) for ordinal, message in enumerate(schemas)
    ]
    described = {}
    for name, each in runs.items():
        sections += _sections(name, each)
        ordinal = schemas.index(messages[name])
        described[name] = {"schema": ordinal, "blocks": _described(each)}
    return pack({"meta": meta or {}, "runs": described}, sections)


def _sections(name: str, run: LaidOut) -> Iterator[tuple[str, Part]]:
    keys, times = keys_and_times(run.table)
    assert ascending(keys, times), f"run {name!r} is not sorted by key and time"
    for ordinal, (rows, _) in enumerate(run.blocks):
        yield f"{name}:{ordinal}", rows.serialize()
    if run.table.num_rows > FENCE_ROWS:
        fences = keys[::FENCE_ROWS].astype("<u8"), times[::FENCE_ROWS].astype("<i8")
        yield f"{name}:fences", b"".join(each.tobytes() for each in fences)


def _described(run: LaidOut) -> list[list[Any]]:
    """Give the fences of blocks, each followed by its narrow columns."""
    described = []
    for rows, narrow in run.blocks:
        keys, times = keys_and_times(rows)
        ends = (int(end) for end in (keys[0], keys[-1], times.min(), times.max()))
        described.append([rows.num_rows, *ends, *(each.to_json() for each in narrow)])
    return described


def _cut(table: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, BLOCK_ROWS):
        yield table.slice(first, BLOCK_ROWS)
