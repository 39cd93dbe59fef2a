"""How fast many standing filters are answered, registered, changed, and what they take to hold.

make bench-filters                              all cases, about 25 minutes on two quiet cores
python -m bench.filters --only cacq,alerts      some of them
python -m bench.filters --scale 0.01 --rounds 1 with a hundredth of the queries, to try it
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench import filters_cases, filters_changes, filters_memory, filters_plot, filters_sweep
from bench.filters_arena import Arena
from bench.report import Figure, publish
from millrace.spark.launch import local_spark

CORES = 2
ROUNDS = 5
RESULTS = Path(__file__).parent / "results"

CASES: dict[str, Callable[[Arena], list[Figure]]] = {
    "cacq": filters_cases.cacq_10k,
    "cacq100k": filters_cases.cacq_100k,
    "alerts": filters_cases.alerts,
    "scaling": filters_cases.scaling,
    "churn": filters_changes.churn,
    "register": filters_changes.register,
    "one": filters_changes.one,
    "memory": filters_memory.memory,
    "texts": filters_cases.texts,
    "sweep": filters_sweep.sweep,
}


def main() -> None:
    """Run the chosen cases."""
    parser = argparse.ArgumentParser(
        prog="bench.filters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved repetitions")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of queries")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    unknown = [each for each in chosen if each not in CASES]
    if unknown:
        parser.error(f'case "{unknown[0]}" does not exist; there are {", ".join(CASES)}')
    figures, arena = run(chosen, arguments.rounds, arguments.scale)
    title = "Many standing filters"
    if arguments.scale != 1:
        tried = f"scale {arguments.scale:g}"
        title += f", TRIED AT {tried.upper()}"
        figures = [replace(each, note=f"{tried}; {each.note}") for each in figures]
    whole = len(chosen) == len(CASES) and arguments.rounds >= ROUNDS and arguments.scale == 1
    if arena.points:
        drawn = filters_plot.draw(arena.points, RESULTS if whole else Path(tempfile.gettempdir()))
        arena.say("plot", str(drawn))
    publish(title, figures, RESULTS / "filters.json" if whole else None)


def run(chosen: list[str], rounds: int, scale: float) -> tuple[list[Figure], Arena]:
    """Run cases in one Spark; one that fails is reported as missed, and the others go on."""
    scratch = Path(tempfile.mkdtemp(prefix="bench-filters-"))
    spark = local_spark(cores=CORES, memory="2g")
    arena = Arena(spark, scratch, rounds, scale)
    figures: list[Figure] = []
    try:
        for name in chosen:
            began = time.perf_counter()
            try:
                figures += CASES[name](arena)
            except Exception as error:  # the figures of the other cases are worth having
                arena.console.print_exception()
                note = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                figures.append(Figure(f"{name} did not run", 0.0, "at least", 1, "", note))
            arena.say(name, f"took {time.perf_counter() - began:.0f} s")
    finally:
        with contextlib.suppress(Exception):  # a JVM that has died takes no figure with it
            spark.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return figures, arena


if __name__ == "__main__":
    main()
