"""What all joins of three of 15 streams remember (CACQ, section 3.3), against trees of joins.

    ours    455 joins of three streams; each stream's elements are kept once
    trees   the same joins, each of a stream of pairs with a third stream: the 15 streams and the
            91 streams of pairs that all trees share, as the paper counts them (two of the 15 are
            in pairs alone, and are not counted)

Both are run by an engine, which makes their elements durable; what is measured is the bytes of the
stores, of both alike. As in the paper a reading has 128 bytes, and an hour of them is kept, one a
second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.drawing import Drawing, draw_bars, verdict
from bench.joins_cacq import engine, stamped
from bench.report import Figure, progress
from millrace.session import Session

N_SENSORS, READINGS, TEXT_BYTES = 15, 3_600, 104
COLUMNS = "place bigint, reading double, ts timestamp, told text"
PAIRED = f"{COLUMNS}, second double, second_ts timestamp, second_told text"
PAPER_STEMS, PAPER_TREES = 6.9, 101.0
"""What the paper counts, in MB."""

Asked = Sequence[tuple[str, str, str]]


def sensors(folder: Path) -> list[Figure]:
    """What 455 joins of three of 15 streams remember, against trees of joins of two."""
    names = [f"s{number:02d}" for number in range(N_SENSORS)]
    asked = [*combinations(names, 3)]
    given = {name: readings(number) for number, name in enumerate(names)}
    pairs = {
        _pair(one, two): _joined(given[one], given[two]) for one, two in combinations(names[:-1], 2)
    }
    streams = dict.fromkeys(names, COLUMNS)
    mine = stored(streams, given, lambda session: declare_whole(session, asked))
    both = streams | dict.fromkeys(pairs, PAIRED)
    trees = stored(both, given | pairs, lambda session: declare_trees(session, asked))
    ours, theirs = sum(mine.values()), sum(trees.values())
    progress("sensors", f"{ours / 1e6:.1f} MB in {len(mine)} stores, trees {theirs / 1e6:.1f} MB")
    ratio, expected = ours / theirs, PAPER_STEMS / PAPER_TREES
    held = {
        "one index a stream": len(mine) == N_SENSORS,
        "at most a tenth of trees": ratio <= 0.1,
        "the paper's ratio, within 1.5 times": ratio <= 1.5 * expected,
    }
    drawing = Drawing(
        "cacq-3.3",
        f"CACQ section 3.3: what {len(asked)} joins of three of {N_SENSORS} streams remember",
        f"{READINGS:,} readings a stream",
        "MB",
        f"The paper: a SteM for each stream takes {PAPER_STEMS} MB where trees of joins of two "
        f"take {PAPER_TREES:.0f} MB, with 91 intermediate indexes.",
        verdict(held, f"{ratio:.3f} of the trees' bytes, {expected:.3f} in the paper."),
        ("linear", "linear"),
    )
    bars = {
        f"ours: {len(mine)} stores": ours / 1e6,
        f"trees: {len(trees)} stores": theirs / 1e6,
    }
    draw_bars(drawing, bars, folder)
    note = (
        f"{len(asked)} joins, bytes of stores: {ours / 1e6:.2f} MB in {len(mine)}; trees of joins "
        f"of two, which share what they can, {theirs / 1e6:.2f} MB in {len(trees)}"
    )
    return [
        Figure("state of three-way joins, by trees", ratio, "at most", 0.1, "x", note),
        Figure("stems of 15 streams", len(mine), "at most", N_SENSORS, "", "stores"),
    ]


def stored(
    streams: Mapping[str, str], given: Mapping[str, pa.Table], declare: Callable[[Session], None]
) -> dict[str, int]:
    """Run queries over what streams are given; return the bytes of what is remembered, by store."""
    with engine(streams, declare) as (run, session):
        run.feed(**given)
        run.feed(**{name: each.slice(READINGS - 1) for name, each in given.items()})
        sizes = {
            name: sum(piece.bytes for each in store.runs for piece in each.pieces)
            for name, store in session.engine.manifest.stores.items()
            if name.startswith(("elements/", "state/"))
        }
    return {name: size for name, size in sizes.items() if size}


def declare_whole(session: Session, asked: Asked) -> None:
    """Declare a join of each three streams, by place."""
    for number, (one, two, three) in enumerate(asked):
        session.query(
            "SELECT ISTREAM(a.place, a.reading, b.reading AS second, c.reading AS third, "
            "a.told, b.told AS second_told, c.told AS third_told) "
            f"FROM {one} [RANGE 1 HOUR] a, {two} [RANGE 1 HOUR] b, {three} [RANGE 1 HOUR] c "
            "WHERE a.place = b.place AND b.place = c.place "
            "AND a.reading + b.reading + c.reading > 2.5",
            name=f"q{number}",
        )


def declare_trees(session: Session, asked: Asked) -> None:
    """Declare the same joins, of the pairs of two streams with the third."""
    for number, (one, two, three) in enumerate(asked):
        session.query(
            "SELECT ISTREAM(a.place, a.reading, a.second, c.reading AS third, "
            "a.told, a.second_told, c.told AS third_told) "
            f"FROM {_pair(one, two)} [RANGE 1 HOUR] a, {three} [RANGE 1 HOUR] c "
            "WHERE a.place = c.place AND a.reading + a.second + c.reading > 2.5",
            name=f"q{number}",
        )


def readings(number: int) -> pa.Table:
    """Return a reading of each place, at about the same time."""
    random = np.random.default_rng(number)
    return pa.table(
        {
            "place": random.permutation(READINGS),
            "reading": random.random(READINGS),
            "ts": stamped(0, READINGS),
            "told": [random.bytes(TEXT_BYTES // 2).hex() for _ in range(READINGS)],
        }
    )


def _pair(one: str, two: str) -> str:
    return f"{one}_{two}"


def _joined(one: pa.Table, two: pa.Table) -> pa.Table:
    """Return what a join of two streams gives: both readings of each place."""
    found = one.join(two, "place", right_suffix="_two", join_type="inner")
    kept = ["place", "reading", "ts", "told", "reading_two", "ts_two", "told_two"]
    second = ["second", "second_ts", "second_told"]
    return found.select(kept).rename_columns([*kept[:4], *second]).sort_by("ts")
