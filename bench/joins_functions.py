"""CACQ's experiment with dear functions: 100 queries, each with a function of the quote.

    SELECT ... FROM stocks s, articles a WHERE s.symbol = a.symbol AND dear(s.price, :spin)

PullUp joins first, and calls the functions for every pair of a quote and an article; that takes so
long with many articles that it is measured for few quotes, and extrapolated. Contestants are those
of `bench.joins_cacq`.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.drawing import Drawing, draw, verdict
from bench.joins_cacq import JOINED, Contestant, OneJoin, timed
from bench.joins_timing import fitted
from bench.report import Figure, progress
from millrace.session import Session

N_DEAR, ARTICLES_EACH, N_QUOTES = 100, (1, 10, 100), 16
FEWER = (1, 2, 4, 8)
LEAST_SPIN, MOST_SPIN = 10e-6, 500e-6
"""How long a function takes for a row, in seconds: each query's has a time of its own."""


def functions(folder: Path) -> list[Figure]:
    """Figure 11b: 100 queries with a function each, by the number of articles about a quote."""
    lines: dict[str, dict[int, float]] = {
        name: {} for name in ("ours", "ours, identified", "PullUp")
    }
    notes = []
    for each in ARTICLES_EACH:
        contestants = {
            "ours": Contestant(dear_template, delivered=True, rounds=3),
            "ours, identified": Contestant(dear_template, rounds=3),
        }
        if each < ARTICLES_EACH[-1]:
            rounds = 3 if each == 1 else 1
            contestants["PullUp"] = dear_pull_up(rounds)
        found = timed(contestants, n_symbols=N_QUOTES, each=each)
        for name, took in found.items():
            lines[name][each] = took.seconds
        if "PullUp" in found:
            assert found["PullUp"].n_rows == found["ours"].n_rows, f"other rows: {found}"
        else:
            lines["PullUp"][each], fit = extrapolated(each)
            notes.append(fit)
        told = ", ".join(f"{name} {line[each]:.2f} s" for name, line in lines.items())
        progress("functions", f"{each:>4} articles: {told}")
    leads = {each: lines["PullUp"][each] / lines["ours"][each] for each in ARTICLES_EACH}
    first, *_, last = ARTICLES_EACH
    growth = {name: line[last] / line[first] for name, line in lines.items()}
    held = {
        "identification by ours is flat (within 2 times)": growth["ours, identified"] < 2,
        "so is ours with delivery": growth["ours"] < 2,
        "PullUp grows (10 times or more)": growth["PullUp"] > 10,
    }
    drawing = Drawing(
        "cacq-11b",
        "CACQ Figure 11b: 100 queries with a function of the quote, 10 to 500 us a call",
        "articles about a quote",
        f"seconds for {N_QUOTES} quotes, rows of each query delivered",
        "The paper: CACQ is flat, PullUp grows with the articles, since it calls the function for "
        "each pair.",
        verdict(
            held,
            f"with 100 articles ours takes {growth['ours']:.2f} times as long as with 1, "
            f"{growth['ours, identified']:.2f} times without delivery; PullUp "
            f"{growth['PullUp']:.0f} times, {leads[last]:.0f} times as long as ours. {notes[0]}.",
        ),
    )
    draw(drawing, lines, folder)
    told = ", ".join(f"{each}: {lead:.2f}" for each, lead in leads.items())
    told += "; ours, identified only: "
    told += ", ".join(f"{each}: {took:.2f} s" for each, took in lines["ours, identified"].items())
    return [
        Figure(
            "functions, delivered, PullUp by ours", min(leads.values()), "at least", 1, "x", told
        ),
        Figure("functions, 100 articles", leads[last], "at least", 10, "x", "; ".join(notes)),
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


class DearPullUp(OneJoin):
    """Calls the function of each query for each pair that a join has told."""

    def deliver(self, session: Session) -> int:
        """Make a row for each query."""
        newest = self.newest(session).combine_chunks()
        rows = np.repeat(np.arange(len(newest)), N_DEAR)
        queries = np.tile(np.arange(N_DEAR), len(newest))
        prices = newest["price"].combine_chunks().take(pa.array(rows))
        true = dear(prices, pa.array(spins()[queries])).to_numpy(zero_copy_only=False)
        return self.tell(newest, rows[true], queries[true])


def dear_pull_up(rounds: int) -> Contestant:
    """Return the contestant that joins first."""
    pulled = DearPullUp()
    return Contestant(pulled.declare, pulled.deliver, rounds=rounds, warm=False)


def extrapolated(each: int) -> tuple[float, str]:
    """Measure PullUp with few quotes, and tell what all of them would take."""
    spent = [
        timed({"": dear_pull_up(1)}, n_symbols=count, each=each)[""].seconds for count in FEWER
    ]
    whole, fit = fitted(FEWER, spent, N_QUOTES, "quote")
    fit = f"PullUp, {each} articles, {fit}"
    progress("functions", fit)
    return whole, fit
