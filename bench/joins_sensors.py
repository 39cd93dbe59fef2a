"""What all joins of three of 15 streams remember (CACQ, section 3.3), against trees of joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.joins_cacq import engine, stamped
from bench.report import Figure
from millrace.session import Session

N_SENSORS, READINGS = 15, 4_000


def sensors(folder: Path) -> list[Figure]:
    """What 455 joins of three of 15 streams remember, against trees of joins of two."""
    del folder  # nothing is drawn
    names = [f"s{number}" for number in range(N_SENSORS)]
    asked = [*combinations(names, 3)]
    columns = "place bigint, reading double, ts timestamp"
    with engine(dict.fromkeys(names, columns), lambda session: declared(session, asked)) as (
        run,
        session,
    ):
        given = {name: readings(number) for number, name in enumerate(names)}
        run.feed(**given)
        run.feed(**{name: readings(0).slice(READINGS - 1) for name in names})
        stores = session.engine.manifest.stores
        sizes = {
            name: sum(piece.bytes for each in store.runs for piece in each.pieces)
            for name, store in stores.items()
            if name.startswith(("elements/", "state/"))
        }
    elements = [name for name, size in sizes.items() if name.startswith("elements/") and size]
    mine, trees = sum(sizes.values()), trees_of(given)
    note = (
        f"{len(asked)} joins, {mine / 1e6:.1f} MB in {len(elements)} stores of elements; sides and "
        f"pairs of joins of two, shared by all: {trees / 1e6:.1f} MB"
    )
    return [
        Figure("state of three-way joins, by trees", mine / trees, "at most", 0.1, "x", note),
        Figure("stems of 15 streams", len(elements), "at most", N_SENSORS, "", "stores"),
    ]


def declared(session: Session, asked: Sequence[tuple[str, str, str]]) -> None:
    """Declare a join of each three streams, by place."""
    for number, (one, two, three) in enumerate(asked):
        session.query(
            f"SELECT ISTREAM(a.place, a.reading, b.reading AS second, c.reading AS third) "
            f"FROM {one} [RANGE 1 HOUR] a, {two} [RANGE 1 HOUR] b, {three} [RANGE 1 HOUR] c "
            "WHERE a.place = b.place AND b.place = c.place",
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
        }
    )


def trees_of(given: Mapping[str, pa.Table]) -> int:
    """Return the bytes of what trees of joins remember: both sides, and what each two have given.

    A join of three is one of two, joined with the third. All trees share what they can: the
    streams, and the pairs of each two of them.
    """
    sides = sum(each.nbytes for each in given.values())
    pairs = sum(
        one.join(other, "place", right_suffix="_right", join_type="inner").nbytes
        for one, other in combinations(given.values(), 2)
    )
    return sides + pairs
