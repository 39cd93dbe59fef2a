"""Discovery: what was listed stays as it was listed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from millrace.connectors.decode import read_split
from millrace.connectors.discovery import DiscoveryOptions, Listing, decode_offset, encode_offset
from millrace.connectors.globs import find_paths
from millrace.connectors.splits import CutOptions
from millrace.errors import SourceError
from millrace.schema import Schema
from millrace.state.root import Root, open_root
from millrace.time import ManualClock


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return open_root(tmp_path / "root")


def put(data: Path, name: str, *, seconds: int, rows: int = 1) -> Path:
    path = data / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"a": 1}\n' * rows)
    os.utime(path, (seconds, seconds))
    return path


def listing(root: Root | RacingRoot, data: Path, **options: object) -> Listing:
    chosen = DiscoveryOptions(pattern=str(data), **options)  # type: ignore[arg-type]
    return Listing(cast(Root, root), "trades", chosen)


def names(listed: Listing) -> list[str]:
    return [Path(each.path).name for each in listed.splits(0, listed.n_splits)]


def test_files_are_listed_in_order_of_time_then_name(root: Root, data: Path) -> None:
    put(data, "c.ndjson", seconds=1)
    put(data, "b.ndjson", seconds=2)
    put(data, "a.ndjson", seconds=2)
    listed = listing(root, data)

    assert listed.refresh() == 3
    assert names(listed) == ["c.ndjson", "a.ndjson", "b.ndjson"]


def test_the_order_never_changes_again(root: Root, data: Path) -> None:
    put(data, "b.ndjson", seconds=20)
    first = listing(root, data)
    first.refresh()
    put(data, "a.ndjson", seconds=10)

    assert listing(root, data).refresh() == 2
    assert names(listing(root, data)) == ["b.ndjson", "a.ndjson"]
    assert first.refresh() == 2  # it learns the page that another wrote
    assert names(first) == ["b.ndjson", "a.ndjson"]


class RacingRoot:
    """A root in which somebody else always writes first, once."""

    def __init__(self, root: Root, before: Callable[[], object]) -> None:
        self._root, self._before = root, [before]

    def put_if_absent(self, name: str, page: bytes) -> bool:
        if self._before:
            self._before.pop()()
        return self._root.put_if_absent(name, page)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)


def test_of_two_drivers_the_first_writes_the_page(root: Root, data: Path) -> None:
    put(data, "a.ndjson", seconds=1)
    first = listing(root, data)

    def win() -> None:
        first.refresh()
        put(data, "0.ndjson", seconds=0)

    second = listing(RacingRoot(root, win), data)

    assert second.refresh() == 2
    assert names(second) == ["a.ndjson", "0.ndjson"]
    assert first.refresh() == 2
    assert names(first) == names(second)


def test_unfinished_and_hidden_files_are_passed_over(root: Root, data: Path) -> None:
    for name in (".a.ndjson", "_b.ndjson", "c.ndjson.tmp", "d.crc", "e.inprogress", "notes.txt"):
        put(data, name, seconds=1)
    put(data, "_temporary/f.ndjson", seconds=1)

    assert listing(root, data).refresh() == 0
    assert list(find_paths(str(data / "**"))) == [str(data / "notes.txt")]


def test_a_declared_format_takes_any_ending(root: Root, data: Path) -> None:
    put(data, "part-0000", seconds=1)

    listed = listing(root, data, form="ndjson")

    assert listed.refresh() == 1
    assert listed.splits(0, 1)[0].format == "ndjson"


def test_a_file_must_have_settled(root: Root, data: Path) -> None:
    put(data, "a.ndjson", seconds=100)
    clock = ManualClock(start=104 * 1_000_000)
    options = DiscoveryOptions(pattern=str(data), settle=5_000_000)
    listed = Listing(root, "trades", options, clock=clock)

    assert listed.refresh() == 0
    clock.advance("1 s")
    assert listed.refresh() == 1


def test_an_offset_advances_by_rows_and_at_least_one_split(root: Root, data: Path) -> None:
    for at in range(4):
        put(data, f"{at}.ndjson", seconds=at, rows=200)  # about 18 rows by the guess
    listed = listing(root, data)
    listed.refresh()

    assert listed.advance(0, 40) == 2
    assert listed.advance(0, 1) == 1
    assert listed.advance(2, 10**9) == 4
    assert listed.advance(4, 10) == 4
    assert decode_offset(encode_offset(3)) == 3


def test_big_files_are_listed_with_their_splits(root: Root, data: Path) -> None:
    put(data, "a.ndjson", seconds=1, rows=10)
    listed = listing(root, data, cut=CutOptions(split_bytes=40))
    listed.refresh()

    again = listing(root, data)

    assert [(each.first, each.stop) for each in again.splits(0, 3)] == [(0, 40), (40, 80), (80, 90)]


def test_splits_that_are_not_listed_are_refused(root: Root, data: Path) -> None:
    with pytest.raises(SourceError, match=r"splits \[0, 1\) are not listed"):
        listing(root, data).splits(0, 1)


def test_compaction_keeps_the_order_and_goes_on(root: Root, data: Path) -> None:
    listed = listing(root, data, max_new_files=1, cut=CutOptions(split_bytes=10))
    for at in range(3):
        put(data, f"{at}.ndjson", seconds=at, rows=2)
        listed.refresh()
    splits = listed.splits(0, 6)
    stale = listing(root, data)

    listed.compact()
    listed.compact()
    put(data, "3.ndjson", seconds=3)

    assert [each.name for each in root.list("sources/")] == ["sources/trades/000000000003.all"]
    assert listing(root, data).splits(0, 6) == splits
    assert stale.refresh() == 7
    assert listed.refresh() == 7


def test_a_listed_file_that_changed_is_reported(root: Root, data: Path) -> None:
    put(data, "a.ndjson", seconds=1)
    changed = put(data, "b.ndjson", seconds=2)
    listed = listing(root, data)
    listed.refresh()
    assert listed.changed() == []

    changed.write_text('{"a": 1}\n' * 2)

    reports = [error for _ in range(2) for error in listed.changed(max_files=1)]
    assert [error.message for error in reports] == [f'file "{changed}" changed after it was listed']
    with pytest.raises(SourceError, match="changed"):
        list(read_split(listed.splits(1, 2)[0], Schema.of("a int")))


def test_a_broken_parquet_file_is_listed_and_reported_in_its_turn(root: Root, data: Path) -> None:
    (data / "a.parquet").write_bytes(b"PAR1 no")
    listed = listing(root, data)

    assert listed.refresh() == 1
    with pytest.raises(SourceError, match="cannot be read"):
        list(read_split(listed.splits(0, 1)[0], Schema.of("a int")))


def test_patterns_name_files_at_any_depth(data: Path) -> None:
    for name in ("x/1.ndjson", "x/y/2.ndjson", "3.csv"):
        put(data, name, seconds=1)

    def found(pattern: str) -> set[str]:
        return {Path(path).name for path in find_paths(str(data / pattern))}

    assert found("*") == {"3.csv"}
    assert found("**/*.ndjson") == {"1.ndjson", "2.ndjson"}
    assert found("*/*.ndjson") == {"1.ndjson"}
    assert found("x/[0-9].*") == {"1.ndjson"}
    assert found("3.csv") == {"3.csv"}
    with pytest.raises(SourceError, match="cannot be listed"):
        found("absent/*")


def test_ten_thousand_known_files_are_looked_through_quickly(root: Root, data: Path) -> None:
    for at in range(10_000):
        (data / f"{at}.ndjson").touch()
    listed = listing(root, data, max_new_files=10_000)
    assert listed.refresh() == 10_000

    start = time.perf_counter()
    listed.refresh()

    assert time.perf_counter() - start < 1.0  # 0.02 s on an idle machine


def test_many_pages_are_put_into_one_by_themselves(root: Root, data: Path) -> None:
    listed = listing(root, data)
    for number in range(150):
        put(data, f"{number:03d}.ndjson", seconds=number)
        assert listed.refresh() == number + 1

    assert len(root.list("sources/")) <= 64
    assert names(listing(root, data)) == [f"{number:03d}.ndjson" for number in range(150)]


def test_a_file_that_is_written_again_is_told_once(
    root: Root, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(data, "a.ndjson", seconds=1)
    listed = listing(root, data)
    listed.refresh()
    put(data, "a.ndjson", seconds=2, rows=3)

    assert [listed.refresh() for _ in range(3)] == [1, 1, 1]
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 1
    assert "a.ndjson" in told[0]


def test_a_directory_that_is_away_for_a_while_costs_no_file(root: Root, data: Path) -> None:
    put(data, "a.ndjson", seconds=1)
    listed = listing(root, data)
    listed.refresh()
    away = data.rename(data.parent / "away")
    put(away, "b.ndjson", seconds=2)

    with pytest.raises(SourceError, match="cannot be listed"):
        listed.refresh()

    assert names(listed) == ["a.ndjson"]
    away.rename(data)
    assert listed.refresh() == 2
    assert names(listed) == ["a.ndjson", "b.ndjson"]
