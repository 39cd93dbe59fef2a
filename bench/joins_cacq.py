"""CACQ's experiments with joins: stocks and the articles about them.

    SELECT ... FROM stocks s, articles a WHERE s.symbol = a.symbol AND s.price > :x

    ours        the queries as rows of a template
    PullUp      one standing join of all rows, then the selections of all queries, grouped
    PushDown    a standing query of its own for each, which selects before it joins

All run in process and make their answers durable: ours as rows with the sets of their queries,
which sinks get as rows of each query when they are delivered; that is measured apart. The
selections of PullUp are an index over the constants, and its answers are gathered and written as
Arrow; what it spends in the engine is the one join.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.drawing import Drawing, draw
from bench.report import Figure, progress
from millrace.connectors.sinks.memory import MemorySink
from millrace.engine.local import Feed, LocalRun
from millrace.session import Session

STOCKS = "symbol bigint, price double, ts timestamp"
ARTICLES = "symbol bigint, body text, ts timestamp"
JOINED = (
    "SELECT ISTREAM(s.symbol, s.price, a.body, s.ts AS quoted, a.ts AS written) "
    "FROM articles [RANGE 1 HOUR] a, stocks [RANGE 1 HOUR] s WHERE s.symbol = a.symbol"
)
COLUMNS = ("symbol", "price", "body", "quoted", "written")
N_STOCKS, ROUNDS, APART = 2_250, 5, 10_000_000
COUNTS = (1, 10, 50, 100, 200)
N_DEAR, ARTICLES_EACH, N_QUOTES = 100, (1, 10, 100), 16
FEWER = (1, 2, 4, 8)
LEAST_SPIN, MOST_SPIN = 10e-6, 500e-6
"""How long a function takes for a row, in seconds: each query's has a time of its own."""


