"""The points of the plot that no other case measures: rows a second by number of queries."""

from __future__ import annotations

from bench.filters_arena import Arena, in_words
from bench.filters_cases import CACQ_ROWS, JOIN_ROWS, SPAN, with_alerts
from bench.filters_rivals import Input, Span, identity, join, numpy_loop, separate_queries
from bench.filters_runs import Contestant, CountSink
from bench.filters_workloads import ALERT_COLUMNS, CACQ_COLUMNS, Alerts, cacq, cacq_rows
from bench.report import Figure

NUMBERS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
MOST_CACQ = 100_000
MOST_NUMPY = 10_000
JOIN_PAIRS = 10_000 * JOIN_ROWS
"""Pairs of row and query in an epoch of J: the more queries, the fewer rows."""
SECONDS_TO_START = 20.0
Q_ROWS = 100_000
Q_EPOCHS = 4


def sweep(arena: Arena) -> list[Figure]:
    """Measure what is missing, once each, and Q."""
    rows = cacq_rows(CACQ_ROWS // 2)
    given = arena.input("sweep-cacq", CACQ_COLUMNS, rows, epochs=30)
    for wanted in NUMBERS:
        n = arena.n(wanted) if arena.scale < 1 else wanted
        _identity(arena, given, n)
        if wanted <= MOST_CACQ:
            _cacq(arena, given, n)
        if wanted <= MOST_NUMPY:
            _rivals(arena, given, n)
        _alerts(arena, n)
    return _separate(arena)


def _known(arena: Arena, contestant: str, n: int) -> bool:
    return n in arena.points.get(contestant, {})


def _found(arena: Arena, contestant: str, n: int, rate: float) -> None:
    arena.point(contestant, n, rate)
    arena.say("sweep", f"{contestant} with {n:,} queries: {in_words(rate)} rows/s")


def _identity(arena: Arena, given: Input, n: int) -> None:
    """I has no queries: one measurement serves for all numbers."""
    measured = list(arena.points.get("I", {}).values())
    rate = measured[0] if measured else identity(arena.spark, given, SPAN)
    arena.point("I", n, rate)


def _cacq(arena: Arena, given: Input, n: int) -> None:
    if _known(arena, "cacq", n):
        return
    with Contestant(arena.spark, arena.scratch / f"sweep-{n}", given, CountSink()) as ours:
        ours.session.queries(cacq(n).texts(), into="cacq")
        _found(arena, "cacq", n, ours.rate(SPAN))


def _rivals(arena: Arena, given: Input, n: int) -> None:
    if not _known(arena, "N", n):
        _found(arena, "N", n, numpy_loop(arena.spark, given, Span(2, 3), n_queries=n)[0])
    if not _known(arena, "J", n):
        rows = min(JOIN_PAIRS // n, CACQ_ROWS)
        some = arena.input(f"sweep-join-{n}", CACQ_COLUMNS, cacq_rows(rows // 2), epochs=5)
        _found(arena, "J", n, join(arena.spark, some, Span(1, 2), n_queries=n))


def _alerts(arena: Arena, n: int) -> None:
    if _known(arena, "alerts", n):
        return
    population = Alerts(n, 100, 1)
    name = f"sweep-alerts-{n}"
    given = arena.input(name, ALERT_COLUMNS, population.rows(CACQ_ROWS // 2), epochs=30)
    with Contestant(arena.spark, arena.scratch / f"{name}-root", given, CountSink()) as ours:
        with_alerts(ours, population)
        _found(arena, "alerts", n, ours.rate(SPAN))


def _separate(arena: Arena) -> list[Figure]:
    figures = []
    for most in (10, 100):
        given = arena.input(f"sweep-q-{most}", CACQ_COLUMNS, cacq_rows(Q_ROWS // 2), epochs=2)
        rate, n = separate_queries(
            arena.spark, given, epochs=Q_EPOCHS, most=most, seconds=SECONDS_TO_START
        )
        _found(arena, "Q", n, rate)
        note = f"{n} of {most} started within {SECONDS_TO_START:.0f} s; epochs of {Q_ROWS:,} rows"
        case = f"Q, one StreamingQuery for each of {most}"
        figures.append(Figure(case, rate, "reported", None, "rows/s", note))
    return figures
