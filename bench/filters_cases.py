"""The cases of the filter benchmark that measure rows a second."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.parquet as pq

from bench.epoch_runs import until
from bench.filters_arena import Arena, checked, compared, in_words, ratio
from bench.filters_rivals import (
    Span,
    arrow_loop,
    identity,
    identity_to_parquet,
    join,
    numpy_loop,
)
from bench.filters_rules import RULE_COLUMNS, draw_rules, log_rows, rule_text
from bench.filters_runs import Contestant, CountSink, TimedParquetSink
from bench.filters_workloads import (
    ALERT_COLUMNS,
    ALERT_TEXT,
    CACQ_COLUMNS,
    Alerts,
    Counts,
    alert_counts,
    cacq,
    cacq_rows,
)
from bench.report import Figure

CACQ_ROWS = 400_000
LARGE_ROWS = 800_000  # the most with which an epoch of I stays below a second
JOIN_ROWS = 20_000  # some seconds' work for J, beside which Spark's fixed cost is small
ALERT_ROWS = 400_000
MATCH_ROWS = 100_000
RULE_ROWS = 20_000
SPAN = Span(warm=5, epochs=8)
SLOW = Span(warm=1, epochs=2)


def cacq_10k(arena: Arena) -> list[Figure]:
    """Count the matches of 10,000 CACQ queries: against I, J and N."""
    n = arena.n(10_000)
    given = arena.input("cacq-10k", CACQ_COLUMNS, cacq_rows(LARGE_ROWS // 2), epochs=180)
    few = arena.input("cacq-join", CACQ_COLUMNS, cacq_rows(JOIN_ROWS // 2), epochs=10)
    spark, truth = arena.spark, np.zeros(n, np.int64)

    def loop() -> float:
        rate, truth[:] = numpy_loop(spark, given, SLOW, n_queries=n)
        return rate

    with (
        Contestant(spark, arena.scratch / "cacq-10k-root", given, CountSink()) as files,
        Contestant(
            spark, arena.scratch / "cacq-10k-rows", given, CountSink(), descriptors=False
        ) as general,
    ):
        texts = cacq(n).texts()
        qids = files.session.queries(texts, into="cacq")
        general_qids = general.session.queries(texts, into="cacq")
        rates = arena.compete(
            "cacq",
            {
                "I": lambda: identity(spark, given, SPAN),
                "ours": lambda: files.rate(SPAN),
                "general": lambda: general.rate(SPAN),
            },
            {"N": loop, "J": lambda: join(spark, few, SLOW, n_queries=n)},
        )
        mine, other = counted(files, qids), counted(general, general_qids)
    arena.point("J", n, median(rates["J"]))  # the others again in the sweep, in equal epochs
    epoch = f"epochs of {given.rows:,} rows, {given.rows / median(rates['ours']) * 1e3:.0f} ms"
    what = f"{n:,} CACQ queries, counts"
    wanted = (("I", 0.7, epoch), ("J", 200, f"J on {few.rows:,} rows an epoch"), ("N", 10, ""))
    figures = []
    for name, required, how in wanted:
        note = ", ".join(filter(None, (compared(rates, "ours", name), how)))
        value = ratio(rates, "ours", name)
        figure = Figure(f"{what}, of {name}", value, "at least", required, "x", note)
        figures.append(checked(figure, mine, truth))
    value, note = ratio(rates, "general", "I"), compared(rates, "general", "I")
    figure = Figure(f"{what}, general path, of I", value, "reported", None, "x", note)
    return [*figures, checked(figure, other, truth)]


def cacq_100k(arena: Arena) -> list[Figure]:
    """Count the matches of 100,000 CACQ queries: against I."""
    n, spark = arena.n(100_000), arena.spark
    given = arena.input("cacq-100k", CACQ_COLUMNS, cacq_rows(CACQ_ROWS // 2), epochs=180)
    with Contestant(spark, arena.scratch / "cacq-100k-root", given, CountSink()) as ours:
        qids = ours.session.queries(cacq(n).texts(), into="cacq")
        arena.say("cacq100k", f"{n:,} queries registered")
        rates = arena.compete(
            "cacq100k",
            {"I": lambda: identity(spark, given, SPAN), "ours": lambda: ours.rate(SPAN)},
        )
        mine = counted(ours, qids)
    loop, truth = numpy_loop(spark, given, Span(0, 1), n_queries=n)
    arena.say("cacq100k", f"N, one epoch, for the counts: {in_words(loop)} rows/s")
    arena.point("cacq", n, median(rates["ours"]))
    arena.point("N", n, loop)
    took = given.rows / median(rates["ours"]) * 1e3
    note = f"{compared(rates, 'ours', 'I')}, epochs of {given.rows:,} rows, {took:.0f} ms"
    case = f"{n:,} CACQ queries, counts, of I"
    value = ratio(rates, "ours", "I")
    return [checked(Figure(case, value, "at least", 0.4, "x", note), mine, truth)]


def alerts(arena: Arena) -> list[Figure]:
    """Every match of 1,000,000 alerts a row in Parquet: against I with as many rows out."""
    population = Alerts(arena.n(1_000_000), 10_000, 5)
    rows, parameters = population.rows(MATCH_ROWS // 2), population.parameters()
    given = arena.input("alerts", ALERT_COLUMNS, rows, epochs=250)
    truth = 2 * alert_counts(parameters, rows)
    copies = round(truth.sum() / given.rows)
    sink = TimedParquetSink(arena.scratch / "alerts-public")
    lags: list[int] = []

    def public_rate(ours: Contestant) -> float:
        """Time epochs until their files are public, with the wait for the last of them."""
        sink.public.clear()
        with ours.running():
            ours.wait_epochs(SPAN.warm)
            begun = ours.ends[SPAN.warm - 1]
            ours.wait_for(lambda: len(sink.public) >= SPAN.warm + SPAN.epochs)
            lags.append(len(ours.ends) - len(sink.public))
            ended = sink.public[SPAN.warm + SPAN.epochs - 1]
        until(lambda: len(sink.public) >= len(ours.ends))
        return SPAN.epochs * given.rows / (ended - begun)

    with Contestant(arena.spark, arena.scratch / "alerts-root", given, sink) as ours:
        template = ours.session.template("alerts", ALERT_TEXT, sym="text", low="double")
        qids = template.insert(parameters).to_pylist()
        arena.say("alerts", f"{len(qids):,} queries, {copies} matches a row")
        rates = arena.compete(
            "alerts",
            {
                "I": lambda: identity_to_parquet(arena.spark, given, SPAN, copies=copies),
                "ours": lambda: public_rate(ours),
            },
        )
    note = (
        f"{compared(rates, 'ours', 'I')}, {copies} rows out for each, until public; "
        f"the sink was {max(lags)} epochs behind at most"
    )
    case = f"{population.n_queries:,} alerts, every match to Parquet, of I"
    figure = Figure(case, ratio(rates, "ours", "I"), "at least", 0.3, "x", note)
    return [checked(figure, counts_in_parquet(arena.scratch / "alerts-public", qids), truth)]


def scaling(arena: Arena) -> list[Figure]:
    """Count about one match a row for 100 alerts, and for 100,000."""
    few, many = Alerts(100, 100, 1), Alerts(arena.n(100_000), 100, 1)
    rows = few.rows(ALERT_ROWS // 2)
    given = arena.input("scaling", ALERT_COLUMNS, rows, epochs=180)
    spark, scratch = arena.spark, arena.scratch
    with (
        Contestant(spark, scratch / "scaling-few", given, CountSink()) as small,
        Contestant(spark, scratch / "scaling-many", given, CountSink()) as large,
    ):
        few_qids, many_qids = with_alerts(small, few), with_alerts(large, many)
        rates = arena.compete(
            "scaling",
            {
                "I": lambda: identity(spark, given, SPAN),
                "few": lambda: small.rate(SPAN),
                "many": lambda: large.rate(SPAN),
            },
        )
        mine = np.concatenate((counted(small, few_qids), counted(large, many_qids)))
    truth = np.concatenate([2 * alert_counts(each.parameters(), rows) for each in (few, many)])
    arena.point("alerts", few.n_queries, median(rates["few"]))
    arena.point("alerts", many.n_queries, median(rates["many"]))
    matches = [each.sum() / given.rows for each in np.split(truth, [few.n_queries])]
    note = (
        f"{compared(rates, 'few', 'many')}, I {in_words(median(rates['I']))}; "
        f"{matches[0]:.2f} and {matches[1]:.2f} matches a row"
    )
    case = f"alerts, {few.n_queries:,} queries of {many.n_queries:,}, counts"
    value = ratio(rates, "few", "many")
    return [checked(Figure(case, value, "at most", 2, "x", note), mine, truth)]


def texts(arena: Arena) -> list[Figure]:
    """Count the matches of 3,000 text rules: against a loop over the rules with Arrow."""
    n, spark = arena.n(3_000), arena.spark
    given = arena.input("texts", RULE_COLUMNS, log_rows(RULE_ROWS // 2), epochs=180)
    truth, span = np.zeros(n, np.int64), Span(warm=5, epochs=5)

    def loop() -> float:
        rate, truth[:] = arrow_loop(spark, given, Span(0, 1), n_rules=n)
        return rate

    with Contestant(spark, arena.scratch / "texts-root", given, CountSink()) as ours:
        qids = ours.session.queries([rule_text(each) for each in draw_rules(n)], into="rules")
        arena.say("texts", f"{n:,} rules registered")
        rates = arena.compete(
            "texts",
            {"I": lambda: identity(spark, given, span), "ours": lambda: ours.rate(span)},
            {"A": loop},
        )
        mine = counted(ours, qids)
    note = (
        f"{compared(rates, 'ours', 'A')}, I {in_words(median(rates['I']))}; epochs of "
        f"{given.rows:,} rows, {given.rows / median(rates['ours']) * 1e3:.0f} ms; "
        f"{truth.sum() / given.rows:.2f} matches a row, {np.count_nonzero(truth):,} rules match"
    )
    case = f"{n:,} text rules, of a loop with Arrow"
    figure = Figure(case, ratio(rates, "ours", "A"), "at least", 10, "x", note)
    return [checked(figure, mine, truth)]


def with_alerts(contestant: Contestant, population: Alerts) -> list[int]:
    """Register a population of alerts; return their ids."""
    template = contestant.session.template("alerts", ALERT_TEXT, sym="text", low="double")
    ids: list[int] = template.insert(population.parameters()).to_pylist()
    return ids


def counted(contestant: Contestant, qids: list[int]) -> Counts:
    """Return the counts of an epoch; all -1 if they were not the same in every epoch."""
    sink = contestant.sink
    assert isinstance(sink, CountSink), "counts were asked for"
    return sink.counts(qids) if len(sink.totals) == 1 else np.full(len(qids), -1)


def counts_in_parquet(directory: Path, qids: list[int]) -> Counts:
    """Count the rows of each query in the file that was written last."""
    newest = max(directory.glob("*/part-*.parquet"), key=lambda each: each.name)
    found = pq.read_table(newest, columns=["_query"])["_query"].to_numpy()
    first = min(qids)
    assert qids == list(range(first, first + len(qids))), "ids of one call follow each other"
    return np.bincount(found - first, minlength=len(qids)).astype(np.int64)
