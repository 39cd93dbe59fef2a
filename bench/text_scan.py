"""How fast one pass finds thousands of needles in log lines, against one Arrow kernel per needle.

python -m bench.text_scan
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.index.text.automaton import build_one, find

N_LINES = 200_000
N_WORDS = 3_000
ROUNDS = 5
SAMPLE = 20
LETTERS = "etaoinshrdlucmfwypvbgk"


def words(random_: random.Random) -> list[str]:
    """Return made-up words, letters as frequent as in English prose or so."""
    return ["".join(random_.choices(LETTERS, k=random_.randint(3, 9))) for _ in range(N_WORDS)]


def log_lines(random_: random.Random, vocabulary: list[str]) -> pa.Array:
    """Return lines of 40 to 200 bytes: a time, a host, a level and words."""
    levels = ["INFO", "WARN", "ERROR"]
    return pa.array(
        f"2024-05-{random_.randint(1, 28):02d}T12:{random_.randint(0, 59):02d}:07Z "
        f"host-{random_.randint(1, 99)} {random_.choice(levels)} "
        + " ".join(random_.choices(vocabulary, k=random_.randint(2, 22)))
        for _ in range(N_LINES)
    )


def needles(random_: random.Random, vocabulary: list[str], n_needles: int) -> list[str]:
    """Return needles that start as lines do and end otherwise, so that few are found."""
    return [
        f"{random_.choice(vocabulary)[:6]} {random_.choice(vocabulary)}{random_.choice('xyzq')}"
        for _ in range(n_needles)
    ]


def best_of(work: Callable[[], object]) -> float:
    """Return the processor seconds of the quickest of some runs, after one to warm up."""
    work()
    seconds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def arrow(lines: pa.Array, texts: list[str]) -> None:
    """Ask one kernel per needle, the way without an index."""
    for text in texts:
        pc.match_substring(lines, text)


def main() -> None:
    """Print a line for each number of needles."""
    random_ = random.Random(1)
    vocabulary = words(random_)
    lines = log_lines(random_, vocabulary)
    megabytes = pc.sum(pc.binary_length(lines)).as_py() / 1e6
    print(f"{N_LINES:,} lines, {megabytes:.1f} MB, one core; Arrow reckoned from {SAMPLE} needles")
    print(" needles     build   arrays       scan  ignoring case      pairs  Arrow, each needle")
    for n_needles in (100, 1_000, 5_000, 20_000, 100_000):
        texts = needles(random_, vocabulary, n_needles)
        column, kinds = pa.array(texts), np.zeros(n_needles, np.uint8)
        built = best_of(partial(build_one, column, kinds))
        exact, folded = build_one(column, kinds), build_one(column, kinds, ignore_case=True)
        size = sum(each.nbytes for each in exact.values()) / 1e6
        speed, slower = (
            megabytes / best_of(partial(find, each, lines)) for each in (exact, folded)
        )
        alone = best_of(partial(arrow, lines, texts[:SAMPLE])) / SAMPLE * n_needles
        print(
            f"{n_needles:8,} {built * 1e3:6.0f} ms {size:5.1f} MB {speed:5.0f} MB/s"
            f" {slower:9.0f} MB/s {find(exact, lines)[0].size:10,} {megabytes / alone:13.3f} MB/s"
        )
    common = pa.array(vocabulary)
    automaton = build_one(common, np.zeros(N_WORDS, np.uint8))
    seconds, n_pairs = best_of(partial(find, automaton, lines)), find(automaton, lines)[0].size
    print(f"every word of every line: {megabytes / seconds:.0f} MB/s, {n_pairs:,} pairs")


if __name__ == "__main__":
    main()
