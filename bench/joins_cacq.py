"""CACQ's experiments with joins: stocks and the articles about them.

    SELECT ... FROM stocks s, articles a WHERE s.symbol = a.symbol AND s.price > :x

    ours        the queries as rows of a template
    PullUp      one standing join of all rows, then the selections of all queries, grouped
    PushDown    a standing query of its own for each, which selects before it joins; none of them
                runs with others (`families="never"`)

All run in process, and what their joins tell is durable. Identification and full output are
measured apart:

    identified  ours: rows with the sets of their queries, durable; PullUp: pairs of a joined row
                and a query, in memory
    delivered   a row for each query, handed to a sink in memory, by all alike

The selections of PullUp are an index over the constants; what it spends in the engine is the one
join, whose rows a sink in memory hands it epoch by epoch: it reads none twice, as little as ours
does. What is delivered has the same columns, the same order, and a sink of the same kind, which
keeps an epoch of it. All are asserted to deliver as many rows.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from bench.drawing import Drawing, draw, verdict
from bench.report import Figure, progress
from millrace.connectors.sinks.memory import MemorySink
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.session import Session

STOCKS = "symbol bigint, price double, ts timestamp"
ARTICLES = "symbol bigint, body text, ts timestamp"
JOINED = (
    "SELECT ISTREAM(s.symbol, s.price, a.body, s.ts AS quoted, a.ts AS written) "
    "FROM articles [RANGE 1 HOUR] a, stocks [RANGE 1 HOUR] s WHERE s.symbol = a.symbol"
)
N_STOCKS, ROUNDS, APART = 2_250, 15, 10_000_000
COUNTS = (1, 10, 50, 100, 200)


@contextmanager
def engine(
    streams: Mapping[str, str],
    declare: Callable[[Session], object],
    *,
    settings: Settings | None = None,
    sink: MemorySink | None = None,
) -> Iterator[tuple[LocalRun, Session]]:
    """Open an engine with some streams and queries, and perhaps a sink for all answers."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-joins-"))
    try:
        with Session(scratch, threads=False, settings=settings) as session:
            for name, columns in streams.items():
                session.stream(name, Feed(columns), time="ts", delay="0 seconds")
            if sink is not None:
                session.sink(sink)
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


Then = Callable[[Session], int]
"""What is done with the answers of an epoch; how many rows that are is returned."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way to answer the queries: what is declared, and what is done with what is told.

    Without `then` a sink is handed the rows of each query, if the answers are `delivered`.
    """

    declare: Callable[[Session], object]
    then: Then | None = None
    delivered: bool = False
    settings: Settings | None = None
    rounds: int = ROUNDS
    warm: bool = True
    """Whether what is done with answers is also done once before it is measured."""


@dataclass(frozen=True, slots=True)
class Took:
    """What an epoch of quotes took in the middle, in seconds, and the rows of the first one."""

    seconds: float
    n_rows: int


class Epochs:
    """The epochs of a contestant that runs: quotes of all symbols come in each."""

    def __init__(
        self, contestant: Contestant, run: LocalRun, session: Session, then: Then | None
    ) -> None:
        self.contestant = contestant
        self._run, self._session, self._then = run, session, then
        self._spent: list[float] = []
        self._counts: list[int] = []

    @property
    def took(self) -> Took:
        """What was measured; the first epoch does not count."""
        counts = self._counts[-self.contestant.rounds :]
        return Took(median(self._spent[1:]), counts[0] if counts else 0)

    def next(self, n_symbols: int) -> None:
        """Run an epoch, unless there were enough, and do what is done with its answers."""
        number = len(self._spent)
        if number > self.contestant.rounds:
            return
        first = (number + 1) * APART
        given = quotes(n_symbols, first)
        last, clock = clocks(first + 1_000_000)
        begun = time.perf_counter()
        self._run.feed(stocks=pa.concat_tables([given, last]), articles=clock)
        if self._then is not None and (number or self.contestant.warm):
            self._counts.append(self._then(self._session))
        self._spent.append(time.perf_counter() - begun)


def timed(contestants: Mapping[str, Contestant], *, n_symbols: int, each: int) -> dict[str, Took]:
    """Run epochs of all contestants in turn, each in an engine of its own.

    Every other time they come in reverse: who comes after one that has freed much memory finds it
    mapped.
    """
    written = articles(n_symbols, each)
    with ExitStack() as stack:
        running: dict[str, Epochs] = {}
        for name, contestant in contestants.items():
            sink = MemorySink(last=1) if contestant.delivered else None
            streams = {"stocks": STOCKS, "articles": ARTICLES}
            run, session = stack.enter_context(
                engine(streams, contestant.declare, settings=contestant.settings, sink=sink)
            )
            run.feed(articles=written)
            then = contestant.then if sink is None else delivering(sink)
            running[name] = Epochs(contestant, run, session, then)
        order = list(running.values())
        for _ in range(1 + max(each.rounds for each in contestants.values())):
            for epochs in order:
                epochs.next(n_symbols)
            order.reverse()
        return {name: epochs.took for name, epochs in running.items()}


def delivering(sink: MemorySink) -> Then:
    """Hand a sink a row for each query; count those that are new."""
    seen = [0]

    def then(session: Session) -> int:
        session.engine.delivery.pump()
        seen.append(sink.n_rows())
        return seen[-1] - seen[-2]

    return then


