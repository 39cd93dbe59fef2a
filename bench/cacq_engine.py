"""CACQ's Figures 6a and 6b on the engine, in process, with all that it makes durable."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.cacq_eddy import ATTRIBUTES, DOMAIN, rows
from bench.drawing import Drawing, draw, verdict
from bench.report import Figure, progress
from millrace.connectors.sinks.callback import CallbackSink
from millrace.engine.local import Feed, LocalRun
from millrace.session import Session

COMPARISONS = ("<", ">", "<=", ">=")
EPOCH, WARM, TIMED = 32_768, 2, 5


def queries(folder: Path) -> list[Figure]:
    """Figure 6a: answers a second by number of queries; all in one engine, or one each."""
    random = np.random.default_rng(6)
    texts = [asked(random) for _ in range(1_024)]
    shared, alone = {}, {}
    for count in (1, 2, 5, 10, 20, 50, 200, 1_024):
        shared[count] = answers_a_second([texts[:count]])
        if count <= 50:  # each has a root of its own, and an epoch
            alone[count] = answers_a_second([[text] for text in texts[:count]])
        progress(
            "queries", f"{count:>5}: {shared[count]:,.0f}/s shared, {alone.get(count, 0):,.0f}/s"
        )
    ratio = shared[50] / alone[50]
    best = max(alone, key=alone.__getitem__)
    share = alone[best] / max(shared[count] for count in alone)
    held = {
        "one engine rises up to 20 queries": shared[20] > 1.5 * shared[1],
        "it stays beyond (within 1.5 times)": all(
            1 / 1.5 <= shared[count] / shared[20] <= 1.5 for count in shared if count > 20
        ),
        "one for each has its best with about 5 (2 to 10)": 2 <= best <= 10,
        "at about half (0.3 to 0.7)": 0.3 <= share <= 0.7,
    }
    drawing = Drawing(
        "cacq-6a",
        "CACQ Figure 6a: answers a second by number of queries",
        "queries",
        "answers a second",
        "The paper: CACQ rises up to 20 queries and stays; an eddy for each query has its best, "
        "about half of that, with 5.",
        verdict(
            held,
            f"one engine has {shared[20] / shared[1]:.1f} times the answers of one query with 20, "
            f"{shared[1_024] / shared[20]:.1f} times as many again with 1,024; engines of one "
            f"query each have their best with {best}, {100 * share:.0f} % of one engine's best up "
            f"to 50; with 50 one engine is {ratio:.1f} times these.",
        ),
    )
    draw(drawing, {"one engine": shared, "one for each query": alone}, folder)
    note = "50 queries, Figure 6a"
    return [Figure("answers a second, one engine by 50", ratio, "reported", None, "x", note)]


def asked(random: np.random.Generator) -> str:
    """Return a query as the paper draws it: half of the attributes have a predicate."""
    parts = [
        f"{name} {COMPARISONS[random.integers(4)]} {random.integers(DOMAIN)}"
        for name in ATTRIBUTES
        if random.random() < 0.5
    ]
    return "SELECT n FROM s" + (f" WHERE {' AND '.join(parts)}" if parts else "")


def answers_a_second(groups: Sequence[Sequence[str]]) -> float:
    """Return the rate of engines, each with some of the queries, that run one after the other."""
    seconds, answers = 0.0, 0
    for texts in groups:
        with engine(["s"], texts) as run:
            taken, answered = timed_epochs(run, ["s"])
        seconds, answers = seconds + taken, answers + answered
    return answers / seconds


def sources(folder: Path) -> list[Figure]:
    """Figure 6b: rows a second by number of sources; 20 queries in all, on one attribute."""
    line = {}
    for count in (1, 2, 4, 8, 16):
        names = [f"s{number}" for number in range(count)]
        texts = [
            f"SELECT n FROM {names[number % count]} WHERE a > {number * 5}" for number in range(20)
        ]
        with engine(names, texts) as run:
            taken, _ = timed_epochs(run, names)
        line[count] = EPOCH * TIMED / taken
        progress("sources", f"{count:>5}: {line[count]:,.0f} rows/s")
    drop = line[1] / line[16]
    drawing = Drawing(
        "cacq-6b",
        "CACQ Figure 6b: rows a second by number of sources, 20 queries",
        "sources",
        "rows a second",
        "The paper: it declines mildly with the number of sources.",
        verdict(
            {"it declines mildly (by less than 4 times)": 1 < drop < 4},
            f"{drop:.1f} times slower with 16 sources than with one, at as many rows an epoch.",
        ),
    )
    draw(drawing, {"one engine": line}, folder)
    return [Figure("rows a second, 1 source by 16", drop, "reported", None, "x", "Figure 6b")]


@contextmanager
def engine(streams: Sequence[str], texts: Sequence[str]) -> Iterator[LocalRun]:
    """Open an engine that counts the answers of queries."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-cacq-"))
    columns = ", ".join(f"{name} int" for name in ATTRIBUTES)
    try:
        with Session(scratch, threads=False) as session:
            for name in streams:
                session.stream(name, Feed(f"n bigint, {columns}, ts timestamp"), time="ts")
            session.sink(CallbackSink(lambda *_: None, name="counts", fan_out="counts"))
            for stream, mine in groupby(sorted(texts, key=stream_of), stream_of):
                some = [*mine]
                names = [f"{stream}_{number}" for number in range(len(some))]
                session.queries(some, into=f"of_{stream}", names=names)
            run = session.start()
            assert isinstance(run, LocalRun), "a session without Spark runs here"
            yield run
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def stream_of(text: str) -> str:
    """Return the stream that a query reads."""
    return text.partition(" FROM ")[2].partition(" ")[0]


def timed_epochs(run: LocalRun, streams: Sequence[str]) -> tuple[float, int]:
    """Run some epochs; return what the timed ones took in all, and how many answers they had."""
    random = np.random.default_rng(1)
    spent, answers = [], 0
    for epoch in range(WARM + TIMED):
        n_rows = EPOCH // len(streams)
        given = {name: table(random, epoch * EPOCH, n_rows) for name in streams}
        begun = time.perf_counter()
        statistics = run.feed(**given)
        spent.append(time.perf_counter() - begun)
        answers += statistics.results if epoch >= WARM else 0
    return TIMED * median(spent[WARM:]), answers


def table(random: np.random.Generator, first: int, n_rows: int) -> pa.Table:
    """Return rows of the stream, with a number and a time of their own."""
    numbers = pa.array(np.arange(first, first + n_rows))
    values = rows(random, n_rows).astype(np.int32)
    columns = {name: pa.array(values[:, at]) for at, name in enumerate(ATTRIBUTES)}
    return pa.table({"n": numbers, **columns, "ts": numbers.cast(pa.timestamp("us", "UTC"))})
