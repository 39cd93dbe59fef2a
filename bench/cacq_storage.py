"""CACQ's Tables 1 and 2: what 100,000 queries over five sources take to hold.

The paper's figures are of a formula. Predicates are not in it; at the 100 bytes that Table 2 has
for each they are added here, for the engine's files have them, too. What is measured is those
files: the index of each stream, which workers map, and the registry, from which they are made.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.drawing import Drawing, draw_bars, verdict
from bench.report import Figure, progress
from millrace.engine.local import Feed, LocalRun
from millrace.session import Session

N_SOURCES, N_QUERIES, N_PREDICATES = 5, 100_000, 150_000
ATTRIBUTES = "abc"
DOMAIN, WIDTH = 1_000_000, 10_000
MEGABYTE, TUPLE = 1e6, 200
INT, QUEUE, PREDICATE, OPERATOR = 4, 64, 100, 100
"""The sizes of Table 2, in bytes."""


def formula() -> tuple[int, int]:
    """Return the bytes of Table 1: of all queries, and of an active tuple."""
    mine, selections = N_QUERIES // N_SOURCES, len(ATTRIBUTES)
    source = INT * mine + OPERATOR * (selections + 1) + mine * selections // 8
    return N_SOURCES * source + N_QUERIES * QUEUE, mine // 8


def storage(folder: Path) -> list[Figure]:
    """Tables 1 and 2: bytes of 100,000 queries, by the formula and in the engine."""
    queries, row = formula()
    whole = queries + N_PREDICATES * PREDICATE
    indexes, registry = held()
    ours, copies = indexes + registry, N_QUERIES * TUPLE
    bars = {
        "formula": queries / MEGABYTE,
        "formula, and predicates": whole / MEGABYTE,
        "ours: indexes": indexes / MEGABYTE,
        "ours, with its registry": ours / MEGABYTE,
        "a tuple copied for all": copies / MEGABYTE,
    }
    progress("storage", ", ".join(f"{name} {each:.2f} MB" for name, each in bars.items()))
    found = {
        "the formula gives 6.83 MB (within 0.02)": abs(queries / MEGABYTE - 6.83) < 0.02,
        "and 2.5 kB a tuple": row == 2_500,
        "ours takes no more than formula and predicates": ours <= whole,
    }
    drawing = Drawing(
        "cacq-table-1",
        f"CACQ Table 1: what {N_QUERIES:,} queries over {N_SOURCES} sources take to hold",
        "",
        "MB",
        "The paper: 6.83 MB, and 2.5 kB for an active tuple, without predicates; if queries ran "
        "independently, the copies of one tuple would take 20 MB.",
        verdict(
            found,
            f"{ours / N_QUERIES:.0f} bytes a query with its predicates, {whole / N_QUERIES:.0f} by "
            f"the formula; {queries / MEGABYTE:.2f} MB by it without them.",
        ),
        ("linear", "linear"),
    )
    draw_bars(drawing, bars, folder)
    note = f"indexes {indexes / MEGABYTE:.1f} MB, registry {registry / MEGABYTE:.1f} MB; Table 1"
    return [Figure("100,000 queries held", ours / MEGABYTE, "reported", None, "MB", note)]


def held() -> tuple[int, int]:
    """Register the queries, run an epoch; return the bytes of indexes and of the registry."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-cacq-"))
    columns = ", ".join(f"{name} int" for name in ATTRIBUTES)
    try:
        with Session(scratch, threads=False) as session:
            for number in range(N_SOURCES):
                session.stream(f"s{number}", Feed(f"n bigint, {columns}, ts timestamp"), time="ts")
                _register(session, number)
            run = session.start()
            assert isinstance(run, LocalRun), "a session without Spark runs here"
            run.feed(**{f"s{number}": _row() for number in range(N_SOURCES)})
            return _size(scratch / "queries"), _size(scratch / "registry")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _register(session: Session, number: int) -> None:
    """Declare the queries of a stream: half have one predicate, half have two."""
    random, each = np.random.default_rng(number), N_QUERIES // N_SOURCES // 2
    for names in (ATTRIBUTES[:1], ATTRIBUTES[1:]):
        asked = " AND ".join(f"{name} BETWEEN :{name}_low AND :{name}_high" for name in names)
        values = {}
        for name in names:
            low = random.integers(0, DOMAIN, each).astype(np.int32)
            values |= {f"{name}_low": low, f"{name}_high": low + np.int32(WIDTH)}
        template = session.template(
            f"of_s{number}_{names}",
            f"SELECT n FROM s{number} WHERE {asked}",
            parameters=dict.fromkeys(values, "int"),
        )
        template.insert(values)


def _row() -> pa.Table:
    values = {name: pa.array([0], pa.int32()) for name in ATTRIBUTES}
    return pa.table({"n": [0], **values, "ts": pa.array([0]).cast(pa.timestamp("us", "UTC"))})


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
