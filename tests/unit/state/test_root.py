"""One contract for all roots."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import StoreError
from millrace.state.names import MissingError, check_name, parts_of
from millrace.state.root import Root, open_root


def test_what_was_put_is_read_and_mapped(root: Root) -> None:
    assert root.put_if_absent("runs/a", [b"one", memoryview(b"two"), pa.py_buffer(b"three")])

    assert root.get("runs/a") == b"onetwothree"
    assert root.map("runs/a").to_pybytes() == b"onetwothree"


def test_the_first_to_create_a_name_has_it(root: Root) -> None:
    assert root.put_if_absent("commits/1", b"first")

    assert not root.put_if_absent("commits/1", b"second")
    assert root.get("commits/1") == b"first"


def test_of_many_threads_one_creates_a_name(root: Root) -> None:
    start = threading.Barrier(8)
    outcomes: list[tuple[bool, bytes]] = []

    def create(text: bytes) -> None:
        start.wait()
        outcomes.append((root.put_if_absent("terms/1", text), text))

    threads = [threading.Thread(target=create, args=(bytes([65 + at]),)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    winners = [text for created, text in outcomes if created]
    assert winners == [root.get("terms/1")]


def test_put_replaces(root: Root) -> None:
    root.put("cursors/a", b"a longer first text")
    root.put("cursors/a", b"second")

    assert root.get("cursors/a") == b"second"


def test_an_empty_file_is_a_file(root: Root) -> None:
    root.put("a", b"")

    assert root.get("a") == b""
    assert root.map("a").size == 0
    assert [entry.size for entry in root.list("a")] == [0]


def test_a_listing_is_by_prefix_and_in_order(root: Root) -> None:
    for name in ("runs/b", "runs/a", "runs/deep/c", "runsheet", "commits/1", "top"):
        root.put_if_absent(name, name.encode())

    assert [entry.name for entry in root.list("runs/")] == ["runs/a", "runs/b", "runs/deep/c"]
    assert [entry.name for entry in root.list("runs/a")] == ["runs/a"]
    assert [entry.name for entry in root.list("nothing/")] == []
    assert [entry.name for entry in root.list("t")] == ["top"]
    assert len(root.list("")) == 6
    assert root.list("top")[0].size == 3


def test_deleting_twice_is_deleting(root: Root) -> None:
    root.put("a/b", b"text")
    root.delete("a/b")
    root.delete("a/b")

    assert root.list("") == []


def test_what_is_absent_is_named(root: Root) -> None:
    for read in (root.get, root.map):
        with pytest.raises(MissingError, match='file "runs/none" does not exist'):
            read("runs/none")


def test_a_mapping_outlives_its_file(root: Root) -> None:
    root.put("a", b"still here")
    mapped = root.map("a")
    root.delete("a")

    assert mapped.to_pybytes() == b"still here"


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "../a", "a/../b", "a//b", ".a", "a/.b", "a b", "ä"]
)
def test_names_that_could_leave_the_root_are_refused(root: Root, name: str) -> None:
    for use in (root.get, root.map, root.delete, lambda name: root.put(name, b"")):
        with pytest.raises(StoreError, match="cannot stand for a file"):
            use(name)


@given(st.text(max_size=20))
def test_an_accepted_name_stays_below_the_root(name: str) -> None:
    try:
        check_name(name)
    except StoreError:
        return
    top = Path("/somewhere/root")
    assert top in (top / name).resolve().parents


@given(st.lists(st.binary(max_size=8)))
def test_parts_are_the_data(parts: list[bytes]) -> None:
    assert b"".join(parts_of(parts)) == b"".join(parts)


def test_a_path_and_a_file_address_open_the_same_root(tmp_path: Path) -> None:
    strange = tmp_path / "a room"

    assert open_root(strange).uri == open_root(str(strange)).uri == open_root(strange.as_uri()).uri


def test_an_unknown_scheme_is_refused_in_words() -> None:
    with pytest.raises(StoreError, match='root "s3://bucket/x" has a scheme that is not known'):
        open_root("s3://bucket/x")
