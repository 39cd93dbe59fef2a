"""The cases of the filter benchmark that add and drop queries, before a run and during it."""

from __future__ import annotations

import threading
import time
from statistics import median

import numpy as np
import pyarrow as pa

from bench.filters_arena import Arena, checked, in_words
from bench.filters_runs import Contestant, CountSink
from bench.filters_workloads import (
    ALERT_COLUMNS,
    ALERT_TEXT,
    SEED,
    Alerts,
    Array,
    alert_counts,
)
from bench.report import Figure
from millrace.session.template import Template

CHURN_ROWS = 200_000
CHANGES_A_SECOND = 5_000  # adds, and as many drops
SLICES_A_SECOND = 10
CHURN_SECONDS = 60
STATIC_SECONDS = 15
FEW_ROWS = 2_000
TEXTS = 200_000
TEXTS_A_CALL = 1_000
CLIENTS = 8
CLIENT_SECONDS = 4
SINGLE_QUERIES = 12


def churn(arena: Arena) -> list[Figure]:
    """Add 5,000 and drop 5,000 of 1,000,000 queries a second: against the static set."""
    population = Alerts(arena.n(1_000_000), 10_000, 5)
    rows = population.rows(CHURN_ROWS // 2)
    given = arena.input("churn", ALERT_COLUMNS, rows, epochs=3_000)
    sink = CountSink()
    with Contestant(arena.spark, arena.scratch / "churn-root", given, sink) as ours:
        template = ours.session.template("alerts", ALERT_TEXT, sym="text", low="double")
        changing = Changing(template, population, arena.scale)
        with ours.running():
            ours.wait_epochs(5)
            before = _rate_of_phase(arena, ours, given.rows, STATIC_SECONDS, "static")
            changing.start()
            during = _rate_of_phase(arena, ours, given.rows, CHURN_SECONDS, "changing")
            changing.stop()
            decide = ours.stage("decide", 50)
            after = _rate_of_phase(arena, ours, given.rows, STATIC_SECONDS, "static again")
        mine = sink.counts(changing.standing.tolist())
    truth = 2 * alert_counts(changing.parameters, rows)
    static = (before + after) / 2
    wanted = 2 * CHANGES_A_SECOND * arena.scale
    rates = [in_words(each) for each in (during, before, after)]
    note = (
        f"{rates[0]} rows/s against {rates[1]} before and {rates[2]} after; "
        f"decide {decide * 1e3:.0f} ms; epochs of {given.rows:,} rows"
    )
    case = f"{population.n_queries:,} queries, {wanted:,.0f} changes/s, of the static set"
    figure = checked(Figure(case, during / static, "at least", 0.8, "x", note), mine, truth)
    slices = changing.seconds
    note = f"{changing.n_slices} slices, {median(slices) * 1e3:.0f} ms, {max(slices):.2f} s at most"
    taken = Figure("changes taken meanwhile", changing.rate, "at least", 0.99 * wanted, "/s", note)
    return [figure, taken]


class Changing:
    """A population that changes in slices, on time: the oldest go, new ones come."""

    def __init__(self, template: Template, population: Alerts, scale: float) -> None:
        self._template = template
        self._slice = max(1, int(CHANGES_A_SECOND * scale / SLICES_A_SECOND))
        self.parameters = population.parameters()
        self.standing = template.insert(self.parameters).to_numpy().astype(np.int64)
        self._coming = population.parameters(SEED + 3)
        self.seconds: list[float] = []
        self._came: list[pa.Table] = []
        self._ids = [self.standing]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._change, daemon=True)
        self._failure: BaseException | None = None
        self.rate = 0.0

    @property
    def n_slices(self) -> int:
        """How many slices were changed."""
        return len(self.seconds)

    def start(self) -> None:
        """Begin to change."""
        self._thread.start()

    def stop(self) -> None:
        """Change no longer, and say what stands now."""
        self._stopped.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        n_gone = self.n_slices * self._slice
        self.standing = np.concatenate(self._ids)[n_gone:]
        self.parameters = pa.concat_tables([self.parameters, *self._came]).slice(n_gone)

    def _change(self) -> None:
        began = time.perf_counter()
        try:
            while not self._stopped.wait(self._until_next(began)):
                self._one_slice()
        except BaseException as error:  # it is raised where the thread is joined
            self._failure = error
        n_changes = 2 * self._slice * self.n_slices
        self.rate = n_changes / (time.perf_counter() - began)

    def _until_next(self, began: float) -> float:
        due = began + (self.n_slices + 1) / SLICES_A_SECOND
        return max(0.0, due - time.perf_counter())

    def _one_slice(self) -> None:
        gone = self.n_slices * self._slice
        come = self._coming.slice(gone % self._coming.num_rows, self._slice)
        began = time.perf_counter()
        ids = self._template.insert(come)
        self._template.delete(pa.array(_between(self._ids, gone, gone + self._slice)))
        self.seconds.append(time.perf_counter() - began)
        self._came.append(come)
        self._ids.append(ids.to_numpy().astype(np.int64))


