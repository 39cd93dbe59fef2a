"""Ways to run a `.slt` file: whatever is chosen here, the answers may not differ.

The first way runs every file. The others run one in `share` of them, chosen by a digest of the
name, so that a file is always run in the same ways; what a file checks is run in several. Files of
queries that are more than selections (`PLANS`) are run in an eighth of the ways that concern them,
and in all with shards if rows travel between those (`HOPS`);
runs that are not `quick` are for where slow tests are run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from unittest.mock import patch
from zlib import crc32

from millrace.engine.settings import Settings
from millrace.index.access import METHODS
from millrace.plan.lifting import Lifted

Cut: TypeAlias = Literal["instants", "rows", "random", "whole"]

MOST_ON_SPARK = 7

PLANS = ("cql", "papers")
"""The directories of queries that are more than selections."""
HOPS = "hops"
"""The directory among them of those whose rows travel between shards."""

_PLAIN = Settings(shards=1, spread="never", backoff=0)
_SLOWLY = Settings(shards=1, spread="never", backfill_rows=2, backoff=0)
_REMEMBERED = Settings(shards=2, spread="always", again=False, backoff=0)
_MERGED = Settings(shards=4, spread="always", merge_at_start=True, backoff=0)
_APART = Settings(shards=2, spread="always", sharing=False, panes="never", backoff=0)
_HOT = Settings(
    shards=2,
    spread="always",
    narrow=False,
    strategy="hotspot",
    sets=False,
    upkeep=False,
    panes="sparse",
    backoff=0,
)
_TOGETHER = Settings(shards=2, spread="always", families="always", backoff=0)
_BANDS_TOGETHER = Settings(shards=2, spread="always", bands=False, backoff=0)
_GATHERED = Settings(shards=2, spread="always", hops=False, backoff=0)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a file.

    Parameters
    ----------
    cut
        What becomes an epoch: an instant, a row, a random stretch of rows, or all rows between
        two statements.
    n_tasks
        How many tasks share the rows of an epoch at most.
    lifting
        Whether queries that differ in constants only are of one shape.
    shuffled
        Whether queries that stand together are registered in random order, an epoch each.
    crashes
        Whether the program dies, and another one goes on, after every step.
    plans, selections
        Of which files it is a way.
    """

    name: str
    settings: Settings = _PLAIN
    cut: Cut = "instants"
    n_tasks: int = 1
    lifting: bool = True
    shuffled: bool = False
    crashes: bool = False
    share: int = 1
    plans: bool = True
    selections: bool = True

    def takes(self, path: Path) -> bool:
        """Say whether a file is run in this way."""
        if not {*PLANS}.isdisjoint(path.parts):
            spread = HOPS in path.parts and self.settings.spread == "always"
            return self.plans and (self == DEFAULT or spread or self._draws(path, 8))
        if not self.selections:
            return False
        return self._draws(path, self.share)

    def quick(self, path: Path) -> bool:
        """Say whether a file that is run in this way is among those that are always run."""
        if self == DEFAULT:
            return True
        return self._draws(path, 6 if {*PLANS}.isdisjoint(path.parts) else 16)

    def _draws(self, path: Path, share: int) -> bool:
        return crc32(f"{self.name} {path.stem}".encode()) % share == 0

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Change what settings do not reach, for as long as the context lasts."""
        if self.lifting:
            yield
            return
        with patch("millrace.session.registration.lift_constants", Lifted):
            yield


def _forced(access: str) -> Way:
    settings = Settings(shards=1, spread="never", backoff=0, access=access)
    return Way(access, settings, cut="whole", share=4, plans=False)


def _sharded(n_shards: int) -> Way:
    settings = Settings(shards=n_shards, spread="always", backoff=0)
    return Way(f"{n_shards}-shards", settings, cut="random", n_tasks=n_shards, share=3)


DEFAULT = Way("plain")
WAYS = (
    DEFAULT,
    Way("row-by-row", _SLOWLY, cut="rows", share=3),
    Way("cuts", cut="random", n_tasks=3, share=3),
    Way("at-once", cut="whole", share=3),
    Way("unshared", lifting=False, share=3, plans=False),
    Way("any-order", shuffled=True, share=3, plans=False),
    Way("crashes", crashes=True, share=3),
    Way("merged", _MERGED, selections=False),
    Way("remembered", _REMEMBERED, cut="random", selections=False),
    Way("unshared-joins", _APART, cut="random", selections=False),
    Way("hotspots", _HOT, cut="random", selections=False),
    Way("families", _TOGETHER, cut="random", n_tasks=2, selections=False),
    Way("one-range", _BANDS_TOGETHER, cut="random", n_tasks=2, selections=False),
    Way("no-hops", _GATHERED, cut="random", n_tasks=2, selections=False),
    *(_forced(access) for access in METHODS),
    *(_sharded(n_shards) for n_shards in (1, 2, 4)),
)


@dataclass(frozen=True, slots=True)
class SparkWay(Way):
    """A way to run some files, by directories or by names, together on Spark.

    With `by_files`, Spark hears the names of the files of streams, and else it reads the rows.
    """

    patterns: tuple[str, ...] = ()
    by_files: bool = False

    def files(self, root: Path) -> list[Path]:
        """Return the files that are run in this way; each is a source, which costs a second."""
        found = [path for each in self.patterns for path in sorted(root.glob(f"{each}*.slt"))]
        return found[:: -(-len(found) // MOST_ON_SPARK)]


def _on_spark(
    n_shards: int, *patterns: str, kind: str = "", dealing: bool | None = None
) -> SparkWay:
    settings = Settings(shards=n_shards, spread="always", backoff=20_000, dealing=bool(dealing))
    name = f"spark-{kind}{n_shards}"
    return SparkWay(name, settings, patterns=patterns, by_files=dealing is not None)


SPARK_WAYS = (
    _on_spark(1, "compare/"),
    _on_spark(2, "standing/", "time/"),
    _on_spark(4, "logic/", "project/"),
    _on_spark(1, "cql/windows/", "cql/top/", kind="plans-"),
    _on_spark(2, "cql/joins/", "cql/subqueries/", kind="plans-", dealing=False),
    _on_spark(4, "papers/", "cql/groups/", kind="plans-", dealing=True),
    _on_spark(2, "cql/tables/", "cql/families/[a-n]", "cql/hops/", kind="families-"),
    _on_spark(
        4,
        "cql/families/[o-v]",
        "cql/families/win",
        "cql/tables/[c-f]",
        "cql/sets/",
        kind="families-",
    ),
)
