"""CACQ's experiments with filters (Madden et al., SIGMOD 2002), and what became of their claims.

    python -m bench.cacq                       Table 1, Figures 4, 6a, 6b, 8 and 9
    python -m bench.cacq --only routing

The stream has five attributes, uniform in 0 to 99. Figures 6a and 6b are of the engine
(`bench.cacq_engine`), so is Table 1 (`bench.cacq_storage`), Figures 4, 8 and 9 are of the eddy in
`bench.cacq_eddy`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from bench.cacq_eddy import ATTRIBUTES, N_ATTRIBUTES, Eddy, Filters, Query, Tickets, nested, rows
from bench.cacq_engine import EPOCH, queries, sources
from bench.cacq_storage import storage
from bench.drawing import Drawing, draw, draw_bars, verdict
from bench.report import Figure, progress, publish
from bench.timing import median_of
from millrace.kernels.arrays import Hashes, Ints

FIGURES = Path(__file__).parent / "figures"
CHUNK = 512
NESTED = (90, 70, 50, 30, 10)


def state(folder: Path) -> list[Figure]:
    """Figure 4: what a row's lineage costs, by its bits; five queries."""
    filters = Filters.of([{at: 50} for at in range(N_ATTRIBUTES)])
    chunk = rows(np.random.default_rng(0), EPOCH)
    line = {}
    for bits in (64, 128, 256, 512, 1_024, 2_048, 3_008):
        line[bits] = EPOCH / median_of(partial(carried, chunk, filters, bits // 64))
        progress("state", f"{bits:>5} bits: {line[bits]:,.0f} rows/s")
    drop, tail = line[64] / line[3_008], line[1_024] / line[2_048]
    drawing = Drawing(
        "cacq-4",
        "CACQ Figure 4: rows a second by the bits of lineage that each carries",
        "bits a row",
        "rows a second",
        "The paper: from 15 to 3,000 bits it falls by more than five times; the tail is as 1/bits.",
        verdict(
            {
                "it falls by more than five times": drop > 5,
                "the tail is as 1/bits (1.6 to 2.5 times where bits double)": 1.6 <= tail <= 2.5,
            },
            f"it falls {drop:.1f} times from 64 to 3,008 bits, and {tail:.1f} times from 1,024 to "
            "2,048. The engine carries pairs of rows and queries instead where few queries match.",
        ),
    )
    draw(drawing, {"eddy": line}, folder)
    return [Figure("lineage of 64 bits by 3,008", drop, "reported", None, "x", "Figure 4")]


def carried(chunk: Ints, filters: Filters, n_words: int) -> Hashes:
    """Send a chunk through all filters with so many words of lineage a row; return what is live."""
    live = np.full((len(chunk), n_words), ~np.uint64(0))
    bits = np.uint64(1) << np.arange(N_ATTRIBUTES, dtype=np.uint64)
    for attribute in range(N_ATTRIBUTES):
        passed = chunk[:, attribute][:, None] > filters.limits[:, attribute]
        mask = np.full((len(chunk), n_words), ~np.uint64(0))
        mask[:, 0] = ~np.where(~passed & filters.asked[:, attribute], bits, np.uint64(0)).sum(
            axis=1
        )
        live &= mask
    return live


def routing(folder: Path) -> list[Figure]:
    """Figure 8: how many filters a row enters, by policy; the queries of Table 3."""
    random = np.random.default_rng(8)
    filters, tickets = Filters.of(nested(NESTED)), Tickets(random)
    best = np.arange(N_ATTRIBUTES)
    eddies = {
        "optimal": Eddy(filters, lambda: best),
        "ticket": Eddy(filters, tickets.order, tickets),
        "random": Eddy(filters, lambda: random.permutation(N_ATTRIBUTES)),
        "worst": Eddy(filters, lambda: best[::-1]),
    }
    for _ in range(200):
        chunk = rows(random, CHUNK)
        for eddy in eddies.values():
            eddy.route(chunk)
    found = {name: eddy.entered for name, eddy in eddies.items()}
    progress("routing", ", ".join(f"{name} {value:.2f}" for name, value in found.items()))
    held = {
        "tickets 1.3 (at most 1.35)": found["ticket"] <= 1.35,
        "random 3.2 (3.0 to 3.4)": 3.0 <= found["random"] <= 3.4,
        "optimal 1.15 (at most 1.17)": found["optimal"] <= 1.17,
    }
    told = ", ".join(f"{name} {value:.2f}" for name, value in found.items())
    drawing = Drawing(
        "cacq-8",
        "CACQ Figure 8: how many filters a row enters, by policy",
        "policy",
        "filters a row",
        "The paper: tickets 1.3, random 3.2, optimal 1.15.",
        verdict(held, f"{told}. Rows are routed in chunks of {CHUNK}."),
        ("linear", "linear"),
    )
    draw_bars(drawing, found, folder)
    return [
        Figure("filters a row, tickets", found["ticket"], "at most", 1.35, "", "Figure 8"),
        Figure("filters a row, random", found["random"], "reported", None, "", "Figure 8"),
    ]


WORKLOADS: dict[str, list[Query]] = {
    "1": [{at: limit} for at, limit in enumerate((30, 50, 10, 40, 90))],
    "2": nested([10] * N_ATTRIBUTES),
    "3": nested((10, 30, 50, 70, 90)),
}
ADDED_AFTER = 20_480


def adapting(folder: Path) -> list[Figure]:
    """Figure 9: the tickets of filters while queries are added, the workloads of Table 4."""
    settled = []
    for name, asked_for in WORKLOADS.items():
        random = np.random.default_rng(9)
        tickets = Tickets(random)
        lines: dict[str, dict[int, float]] = {f"S.{each}": {} for each in ATTRIBUTES}
        mean = np.zeros(N_ATTRIBUTES)
        for number in range(N_ATTRIBUTES):
            filters = Filters.of(asked_for[: number + 1])
            eddy = Eddy(filters, tickets.order, tickets)
            for at in range(0, ADDED_AFTER, CHUNK):
                eddy.route(rows(random, CHUNK))
                mean = 0.9 * mean + 0.1 * tickets.shares(filters.weights)
                for each, share in zip(ATTRIBUTES, mean.tolist(), strict=True):
                    lines[f"S.{each}"][number * ADDED_AFTER + at] = share
        final = dict(zip(ATTRIBUTES, mean.tolist(), strict=True))
        settled.append(final)
        draw(adapted(name, final), lines, folder)
        progress("adapting", f"{name}: " + " ".join(f"{k} {v:.2f}" for k, v in final.items()))
    first, second, _ = settled
    held = max(first, key=first.__getitem__) == "e" and max(second, key=second.__getitem__) == "a"
    return [Figure("the filters with most tickets", float(held), "at least", 1, "", "Figure 9")]


SAME = 1.5
"""Times: tickets that differ by less are about the same."""
CLAIMS = {
    "1": "the most selective one, e > 90, gets most",
    "2": "filters of more queries get more: a most, e least",
    "3": "a, b and c get about the same, more than d and e",
}


def adapted(name: str, final: dict[str, float]) -> Drawing:
    """Return how a workload is drawn."""
    order = sorted(final, key=final.__getitem__, reverse=True)
    alike = [final[each] for each in "abc"]
    held = {
        "1": order[0] == "e",
        "2": "".join(order) == ATTRIBUTES,
        "3": min(alike) > max(final["d"], final["e"]) and max(alike) < SAME * min(alike),
    }[name]
    shares = ", ".join(f"{each} {final[each]:.2f}" for each in order)
    return Drawing(
        f"cacq-9-{name}",
        f"CACQ Figure 9, workload {name}: tickets of filters while queries are added",
        f"rows; a query is added every {ADDED_AFTER:,}",
        "part of all tickets",
        f"The paper: {CLAIMS[name]}.",
        verdict({CLAIMS[name]: held}, f"at the end {shares}."),
        scales=("linear", "linear"),
    )


CASES: dict[str, Callable[[Path], list[Figure]]] = {
    "storage": storage,
    "state": state,
    "queries": queries,
    "sources": sources,
    "routing": routing,
    "adapting": adapting,
}


def experiments(names: Iterable[str] = tuple(CASES)) -> list[Figure]:
    """Run some of the cases, and draw their figures."""
    return [each for name in names for each in CASES[name](FIGURES)]


def main() -> None:
    """Run the cases, draw the figures and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    asked_for = parser.parse_args().only.split(",")
    publish("CACQ's experiments with filters", experiments(asked_for))


if __name__ == "__main__":
    main()
