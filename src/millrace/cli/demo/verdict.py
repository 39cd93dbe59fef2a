"""The verdict: whether every row is where it belongs, exactly once.

Read from the disk after the last driver has ended: the Parquet files as any other program would
find them, late rows and dead letters from the root. Compared with the ledger of the market,
which has seen neither Spark nor the engine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from millrace.cli.demo import alerts
from millrace.cli.demo.questions import QUESTIONS, STREAM
from millrace.cli.demo.trades import Ledger
from millrace.engine.registry import Registry
from millrace.engine.stores import DEAD_LETTERS, late_store
from millrace.state.manifest import Manifest
from millrace.state.root import Root, open_root
from millrace.state.run_store import load_manifest
from millrace.state.store import scan

TIMELESS = "the time column"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was due in one place and what is there; all counts but the first two must be 0."""

    place: str
    due: int
    found: int
    missing: int
    twice: int
    foreign: int

    @property
    def right(self) -> bool:
        """Whether everything is there once and nothing else is."""
        return self.missing == self.twice == self.foreign == 0


def judge(base: Path, ledger: Ledger) -> list[Finding]:
    """Compare everything that the demonstration left behind with what was written."""
    root = open_root(base / "engine")
    manifest = load_manifest(root)
    findings = [
        compare(
            f"answers of {question.name}, in Parquet",
            ledger.due[question.name].items(),
            answers(base / "answers" / question.name),
        )
        for question in QUESTIONS
    ]
    place = "trades that raised alerts, in Parquet"
    findings.append(compare(place, ledger.raised.items(), _raised(base / "answers")))
    findings.append(compare("late rows", ledger.late, _late_rows(root, manifest)))
    dead = compare("dead letters", ledger.dead.elements(), _dead_letters(root, manifest))
    return [*findings, dead]


def compare(place: str, due: Iterable[object], found: Iterable[object]) -> Finding:
    """Compare two bags.

    Examples
    --------
    >>> compare("x", [1, 2, 3], [1, 1, 4])
    Finding(place='x', due=3, found=3, missing=2, twice=1, foreign=1)
    """
    wanted, there = Counter(due), Counter(found)
    surplus = there - wanted
    return Finding(
        place,
        wanted.total(),
        there.total(),
        missing=(wanted - there).total(),
        twice=sum(count for each, count in surplus.items() if each in wanted),
        foreign=sum(count for each, count in surplus.items() if each not in wanted),
    )


def answers(folder: Path) -> list[tuple[int, bool]]:
    """Read the ids of a query's answers from its finished files, and whether each was late."""
    found: list[tuple[int, bool]] = []
    for path in sorted(folder.glob("part-*.parquet")):
        table = pq.read_table(path, columns=["id", "_late"])
        found += zip(table["id"].to_pylist(), table["_late"].to_pylist(), strict=True)
    return found


def _raised(folder: Path) -> list[tuple[int, int]]:
    """Count, for each row, the alerts that it raised of those that stay."""
    counts: Counter[int] = Counter()
    for path in sorted((folder / alerts.NAME).glob("part-*.parquet")):
        table = pq.read_table(path, columns=["id", "_query"])
        counts.update(
            trade
            for trade, query in zip(*(table[each].to_pylist() for each in ("id", "_query")),
                                    strict=True)
            if query < alerts.FIRST_ID + alerts.N_STAYING
        )  # fmt: skip
    return list(counts.items())


def _late_rows(root: Root, manifest: Manifest) -> list[int]:
    store = manifest.stores.get(late_store(Registry.open(root).catalog.stream(STREAM)))
    if store is None:
        return []
    ids: list[int] = scan(root, store, columns=["id"])["id"].to_pylist()
    return ids


def _dead_letters(root: Root, manifest: Manifest) -> list[str]:
    store = manifest.stores.get(DEAD_LETTERS)
    if store is None:
        return []
    letters = scan(root, store, columns=["reason", "raw"]).to_pylist()
    return [_known_as(each["reason"], each["raw"].decode()) for each in letters]


def _known_as(reason: str, raw: str) -> str:
    """Name a dead letter as the ledger does: by its text, or by its id if it had none."""
    if not reason.startswith(TIMELESS):
        return raw
    return f"id {json.loads(raw)['id']}"
