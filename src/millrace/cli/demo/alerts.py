"""The alerts: a template with nearly a hundred thousand rows, each a standing query.

Most of them stay for the whole demonstration and are judged at the end; the last thousand come
and go while it runs.

    symbol = :sym AND size > :least       each trade meets about one of them
"""

from __future__ import annotations

import random
from bisect import bisect_left

import millrace
from millrace.cli.demo.questions import QUESTIONS, STREAM, SYMBOLS

NAME = "alert"
TEXT = f"SELECT id, symbol, price, size FROM {STREAM} WHERE symbol = :sym AND size > :least"
PARAMETERS = {"sym": "text", "least": "int"}
N_QUERIES = 100_000
N_PASSING = 1_000
N_STAYING = N_QUERIES - N_PASSING - len(QUESTIONS)
FIRST_ID = len(QUESTIONS) + 1
"""Questions are registered first; ids ascend."""

_LEAST, _MOST = 10_000, 60_000
_SEED = 7
_A_CHANGE = 100


def staying() -> dict[str, list[object]]:
    """Return the alerts that stay, the same in every process."""
    return _some(random.Random(_SEED), N_STAYING)


def thresholds() -> dict[str, list[int]]:
    """Return the sizes that the alerts which stay ask for, by symbol, ascending."""
    found: dict[str, list[int]] = {each: [] for each in SYMBOLS}
    rows = staying()
    for symbol, least in zip(rows["sym"], rows["least"], strict=True):
        assert isinstance(least, int), "sizes are whole"
        found[str(symbol)].append(least)
    return {symbol: sorted(sizes) for symbol, sizes in found.items()}


def n_raised(sizes: list[int], size: int) -> int:
    """Say how many alerts a trade of that size raises.

    >>> n_raised([100, 200, 200, 300], 201)
    3
    """
    return bisect_left(sizes, size)


def declare(session: millrace.Session) -> millrace.Template:
    """Declare the template, and insert the alerts if they do not stand yet."""
    template = session.template(NAME, TEXT, PARAMETERS)
    if not len(template):
        template.insert(staying())
        template.insert(_some(random.Random(), N_PASSING))
    return template


def change_some(template: millrace.Template) -> None:
    """Let some of the passing alerts go, and others come."""
    chance = random.Random()
    passing = [each for each in template.ids() if each >= FIRST_ID + N_STAYING]
    template.delete(chance.sample(passing, min(_A_CHANGE, len(passing))))
    template.insert(_some(chance, _A_CHANGE))


def _some(chance: random.Random, n_rows: int) -> dict[str, list[object]]:
    return {
        "sym": [chance.choice(SYMBOLS) for _ in range(n_rows)],
        "least": [chance.randrange(_LEAST, _MOST) for _ in range(n_rows)],
    }
