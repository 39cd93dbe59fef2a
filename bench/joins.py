"""How fast many standing joins and aggregates are answered, and the papers' figures of them.

make bench-joins                            all cases
python -m bench.joins --only select,mixes   some of them

A case is a function that takes the folder for its pictures and returns figures.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import (
    cacq,
    joins_bands,
    joins_cacq,
    joins_changes,
    joins_dynamic,
    joins_hotspots,
    joins_select,
    joins_sensors,
    joins_spark,
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
    "sweeps": joins_dynamic.sweeps,
    "bands": joins_bands.sizes,
    "band-groups": joins_bands.groups,
    "windows": joins_windows.windows,
    "window-gaps": joins_windows.gaps,
    "stocks": joins_cacq.stocks,
    "functions": joins_cacq.functions,
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
        figures += CASES[name](folder)
    progress("pictures", str(folder))
    publish("Many standing joins", figures, HERE / "results" / "joins.json" if whole else None)


if __name__ == "__main__":
    main()
