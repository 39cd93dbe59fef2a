"""PSoup's experiments on our engine: what it costs to come back and ask, by policy.

    python -m bench.psoup                       Table 2, Figures 7a, 7b, 8 and 9
    python -m bench.psoup --only equality,join

NoMat evaluates the query over the rows that are retained, PSoup-P reads which rows are its answers
and applies the window then, PSoup-C reads answers that are rows of their own. Of joins there is no
PSoup-P: their answers are not rows of a stream. Everything is in process, in files that are mapped.
The paper's windows end at 65,536 rows; machines have grown, and so have ours. Results are kept by
`make bench-server` alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import psoup_claims as claims
from bench.drawing import Drawing, draw
from bench.psoup_runs import (
    EQUALITY,
    INEQUALITY,
    INTERVAL,
    NAMES,
    POLICIES,
    Kind,
    a_session,
    feed,
    rows,
    seconds_each,
)
from bench.report import Figure, progress, publish
from bench.timing import median_of
from millrace.kernels.containers import pack_places
from millrace.operators.select import matching
from millrace.plan.nodes import select
from millrace.plan.term import col
from millrace.session import Query, Session

WINDOWS = tuple(1 << power for power in (7, 9, 11, 13, 14, 15, 16))
LARGER = (*WINDOWS, 1 << 18, 1 << 20)
PAPER = 1 << 16
N_QUERIES = 16
AT_ONCE = 16_384

Lines = dict[str, dict[int, float]]


def invocations(kind: Kind, counts: tuple[int, ...], windows: tuple[int, ...]) -> dict[int, Lines]:
    """Measure invocations in ms, by number of predicates, policy and window."""
    found: dict[int, Lines] = {}
    with a_session("r") as (session, run):
        asked = {
            (count, policy): kind.insert(kind.template(session, count, policy), count, N_QUERIES)
            for count in counts
            for policy in POLICIES
        }
        feed(run, windows[-1], min(AT_ONCE, windows[-1] // 16), "r")
        for (count, policy, window), seconds in seconds_each(asked, windows).items():
            found.setdefault(count, {}).setdefault(policy, {})[window] = 1e3 * seconds
    for count, lines in found.items():
        told = ", ".join(
            f"{NAMES[each]} {line[windows[-1]]:.3f} ms" for each, line in lines.items()
        )
        progress(f"{kind.name}, {count}", told)
    return found


def equality(folder: Path) -> list[Figure]:
    """Figure 7a: response time by window, one to four equality predicates."""
    found = invocations(EQUALITY, (1, 2, 3, 4), LARGER)
    worst = all(ratio > 1 for ratio in rate_ratios(found, PAPER).values())
    slower = geometric_mean(each["lazy"][PAPER] / each["eager"][PAPER] for each in found.values())
    drawing = Drawing(
        "psoup-7a",
        "PSoup Figure 7a: invoking a query of equality predicates",
        "rows in the window",
        "ms for an invocation",
        "The paper: NoMat is worst; PSoup-P is two orders slower than PSoup-C, as it scans bits.",
        f"Here, at {PAPER:,} rows, the first {'held' if worst else 'did not hold'} and the second "
        f"{'held' if slower > 50 else 'did not'}: P takes {slower:.1f} times as long as C, in the "
        "geometric mean, since it reads the query's own sets and the rows they name.",
    )
    draw(drawing, labelled(found), folder)
    figures = []
    for window in (PAPER, LARGER[-1]):
        case = f"P's invocations a second by NoMat's, {window:,} rows"
        note = f"a quarter each of one to four equality predicates; {each_ratio(found, window)}"
        ratio = total(found, "none", window) / total(found, "lazy", window)
        figures.append(Figure(case, ratio, "at least", 10, "x", note))
    return [*figures, *claims.figure_7a(found, PAPER, LARGER[-1])]


def total(found: dict[int, Lines], policy: str, window: int) -> float:
    """Return how long it takes to invoke one query of each number of predicates."""
    return sum(each[policy][window] for each in found.values())


def interval(folder: Path) -> list[Figure]:
    """Figure 7b and Table 2: interval predicates."""
    found = invocations(INTERVAL, (1, 2, 4), WINDOWS)
    held = found[4]["none"][PAPER] > max(found[4]["lazy"][PAPER], found[4]["eager"][PAPER])
    drawing = Drawing(
        "psoup-7b",
        "PSoup Figure 7b: invoking a query of interval predicates",
        "rows in the window",
        "ms for an invocation",
        "The paper: PSoup-P and PSoup-C are about the same, NoMat is far worse.",
        "With four predicates: "
        + ("held" if held else "not held")
        + ". With one, answers are a third of the window, and handing them out costs more "
        "than finding them.",
    )
    draw(drawing, labelled(found), folder)
    at = 1 << 15
    reported = [
        Figure(
            f"Table 2: {count} interval{'s' if count > 1 else ''}, {NAMES[policy]}",
            found[count][policy][at],
            "reported",
            None,
            "ms",
            f"window {at:,}",
        )
        for count in found
        for policy in POLICIES
    ]
    return [*reported, *claims.figure_7b(found, PAPER), *claims.table_2(found, at)]


def labelled(found: dict[int, Lines]) -> dict[str, dict[int, float]]:
    """Name the lines of a figure."""
    return {
        f"{NAMES[policy]}, {count} predicate{'s' if count > 1 else ''}": line
        for count, lines in found.items()
        for policy, line in lines.items()
    }


def rate_ratios(found: dict[int, Lines], window: int) -> dict[int, float]:
    """Return how many times as many invocations P answers in a second, by number of predicates."""
    return {count: each["none"][window] / each["lazy"][window] for count, each in found.items()}


def each_ratio(found: dict[int, Lines], window: int) -> str:
    """Tell the ratios one by one."""
    ratios = rate_ratios(found, window)
    return ", ".join(f"{count}: {ratio:.1f} x" for count, ratio in ratios.items())


def join(folder: Path) -> list[Figure]:
    """Figure 8: a join of two streams by an inequality, by policy, and by another engine."""
    sizes = (64, 128, 256, 576, 1_000)
    policies = ("none", "eager")
    lines: Lines = {NAMES[each]: {} for each in policies} | {"DuckDB over the history": {}}
    for size in sizes:
        with a_session("r", "s") as (session, run), duckdb.connect() as database:
            text = (
                "SELECT ISTREAM(r.a0, s.a1) "
                f"FROM r [RANGE {size} us], s [RANGE {size} us] WHERE r.a0 > s.a1 + 200"
            )
            asked = {
                each: session.query(text, name=f"joined_{each}", retain="30 minutes", policy=each)
                for each in policies
            }
            feed(run, 2 * size, max(size // 4, 1), "r", "s")
            told = {each: invoked(query, size) for each, query in asked.items()}
            assert told["none"].equals(told["eager"]), "how answers are kept cannot be seen"
            for each, query in asked.items():
                lines[NAMES[each]][size] = 1e3 * median_of(partial(invoked, query, size))
            by_duckdb = 1e3 * median_of(partial(joined, session, database, size))
            lines["DuckDB over the history"][size] = by_duckdb
        shown = ", ".join(f"{name} {each[size]:.2f} ms" for name, each in lines.items())
        progress("join", f"{size:>5} rows: {shown}")
    ratio = lines["NoMat"][sizes[-1]] / lines["PSoup-C"][sizes[-1]]
    drawing = Drawing(
        "psoup-8",
        "PSoup Figure 8: invoking a join of two streams by an inequality",
        "rows in each window",
        "ms for an invocation",
        "The paper: NoMat is two orders worse; with 576 rows P takes 30 ms and C 8.5 ms.",
        f"NoMat, which runs the join anew, takes {ratio:.1f} times as long as C with {sizes[-1]:,} "
        "rows. There is no line for P: answers of joins are not rows of a stream (decision 36).",
    )
    draw(drawing, lines, folder)
    return claims.figure_8(lines)


def invoked(query: Query, size: int) -> pa.Table:
    """Ask for the answers of the last so many microseconds."""
    return query.results(begin=f"NOW - {size} us")


def joined(session: Session, database: duckdb.DuckDBPyConnection, size: int) -> pa.Table:
    """Join the retained rows of both streams in a database that is open, without windows within."""
    for name in ("r", "s"):
        rows = session.history(name)
        database.register(name, rows.filter(pc.greater_equal(rows["_time"], size)))
    found = database.sql("SELECT r.a0, s.a1 FROM r, s WHERE r.a0 > s.a1 + 200")
    return found.to_arrow_table()


def arrival(folder: Path) -> list[Figure]:
    """Figure 9: how many rows a second can come, by number of standing queries."""
    numbers = tuple(1 << power for power in range(7, 13))
    lines: Lines = {}
    for n_queries in numbers:
        for policy in ("lazy", "eager"):
            for shared in (True, False):
                name = f"{NAMES[policy]}, index {'shared' if shared else 'unshared'}"
                measure = shared_arrival if shared else unshared_arrival
                lines.setdefault(name, {})[n_queries] = measure(policy, n_queries)
        told = ", ".join(f"{name} {each[n_queries]:,.0f}/s" for name, each in lines.items())
        progress("arrival", f"{n_queries:>5} queries: {told}")
    best = max(lines, key=lambda each: lines[each][numbers[-1]])
    rates = {name: each[numbers[-1]] for name, each in lines.items()}
    p, alone = rates["PSoup-P, index shared"], rates["PSoup-P, index unshared"]
    drawing = Drawing(
        "psoup-9",
        "PSoup Figure 9: the rate of rows that can come, inequality predicates, window 1,000",
        "standing queries",
        "rows a second",
        "The paper: P with a shared index is best, 10 times P without, 100 times both C.",
        f"Best here: {best}. P shared is {p / alone:.1f} times P unshared and "
        f"{p / rates['PSoup-C, index shared']:.1f} times C shared; those with the index also "
        "commit to disk.",
    )
    draw(drawing, lines, folder)
    reported = {
        "P shared by P unshared": p / alone,
        "P shared by C shared": p / rates["PSoup-C, index shared"],
    }
    note = f"Figure 9, {numbers[-1]:,} queries"
    return claims.figure_9(lines) + [
        Figure(f"rows a second, {what}", ratio, "reported", None, "x", note)
        for what, ratio in reported.items()
    ]


def shared_arrival(policy: str, n_queries: int) -> float:
    """Return the rows a second of whole epochs, with their commits."""
    n_rows = max(1 << 20 >> n_queries.bit_length(), 256)
    with a_session("r") as (session, run):
        template = session.template(
            "above", "SELECT a0, a1 FROM r WHERE a0 > :c0", c0="int", retain=1_000, policy=policy
        )
        INEQUALITY.insert(template, 1, n_queries)
        random, spent = np.random.default_rng(0), []
        for epoch in range(8):
            batch = rows(random, epoch * n_rows, n_rows)
            begun = time.perf_counter()
            run.feed(r=batch)
            spent.append(time.perf_counter() - begun)
    return n_rows / median(spent[2:])


def unshared_arrival(policy: str, n_queries: int) -> float:
    """Return the rows a second when each query is evaluated by itself; nothing is committed."""
    n_rows = max(1 << 20 >> n_queries.bit_length(), 256)
    random = np.random.default_rng(0)
    asked = select("r", "a0", "a1", where=col("a0") > col("a1"))
    limits = random.integers(0, 256, n_queries).astype(np.int32)
    batch = rows(random, 0, n_rows).combine_chunks().to_batches()[0]
    at = batch.schema.get_field_index("a1")
    begun = time.perf_counter()
    for limit in limits.tolist():
        one = batch.set_column(at, "a1", pa.repeat(pa.scalar(limit, pa.int32()), n_rows))
        found = matching(asked, one, {}).to_numpy()
        if policy == "eager":
            batch.take(pa.array(found))
        elif found.size:
            pack_places(found.astype(np.uint16), np.array([0, found.size]))
    return n_rows / (time.perf_counter() - begun)


FIGURES = Path(__file__).parent / "figures"
CASES: dict[str, Callable[[Path], list[Figure]]] = {
    "equality": equality,
    "interval": interval,
    "join": join,
    "arrival": arrival,
}


def experiments(names: Iterable[str] = tuple(CASES)) -> list[Figure]:
    """Run some of the cases, and draw their figures."""
    return [each for name in names for each in CASES[name](FIGURES)]


def main() -> None:
    """Run the cases, draw the figures and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    asked = parser.parse_args()
    publish("PSoup's experiments", experiments(asked.only.split(",")))


if __name__ == "__main__":
    main()
