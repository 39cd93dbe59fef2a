"""Prices of work, fitted to what strategies take on this machine, and how sure they are.

Table II of Agarwal, Xie, Yang, Yu: Input-sensitive scalable continuous query processing. The paper
fits by least squares of absolute errors, to rows; here errors are relative, to runs of whole
batches, and no price is negative (`millrace.sharing.costs`). Intervals are of fits to runs that are
drawn again and again from those that were measured.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.drawing import Drawing, draw_table, verdict
from bench.joins_timing import LABELS
from bench.report import Figure, progress
from millrace.kernels.arrays import Floats
from millrace.sharing.costs import fit_prices
from millrace.sharing.measuring import Runs, tried
from millrace.sharing.select.calibration import random_trials
from millrace.sharing.select.prices import PRICES
from millrace.sharing.select.strategies import BUILDS

N_TRIALS, N_HELD_OUT, N_DRAWN = 60, 30, 200
PATIENCE = 120.0  # seconds of the processor that all trials may take
NARROW = 0.2
"""Of a price: how far from it the ends of a narrow interval are at most."""


STEP, PAIR = "a step of a search", "a pair"
WORK = {
    "vanilla": ("a query", STEP, PAIR),
    "select_first": ("a query that selects it", STEP, PAIR),
    "join_first": ("a stored row", "a rectangle compared", PAIR),
    "ssi": ("a group", PAIR, STEP, "a group of its segment", "a step of the sweep"),
    "bitmaps": ("a word", "a step of the walk", "a step of the sweep", PAIR),
}
"""What prices are of, after those of a batch and of a driver."""


def prices(folder: Path) -> list[Figure]:
    """Table II: prices, their intervals of 95 %, and how far off they are for other runs."""
    fitted = tried(random_trials(BUILDS, N_TRIALS, seed=7), PRICES, PATIENCE)
    others = tried(random_trials(BUILDS, N_HELD_OUT, seed=8), PRICES, PATIENCE)
    rows, errors, wide, n_prices = [], {}, 0, 0
    for name, runs in fitted.items():
        found, low, high = _fit(runs)
        errors[name] = _error(found, others[name])
        for at, (price, least, most) in enumerate(zip(found, low, high, strict=True)):
            if not price:
                continue
            work = ("a batch", "a driver", *WORK[name])[at]
            rows.append((LABELS[name], work, _ns(price), f"{_ns(least)} to {_ns(most)}"))
            n_prices += 1
            wide += max(most - price, price - least) > NARROW * price
        progress("prices", f"{name}: {100 * errors[name]:.0f} % off in the middle")
    typical = ", ".join(f"{LABELS[name]} {100 * each:.0f} %" for name, each in errors.items())
    held = {
        "intervals are narrow (20 % of most prices)": wide <= n_prices / 2,
        "costs follow from few amounts of work (half of other runs within 30 %)": max(
            errors.values()
        )
        <= 0.3,
    }
    drawing = Drawing(
        "ssi-table-2",
        "Table II: fitted prices of work, ns",
        "",
        "",
        "The paper: costs are linear in a few amounts of work; intervals of 95 % are 2 to 5 % of "
        "most prices, and up to 28 % of a few.",
        verdict(
            held,
            f"{wide} of {n_prices} intervals are wider than 20 %; the middle error for other runs: "
            f"{typical}.",
        ),
    )
    draw_table(drawing, ("strategy", "work", "price, ns", "95 %"), rows, folder)
    worst = 100 * max(errors.values())
    return [Figure("prices of work, error of the worst", worst, "reported", None, "%", typical)]


def _ns(price: float) -> str:
    return f"{price:,.0f}" if price >= 100 else f"{price:.3g}"


def _fit(runs: Runs) -> tuple[Floats, Floats, Floats]:
    """Return prices, and the ends of their intervals of 95 %."""
    amounts, took = np.array(runs.amounts), np.array(runs.took)
    random = np.random.default_rng(2)
    drawn = [random.integers(0, took.size, took.size) for _ in range(N_DRAWN)]
    again = np.array([fit_prices(amounts[some], took[some]) for some in drawn])
    low, high = np.quantile(again, (0.025, 0.975), axis=0)
    return fit_prices(amounts, took), low, high


def _error(found: Floats, runs: Runs) -> float:
    """Return by which part of what runs took the prices are off, in the middle."""
    took = np.array(runs.took)
    return float(np.median(np.abs(np.array(runs.amounts) @ found - took) / took))
