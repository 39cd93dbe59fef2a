"""How fast many standing joins and aggregates are answered, and the papers' figures of them.

make bench-joins                            all cases
python -m bench.joins --only select,mixes   some of them

A case is a function that takes the folder for its pictures and returns figures. What is measured
is identification unless a figure says full output or delivered; the table has both apart.

Drawn into `bench/figures`, each with what the paper says and which parts of that held:

    ssi-2, 7a, 7b, 8a, 8b, 9, 10a, 10b, 11      coverage, select, groups, shares, hotspots, bands,
                                                band-groups, upkeep
    ssi-12 to 20, table-2                       sweeps, prices
    cacq-4, 6a, 6b, 8, 9-1, 9-2, 9-3, table-1   state, queries, sources, routing, adapting, storage
    cacq-11a, 11b, 3.3                          stocks, functions, sensors

`ssi` is Agarwal, Xie, Yang, Yu (TODS 2009), `cacq` is Madden, Shah, Hellerstein, Raman (SIGMOD
2002). Not drawn, since they show no measurement: Figures 1 and 3 to 6 of the first, Figures 1 to 3,
5, 7 and 10 of the second (queries, data structures and plans); Tables 1 of the first and 2 to 4 of
the second are what the workloads are made of. The histograms of the first's appendix are not drawn:
Dynamic counts exactly. DOuter is left out of Figure 11, for nobody keeps its tree up here. All
strategies take whole batches, and rates are above the paper's by orders of magnitude: shapes are
compared, not rates.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import (
    cacq,
    joins_bands,
    joins_cacq,
    joins_changes,
    joins_dynamic,
    joins_functions,
    joins_hotspots,
    joins_prices,
    joins_select,
    joins_sensors,
    joins_spark,
    joins_sweeps,
    joins_windows,
    panes,
)
from bench.report import Figure, progress, publish

HERE = Path(__file__).parent

CASES: dict[str, Callable[[Path], list[Figure]]] = {
    "select": joins_select.scaling,
    "groups": joins_select.groups,
    "shares": joins_select.shares,
    "coverage": joins_hotspots.coverage,
    "hotspots": joins_hotspots.hot,
    "upkeep": joins_hotspots.upkeep,
    "mixes": joins_dynamic.mixes,
    "prices": joins_prices.prices,
    "sweeps": joins_sweeps.sweeps,
    "bands": joins_bands.sizes,
    "band-groups": joins_bands.groups,
    "windows": joins_windows.windows,
    "window-gaps": joins_windows.gaps,
    "stocks": joins_cacq.stocks,
    "functions": joins_functions.functions,
    "sensors": joins_sensors.sensors,
    **cacq.CASES,
    "aggregates": panes.aggregates,
    "changes": joins_changes.changes,
    "spark": joins_spark.end_to_end,
}


def main() -> None:
    """Run the chosen cases; pictures and results are kept if all were."""
    parser = argparse.ArgumentParser(
        prog="bench.joins",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--figures", type=Path, help="where pictures go instead")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    unknown = [each for each in chosen if each not in CASES]
    if unknown:
        parser.error(f'case "{unknown[0]}" does not exist; there are {", ".join(CASES)}')
    whole = len(chosen) == len(CASES)
    scratch = HERE / "figures" if whole else Path(tempfile.mkdtemp(prefix="bench-joins-"))
    folder = arguments.figures or scratch
    figures: list[Figure] = []
    for name in chosen:
        begun = time.perf_counter()
        figures += CASES[name](folder)
        progress(name, f"took {time.perf_counter() - begun:.0f} s")
    progress("pictures", str(folder))
    publish("Many standing joins", figures, HERE / "results" / "joins.json" if whole else None)


if __name__ == "__main__":
    main()