def stocks(folder: Path) -> list[Figure]:
    """Figure 11a: an epoch of 2,250 quotes by number of queries."""
    lines: dict[str, dict[int, float]] = {}
    for count in COUNTS:
        limits = np.arange(count) * (100 / count)  # together they take every quote
        template, pulled = template_of(limits), (PullUp(limits), PullUp(limits))
        apart = Settings(families="never")
        contestants = {
            "ours, delivered": Contestant(template, delivered=True),
            "ours, identified": Contestant(template),
            "PullUp, delivered": Contestant(pulled[0].declare, pulled[0].deliver),
            "PullUp, identified": Contestant(pulled[1].declare, pulled[1].identify),
            "PushDown, delivered": Contestant(
                one_each(limits), delivered=True, settings=apart, rounds=1
            ),
        }
        told = timed(contestants, n_symbols=N_STOCKS, each=1)
        n_rows = {name: each.n_rows for name, each in told.items() if "delivered" in name}
        assert len({*n_rows.values()}) == 1, f"all deliver as many rows: {n_rows}"
        for name, each in told.items():
            lines.setdefault(name, {})[count] = 1e3 * each.seconds
        said = ", ".join(f"{name} {line[count]:.0f} ms" for name, line in lines.items())
        progress("stocks", f"{count:>4} queries, {told['ours, delivered'].n_rows:,} rows: {said}")
    leads = {
        how: {n: lines[f"PullUp, {how}"][n] / lines[f"ours, {how}"][n] for n in COUNTS}
        for how in ("delivered", "identified")
    }
    draw(_drawn(lines, leads["delivered"]), lines, folder)
    return [
        Figure(
            f"stocks and articles, {how}, PullUp by ours",
            min(lead.values()),
            "at least",
            1,
            "x",
            "the least of 1 to 200 queries, Figure 11a: "
            + ", ".join(f"{n}: {ratio:.2f}" for n, ratio in lead.items()),
        )
        for how, lead in leads.items()
    ]


def _drawn(lines: Mapping[str, Mapping[int, float]], leads: Mapping[int, float]) -> Drawing:
    """Return how Figure 11a is drawn."""
    few, many = COUNTS[0], COUNTS[-1]
    held = {
        "ours is faster than PullUp with few queries": leads[few] > 1,
        "slightly slower with many": 0.5 < leads[many] < 1,
        "PushDown is the slowest throughout": all(
            lines["PushDown, delivered"][n]
            >= max(lines["PullUp, delivered"][n], lines["ours, delivered"][n])
            for n in COUNTS
        ),
    }
    told = ", ".join(f"{lead:.2f} with {n}" for n, lead in leads.items())
    return Drawing(
        "cacq-11a",
        "CACQ Figure 11a: stocks joined with articles, selections on the price",
        "queries",
        f"ms for {N_STOCKS:,} quotes",
        "The paper: CACQ is faster than PullUp with few queries and slightly slower with many; "
        "PushDown is the slowest in all cases.",
        verdict(held, f"delivered, PullUp takes by ours {told} queries (more is better)."),
    )


def template_of(limits: np.ndarray) -> Callable[[Session], object]:
    """Declare the queries as rows of a template."""
    text = f"{JOINED} AND s.price > :x"
    return lambda session: session.template("asked", text, x="double").insert({"x": limits})


def one_each(limits: np.ndarray) -> Callable[[Session], object]:
    """Declare a query for each limit."""

    def declare(session: Session) -> None:
        for number, limit in enumerate(limits.tolist()):
            session.query(f"{JOINED} AND s.price > {limit!r}", name=f"q{number}")

    return declare


class Newest(MemorySink):
    """Holds what was told in the newest epoch."""

    table_of_epoch: pa.Table

    def take(self, query: str, epoch: int, table: pa.Table) -> None:
        """Hold the rows instead of others."""
        super().take(query, epoch, table)
        self.table_of_epoch = table


class OneJoin:
    """One standing join of all rows, a sink for what it tells, and one for answers of queries."""

    def __init__(self) -> None:
        self._sink, self._told = Newest(last=1), MemorySink(last=1)

    def declare(self, session: Session) -> None:
        """Declare the join."""
        session.sink(self._sink)
        session.query(JOINED, name="joined")

    def newest(self, session: Session) -> pa.Table:
        """Return what the join has told in the newest epoch."""
        session.engine.delivery.pump()
        return self._sink.table_of_epoch

    def tell(self, told: pa.Table, rows: np.ndarray, queries: np.ndarray) -> int:
        """Hand a sink rows with the queries that they are of; return how many."""
        place = told.column_names.index("_time")
        answers = told.take(pa.array(rows)).add_column(place, "_query", pa.array(queries))
        self._told.take("asked", 0, answers)
        self._told.fulfil(())
        return len(answers)


class PullUp(OneJoin):
    """Selects what a join has told for all queries at once."""

    def __init__(self, limits: np.ndarray) -> None:
        super().__init__()
        self._limits = np.sort(limits)

    def identify(self, session: Session) -> int:
        """Find the queries of each row of the newest epoch by its price."""
        return len(self._pairs(self.newest(session))[0])

    def deliver(self, session: Session) -> int:
        """Make a row for each query."""
        newest = self.newest(session)
        return self.tell(newest, *self._pairs(newest))

    def _pairs(self, newest: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        counts = np.searchsorted(self._limits, newest["price"].to_numpy(), side="left")
        rows = np.repeat(np.arange(len(counts)), counts)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        return rows, np.arange(len(rows)) - starts