@contextmanager
def engine(
    streams: Mapping[str, str], declare: Callable[[Session], object]
) -> Iterator[tuple[LocalRun, Session]]:
    """Open an engine with some streams and queries."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-joins-"))
    try:
        with Session(scratch, threads=False) as session:
            for name, columns in streams.items():
                session.stream(name, Feed(columns), time="ts", delay="0 seconds")
            session.sink(MemorySink())
            declare(session)
            run = session.start()
            assert isinstance(run, LocalRun), "a session without Spark runs here"
            yield run, session
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def stamped(first: int, n_rows: int) -> pa.Array:
    """Return times that ascend."""
    return pa.array(np.arange(first, first + n_rows)).cast(pa.timestamp("us", "UTC"))


def articles(n_symbols: int, each: int) -> pa.Table:
    """Return articles of 200 to 1,000 bytes, so many for each symbol."""
    random = np.random.default_rng(2)
    symbols = np.repeat(np.arange(n_symbols), each)
    bodies = ["x" * length for length in random.integers(200, 1_000, len(symbols)).tolist()]
    return pa.table({"symbol": symbols, "body": bodies, "ts": stamped(0, len(symbols))})


def quotes(n_symbols: int, first: int) -> pa.Table:
    """Return a quote of each symbol; prices are uniform in 0 to 100."""
    prices = 100 - np.random.default_rng(first).random(n_symbols) * 100
    return pa.table(
        {"symbol": np.arange(n_symbols), "price": prices, "ts": stamped(first, n_symbols)}
    )


def clocks(at: int) -> tuple[pa.Table, pa.Table]:
    """Return a quote and an article that move time on, and are joined with nothing."""
    quote = quotes(1, at).set_column(0, "symbol", pa.array([-1]))
    article = articles(1, 1).set_column(0, "symbol", pa.array([-2]))
    return quote, article.set_column(2, "ts", quote.column("ts"))


def seconds(
    declare: Callable[[Session], object],
    *,
    n_symbols: int,
    each: int,
    then: Callable[[Session], object] | None = None,
    rounds: int = ROUNDS,
) -> float:
    """Return what an epoch of quotes takes, and what is done with its answers; the median."""
    streams, spent = {"stocks": STOCKS, "articles": ARTICLES}, []
    with engine(streams, declare) as (run, session):
        run.feed(articles=articles(n_symbols, each))
        for number in range(rounds + 1):
            first = (number + 1) * APART
            given = quotes(n_symbols, first)
            last, clock = clocks(first + 1_000_000)
            begun = time.perf_counter()
            run.feed(stocks=pa.concat_tables([given, last]), articles=clock)
            if then is not None:
                then(session)
            spent.append(time.perf_counter() - begun)
    return median(spent[1:])


# ---- C6: selections on the price -----------------------------------------------------------------


def stocks(folder: Path) -> list[Figure]:
    """Figure 11a: an epoch of 2,250 quotes by number of queries."""
    names = ("ours", "ours, delivered", "PullUp", "PushDown")
    lines: dict[str, dict[int, float]] = {name: {} for name in names}
    for count in COUNTS:
        limits = np.arange(count) * (100 / count)  # together they take every quote
        measured = {
            "ours": lambda limits=limits: seconds(template_of(limits), n_symbols=N_STOCKS, each=1),
            "ours, delivered": lambda limits=limits: seconds(
                template_of(limits), n_symbols=N_STOCKS, each=1, then=delivered
            ),
            "PullUp": lambda limits=limits: seconds(
                one_join, n_symbols=N_STOCKS, each=1, then=PullUp(limits)
            ),
            "PushDown": lambda limits=limits: seconds(
                one_each(limits), n_symbols=N_STOCKS, each=1, rounds=2
            ),
        }
        for name, measure in measured.items():
            lines[name][count] = 1e3 * measure()
        told = ", ".join(f"{name} {line[count]:.0f} ms" for name, line in lines.items())
        progress("stocks", f"{count:>4} queries: {told}")
    least = min(lines["PullUp"][count] / lines["ours"][count] for count in COUNTS)
    drawing = Drawing(
        "cacq-11a",
        "CACQ Figure 11a: stocks joined with articles, selections on the price",
        "queries",
        f"ms for {N_STOCKS:,} quotes",
        "The paper: CACQ is faster than PullUp with few queries and slightly slower with many; "
        "PushDown is worst.",
        f"Here ours is at least {least:.2f} times as fast as PullUp.",
    )
    draw(drawing, lines, folder)
    late = min(lines["PullUp"][count] / lines["ours, delivered"][count] for count in COUNTS)
    note = (
        "the least of 1 to 200 queries, Figure 11a; ours is durable as rows with sets of queries; "
        f"{late:.2f} x where a sink has also got a row for each query"
    )
    return [Figure("stocks and articles, PullUp by ours", least, "at least", 1, "x", note)]


def delivered(session: Session) -> None:
    """Hand the sink a row for each query."""
    session.engine.delivery.pump()


def template_of(limits: np.ndarray) -> Callable[[Session], object]:
    """Declare the queries as rows of a template."""
    text = f"{JOINED} AND s.price > :x"
    return lambda session: session.template("asked", text, x="double").insert({"x": limits})


def one_join(session: Session) -> object:
    """Declare the join of all rows."""
    return session.query(JOINED, name="joined", keep=N_STOCKS * ARTICLES_EACH[-1])


def one_each(limits: np.ndarray) -> Callable[[Session], object]:
    """Declare a query for each limit."""

    def declare(session: Session) -> None:
        for number, limit in enumerate(limits.tolist()):
            session.query(f"{JOINED} AND s.price > {limit!r}", name=f"q{number}")

    return declare


class PullUp:
    """Selects what a join has told for all queries at once, and writes their answers."""

    def __init__(self, limits: np.ndarray) -> None:
        self._limits = np.sort(limits)

    def __call__(self, session: Session) -> None:
        """Find the queries of each row by its price; the newest epoch is what counts."""
        newest = newest_of(session)
        counts = np.searchsorted(self._limits, newest["price"].to_numpy(), side="left")
        rows = np.repeat(np.arange(len(counts)), counts)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        written(newest, rows, np.arange(len(rows)) - starts)


def newest_of(session: Session) -> pa.Table:
    """Return what the one join has told in the newest epoch."""
    told = session.standing("joined").results()  # type: ignore[union-attr]
    quoted = told["quoted"].cast(pa.int64())
    return told.filter(pc.greater(quoted, pc.subtract(pc.max(quoted), APART // 2)))


def written(told: pa.Table, rows: np.ndarray, queries: np.ndarray) -> None:
    """Write answers, and wait until they are durable."""
    answers = told.select(COLUMNS).take(pa.array(rows)).append_column("query", pa.array(queries))
    with tempfile.TemporaryFile(prefix="bench-joins-") as file:
        with pa.ipc.new_stream(file, answers.schema) as stream:
            stream.write_table(answers)
        file.flush()
        os.fsync(file.fileno())


# ---- C7: functions that are dear -----------------------------------------------------------------


def functions(folder: Path) -> list[Figure]:
    """Figure 11b: 100 queries with a function each, by the number of articles about a quote."""
    mine: dict[int, float] = {}
    pulled: dict[int, float] = {}
    notes = []
    for each in ARTICLES_EACH:
        mine[each] = seconds(dear_template, n_symbols=N_QUOTES, each=each, rounds=2)
        if each < ARTICLES_EACH[-1]:
            pulled[each] = seconds(
                one_join, n_symbols=N_QUOTES, each=each, then=dear_pull_up, rounds=2
            )
        else:
            pulled[each], fit = extrapolated(each)
            notes.append(fit)
        progress(
            "functions", f"{each:>4} articles: ours {mine[each]:.2f} s, PullUp {pulled[each]:.2f} s"
        )
    least = min(pulled[each] / mine[each] for each in ARTICLES_EACH)
    most = pulled[ARTICLES_EACH[-1]] / mine[ARTICLES_EACH[-1]]
    growth = mine[ARTICLES_EACH[-1]] / mine[ARTICLES_EACH[0]]
    drawing = Drawing(
        "cacq-11b",
        "CACQ Figure 11b: 100 queries with a function of the quote, 10 to 500 us a call",
        "articles about a quote",
        f"seconds for {N_QUOTES} quotes",
        "The paper: CACQ is flat, PullUp grows with the articles, since it calls the function for "
        "each pair.",
        f"{'Held' if growth < 2 else 'Not held'}: ours takes {growth:.2f} times as long with 100 "
        f"articles as with 1; PullUp takes {most:.0f} times as long as ours.",
    )
    draw(drawing, {"ours": mine, "PullUp": pulled}, folder)
    return [
        Figure("functions, PullUp by ours", least, "at least", 1, "x", "the least of 1, 10, 100"),
        Figure("functions, 100 articles", most, "at least", 10, "x", "; ".join(notes)),
    ]


def spins() -> np.ndarray:
    """Return how long the function of each query takes for a row."""
    return np.linspace(LEAST_SPIN, MOST_SPIN, N_DEAR)


def dear(price: pa.Array, spin: pa.Array) -> pa.Array:
    """Say of each price whether it is above 50, after as long as is asked."""
    begun = time.perf_counter()
    total = pc.sum(spin).as_py() or 0.0
    while time.perf_counter() - begun < total:
        pass
    return pc.greater(price, 50.0)


def dear_template(session: Session) -> object:
    """Declare the queries as rows of a template."""
    session.function("dear", dear, returns="boolean")
    text = f"{JOINED} AND dear(s.price, :spin)"
    return session.template("asked", text, spin="double").insert({"spin": spins()})


def dear_pull_up(session: Session) -> None:
    """Call the function of each query for each pair."""
    newest = newest_of(session).combine_chunks()
    rows = np.repeat(np.arange(len(newest)), N_DEAR)
    queries = np.tile(np.arange(N_DEAR), len(newest))
    prices = newest["price"].combine_chunks().take(pa.array(rows))
    true = dear(prices, pa.array(spins()[queries])).to_numpy(zero_copy_only=False)
    written(newest, rows[true], queries[true])


def extrapolated(each: int) -> tuple[float, str]:
    """Measure PullUp with few quotes, and tell what all of them would take."""
    spent = [
        seconds(one_join, n_symbols=count, each=each, then=dear_pull_up, rounds=1)
        for count in FEWER
    ]
    slope, base = np.polyfit(FEWER, spent, 1)
    fit = f"PullUp fitted: {base:.2f} s + {slope:.2f} s a quote, of " + ", ".join(
        f"{count}: {value:.2f} s" for count, value in zip(FEWER, spent, strict=True)
    )
    progress("functions", fit)
    return base + slope * N_QUOTES, fit
