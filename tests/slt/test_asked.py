"""Statements as a user types them, and what is said: files of `tests/slt/asked`.

A file is blocks with ==== between them: a statement, ---- and its outcome, a message, a table or
what is refused and where. `feed stream` and rows as JSON lines are an epoch. Each file is run in
several ways. Rewrite the outcomes with `BLESS=1 pytest tests/slt/test_asked.py`, and read them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.errors import MillraceError
from millrace.lang.errors import LanguageError
from millrace.schema import conform
from millrace.state.memory_root import MemoryRoot

FILES = sorted((Path(__file__).parent / "asked").glob("*.txt"))
BREAK, RULE = "\n====\n", "\n----\n"
WAYS = {
    "together": Settings(shards=1, spread="never"),
    "in shards": Settings(shards=3, spread="always", merge_at_start=True),
    "in slices": Settings(shards=2, spread="always", backfill_rows=2),
}


def told(session: millrace.Session, text: str) -> str:
    """Do a statement, and return what a user reads."""
    if text.startswith("feed "):
        return fed(session, text)
    try:
        outcome = session.execute(text)[-1]
    except LanguageError as refused:
        return f"{refused.code} at {refused.line}:{refused.column}\n{refused}"
    except MillraceError as refused:
        return f"refused\n{refused}"
    plain = re.sub(r"in \d+\.\d+ s", "in some time", outcome.message)
    return plain if outcome.table is None else shown(outcome.table)


def fed(session: millrace.Session, text: str) -> str:
    first, _, lines = text.partition("\n")
    name = first.split()[1]
    rows = pj.read_json(pa.py_buffer(lines.encode())) if lines else None
    run = session.start()
    assert isinstance(run, LocalRun)
    schema = session.streams[name].schema
    if rows is not None:
        run.feed(**{name: conform(rows, schema)})
    for _ in range(20):  # whoever catches up has time to
        run.feed()
    return "" if rows is None else f"{rows.num_rows} rows"


def shown(table: pa.Table) -> str:
    kept = table.drop_columns([each for each in ("_epoch",) if each in table.column_names])
    rows = [list(map(str, row.values())) for row in kept.to_pylist()]
    rows = [[each.replace("+00:00", "") for each in row] for row in rows]
    lines = [kept.column_names, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(kept.column_names))]
    padded = [[each.ljust(width) for each, width in zip(line, widths, strict=True)]
              for line in lines]  # fmt: skip
    return "\n".join("  ".join(line).rstrip() for line in padded)


def outcomes(path: Path, way: str) -> list[tuple[str, str, str]]:
    """Run a file; return each statement, what it is to say, and what it says."""
    blocks = path.read_text(encoding="utf-8").rstrip("\n").split(BREAK)
    with millrace.Session(MemoryRoot(), threads=False, settings=WAYS[way]) as session:
        found = []
        for block in blocks:
            text, _, expected = block.partition(RULE)
            plain = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
            found.append((text, expected, told(session, plain)))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_statements_say_what_is_written(path: Path, way: str) -> None:
    if os.environ.get("BLESS"):
        blocks = [f"{text}{RULE}{found}" for text, _, found in outcomes(path, "together")]
        path.write_text(BREAK.join(blocks) + "\n", encoding="utf-8")

    for text, expected, found in outcomes(path, way):
        assert found == expected, text