def register(arena: Arena) -> list[Figure]:
    """Register texts by the thousand, single ones from many threads, and rows in bulk."""
    return [_texts(arena), _single_texts(arena), _bulk(arena)]


def _texts(arena: Arena) -> Figure:
    texts = alert_texts(arena.n(TEXTS))
    given = arena.input("texts-in", ALERT_COLUMNS, Alerts(10, 10, 1).rows(10), epochs=1)
    calls = [texts[at : at + TEXTS_A_CALL] for at in range(0, len(texts), TEXTS_A_CALL)]
    with Contestant(arena.spark, arena.scratch / "texts-kept", given, CountSink()) as ours:
        ours.session.queries(calls[0], into="alerts")  # the parser is imported by now
        began = time.perf_counter()
        for call in calls[1:]:
            ours.session.queries(call, into="alerts")
        seconds = time.perf_counter() - began
    rate = (len(texts) - len(calls[0])) / seconds
    arena.say("register", f"{in_words(rate)} texts/s")
    note = f"{len(texts):,} texts, {TEXTS_A_CALL:,} a call, each call synced to the disk"
    return Figure("texts registered", rate, "at least", 20_000, "/s", note)


def _single_texts(arena: Arena) -> Figure:
    texts = iter(alert_texts(200_000))
    given = arena.input("single-in", ALERT_COLUMNS, Alerts(10, 10, 1).rows(10), epochs=1)
    lock, taken = threading.Lock(), [0] * CLIENTS
    with Contestant(arena.spark, arena.scratch / "single-kept", given, CountSink()) as ours:
        ours.session.query(next(texts), into="alerts")
        deadline = time.perf_counter() + CLIENT_SECONDS

        def client(number: int) -> None:
            while time.perf_counter() < deadline:
                with lock:
                    text = next(texts)
                ours.session.query(text, into="alerts")
                taken[number] += 1

        threads = [threading.Thread(target=client, args=(each,)) for each in range(CLIENTS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    rate = sum(taken) / CLIENT_SECONDS
    arena.say("register", f"{in_words(rate)} single texts/s")
    case = f"texts registered one by one, {CLIENTS} threads"
    return Figure(case, rate, "reported", None, "/s", "each call acknowledged durable")


def _bulk(arena: Arena) -> Figure:
    """Insert rows into a running session; time it to the end of the first epoch they are in."""
    population = Alerts(arena.n(1_000_000), 10_000, 5)
    parameters, rows = population.parameters(), population.rows(FEW_ROWS // 2)
    given = arena.input("bulk", ALERT_COLUMNS, rows, epochs=4_000)
    truth = 2 * alert_counts(parameters, rows)
    durable, in_force = [], []
    for round_ in range(min(arena.rounds, 3)):
        sink = CountSink()
        with Contestant(arena.spark, arena.scratch / f"bulk-root-{round_}", given, sink) as ours:
            inserted, indexed, ids = _inserted(ours, parameters)
            mine = sink.counts(ids.to_pylist())
        durable.append(inserted)
        in_force.append(indexed)
        arena.say("register", f"rows: durable {inserted:.2f} s, in force {indexed:.2f} s")
    note = f"durable after {median(durable):.2f} s; the first epoch with them is committed"
    case = f"{population.n_queries:,} parameter rows, durable and in force"
    return checked(Figure(case, median(in_force), "at most", 5, "s", note), mine, truth)


def _inserted(ours: Contestant, parameters: pa.Table) -> tuple[float, float, pa.Array]:
    """Insert rows while epochs run; return when they were durable, when in force, their ids."""
    template = ours.session.template("alerts", ALERT_TEXT, sym="text", low="double")
    with ours.running():
        ours.wait_epochs(5)
        began = time.perf_counter()
        ids = template.insert(parameters)
        durable = time.perf_counter() - began
        epoch = _next_epoch(ours, time.time())
        _wait_delivered(ours, ours.ran[epoch].epoch)
    return durable, ours.ends[epoch] - began, ids


def one(arena: Arena) -> list[Figure]:
    """Add one query to 1,000,000; see that the next epoch answers it, and what that costs."""
    population = Alerts(arena.n(1_000_000), 10_000, 5)
    rows = population.rows(FEW_ROWS // 2)
    given = arena.input("one", ALERT_COLUMNS, rows, epochs=4_000)
    symbol, sink = rows["symbol"][0].as_py(), CountSink(kept=100_000)
    costs, asked, answered = [], [], 0
    with Contestant(arena.spark, arena.scratch / "one-root", given, sink) as ours:
        template = ours.session.template("alerts", ALERT_TEXT, sym="text", low="double")
        template.insert(population.parameters())
        with ours.running():
            ours.wait_epochs(5)
            for number in range(SINGLE_QUERIES + 1):
                ours.wait_epochs(len(ours.ends) + 8)
                static = ours.stage("decide", 7)
                text = f"{ALERT_TEXT.partition(' WHERE ')[0]} WHERE symbol = '{symbol}'"
                began = time.perf_counter()
                query = ours.session.query(f"{text} AND price > -{number + 1}.5", into="more")
                took = time.perf_counter() - began
                epoch = _next_epoch(ours, time.time())
                decide = ours.ran[epoch].seconds["decide"] - static
                if number:  # the first makes the feed, and imports the parser
                    asked.append(took)
                    costs.append((took + decide) * 1e3)
                    answered += _answers(ours, epoch, query.id)
        arena.say("one", f"{median(costs):.1f} ms, {answered} of {SINGLE_QUERIES} at once")
    note = (
        f"median of {SINGLE_QUERIES}, {max(costs):.0f} ms at most; asking {median(asked) * 1e3:.1f}"
        f" ms; decide otherwise {static * 1e3:.1f} ms; epochs of {given.rows:,} rows"
    )
    what = f"one query added to {population.n_queries:,}"
    note_of_answers = f"of {SINGLE_QUERIES}; a row matches each in every epoch"
    return [
        Figure(f"{what}: driver time", median(costs), "at most", 50, "ms", note),
        Figure(f"{what}: answered in the next epoch", answered, "at least", SINGLE_QUERIES, "",
               note_of_answers),
    ]  # fmt: skip


def alert_texts(n_texts: int) -> list[str]:
    """Return alerts as SQL, which differ in their constants."""
    parameters = Alerts(n_texts, 10_000, 5).parameters()
    template = ALERT_TEXT.replace(":sym", "'{}'").replace(":low", "{}")
    symbols, lows = parameters["sym"].to_pylist(), np.round(parameters["low"].to_numpy(), 4)
    pairs = zip(symbols, lows.tolist(), strict=True)
    return [template.format(symbol, low) for symbol, low in pairs]


def _between(ids: list[Array], start: int, stop: int) -> Array:
    """Return the ids in places of all that ever came; the first array is by far the largest."""
    if stop <= ids[0].size:
        return ids[0][start:stop]
    return np.concatenate(ids)[start:stop]


def _rate_of_phase(arena: Arena, ours: Contestant, rows: int, seconds: float, phase: str) -> float:
    """Let epochs go on for a while; return the rows a second from one's end to another's."""
    if arena.scale < 1:
        seconds /= 6
    ours.wait_epochs(len(ours.ends) + 2)
    first = len(ours.ends) - 1
    time.sleep(seconds)
    taken = ours.ends[-1] - ours.ends[first]
    rate = (len(ours.ends) - 1 - first) * rows / taken
    arena.say("churn", f"{phase}: {in_words(rate)} rows/s")
    return rate


def _next_epoch(ours: Contestant, moment: float) -> int:
    """Wait for the first epoch that is decided after a moment; return its place in the run."""

    def place() -> int | None:
        ran = list(ours.ran)
        return next((at for at, each in enumerate(ran) if each.started / 1e6 >= moment), None)

    ours.wait_for(lambda: place() is not None)
    found = place()
    assert found is not None, "it was waited for"
    return found


def _wait_delivered(ours: Contestant, epoch: int) -> dict[tuple[str, int], pa.Table]:
    """Wait until the counts of an epoch are there; return all that are."""
    sink = ours.sink
    assert isinstance(sink, CountSink), "counts were asked for"
    ours.wait_for(lambda: max((each for _, each in list(sink.tables)), default=-1) > epoch)
    return sink.tables


def _answers(ours: Contestant, at: int, qid: int) -> bool:
    """Say whether an epoch has an answer to a query."""
    epoch = ours.ran[at].epoch
    table = _wait_delivered(ours, epoch).get(("more", epoch))
    return table is not None and qid in table["_query"].to_pylist()
