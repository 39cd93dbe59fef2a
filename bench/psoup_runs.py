"""The workload of PSoup's experiments (Chandrasekaran and Franklin, VLDB 2002), on our engine.

Attributes are uniform in 0 to 255. A constant is a multiple of 32 with probability 0.2, else
uniform; an interval has a width that is uniform in 0 to 255. A row comes every microsecond, so that
a window of n rows is one of n microseconds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import numpy as np
import pyarrow as pa

from millrace.engine.local import Feed, LocalRun
from millrace.session import Query, Session
from millrace.session.template import Template

ATTRIBUTES = tuple(f"a{number}" for number in range(8))
RETAIN = "1 hour"
POLICIES = ("none", "lazy", "eager")
NAMES = {"none": "NoMat", "lazy": "PSoup-P", "eager": "PSoup-C"}
ROUNDS = 15


@contextmanager
def a_session(*streams: str, retain: str | int = RETAIN) -> Iterator[tuple[Session, LocalRun]]:
    """Open a session in a scratch directory, with streams that are fed by hand."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-psoup-"))
    columns = ", ".join(f"{name} int" for name in ATTRIBUTES)
    try:
        with Session(scratch, threads=False) as session:
            for name in streams:
                session.stream(name, Feed(f"{columns}, ts timestamp"), time="ts", retain=retain)
            run = session.start()
            assert isinstance(run, LocalRun), "a session without Spark runs here"
            yield session, run
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def rows(random: np.random.Generator, first: int, n_rows: int) -> pa.Table:
    """Return some rows, the first of which comes at the microsecond `first`."""
    columns = {name: pa.array(random.integers(0, 256, n_rows), pa.int32()) for name in ATTRIBUTES}
    times = pa.array(np.arange(first, first + n_rows), pa.int64())
    return pa.table({**columns, "ts": times.cast(pa.timestamp("us", "UTC"))})


def constants(random: np.random.Generator, n_constants: int) -> np.ndarray:
    """Return constants as the paper draws them."""
    round_ones = random.integers(0, 8, n_constants) * 32
    others = random.integers(0, 256, n_constants)
    return np.where(random.random(n_constants) < 0.2, round_ones, others)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of predicate: its text, and the constants of some queries."""

    name: str
    text: str
    bounds: tuple[str, ...]

    def template(self, session: Session, n_predicates: int, policy: str) -> Template:
        """Declare the queries of so many predicates."""
        texts = [self.text.replace("#", str(at)) for at in range(n_predicates)]
        named = {f"{each}{at}": "int" for at in range(n_predicates) for each in self.bounds}
        shown = ", ".join(ATTRIBUTES)
        return session.template(
            f"{self.name}_{n_predicates}_{policy}",
            f"SELECT {shown} FROM r WHERE {' AND '.join(texts)}",
            named,
            retain=RETAIN,
            policy=policy,
        )

    def insert(self, template: Template, n_predicates: int, n_queries: int) -> list[Query]:
        """Register queries; they are the same in every policy."""
        random = np.random.default_rng(n_predicates)
        given = {}
        for at in range(n_predicates):
            low = constants(random, n_queries)
            given[f"c{at}"] = pa.array(low, pa.int32())
            if len(self.bounds) > 1:
                width = random.integers(0, 256, n_queries)
                given[f"d{at}"] = pa.array(low + width, pa.int32())
        return [template.query(qid) for qid in template.insert(given).to_pylist()]


EQUALITY = Kind("equal", "a# = :c#", ("c",))
INTERVAL = Kind("interval", "a# >= :c# AND a# <= :d#", ("c", "d"))
INEQUALITY = Kind("above", "a# > :c#", ("c",))


def feed(run: LocalRun, n_rows: int, at_once: int, *streams: str) -> None:
    """Feed rows, as many at once; each stream gets its own."""
    randoms = {name: np.random.default_rng(number) for number, name in enumerate(streams)}
    for first in range(0, n_rows, at_once):
        n_now = min(at_once, n_rows - first)
        run.feed(**{name: rows(random, first, n_now) for name, random in randoms.items()})


def seconds_each(
    asked: Mapping[tuple[int, str], Sequence[Query]], windows: Sequence[int]
) -> dict[tuple[int, str, int], float]:
    """Return how long it takes to invoke a query, by number of predicates, policy and window.

    That is the median of rounds after a first one, each of which asks all queries for all windows
    in an order of its own: what disturbs the machine for a while, or what those before have left in
    its caches, then makes no window or policy slower than others.
    """
    found: dict[tuple[int, str, int], list[float]] = {}
    cases, random = [(*each, window) for each in asked for window in windows], Random(0)
    for _ in range(1 + ROUNDS):
        for count, policy, window in random.sample(cases, len(cases)):
            queries, begin = asked[count, policy], f"NOW - {window} us"
            begun = time.perf_counter()
            for query in queries:
                query.results(begin=begin)
            spent = (time.perf_counter() - begun) / len(queries)
            found.setdefault((count, policy, window), []).append(spent)
    return {each: median(found[each][1:]) for each in cases}
