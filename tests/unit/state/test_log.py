"""The log of changes: the second writer loses, damage is survived or told, nothing is skipped."""

from __future__ import annotations

import pytest

from millrace.errors import CorruptionError, FencedError, FormatVersionError
from millrace.state.container import Container, pack
from millrace.state.log import Log
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root


def a_log(root: Root) -> Log[tuple[int, ...]]:
    """A log whose state is the list of all changes."""
    return Log(
        root,
        empty=(),
        restore=lambda snapshot: tuple(snapshot.meta["all"]),
        fold=lambda state, change: (*state, change.meta["value"]),
        changes="registry/changes",
        snapshots="registry/snapshots",
    )


def change(value: int) -> list[memoryview]:
    return pack({"value": value}, ())


def filled(root: Root, n_changes: int) -> Log[tuple[int, ...]]:
    log = a_log(root)
    for number in range(n_changes):
        log.append(number, change(number))
        if log.due(number):
            log.snapshot(number, pack({"all": list(range(number + 1))}, ()))
    return log


def damage(root: Root, name: str) -> None:
    data = bytearray(root.get(name))
    data[len(data) // 2] ^= 1
    root.put(name, bytes(data))


@pytest.mark.parametrize("n_changes", [0, 1, 64, 65, 66, 200, 321])
def test_loading_gives_every_change(root: Root, n_changes: int) -> None:
    log = filled(root, n_changes)

    assert log.load() == (n_changes - 1, tuple(range(n_changes)))
    assert len(root.list("registry/snapshots/")) == max(n_changes - 1, 0) // 64


def test_the_second_writer_of_a_number_is_fenced() -> None:
    log = filled(MemoryRoot(), 3)

    with pytest.raises(FencedError, match="has been written by another engine"):
        log.append(2, change(7))

    assert log.load() == (2, (0, 1, 2))


def test_the_same_bytes_may_be_appended_again() -> None:
    log = filled(MemoryRoot(), 3)
    log.append(2, change(2))

    assert log.load() == (2, (0, 1, 2))


def test_a_hole_is_named() -> None:
    root = MemoryRoot()
    log = filled(root, 100)
    root.delete("registry/changes/000000000080")

    with pytest.raises(CorruptionError, match='"registry/changes/000000000080" is missing'):
        log.load()


def test_a_damaged_snapshot_falls_back_to_the_one_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = MemoryRoot()
    log = filled(root, 140)
    for entry in log.outdated():
        root.delete(entry.name)
    damage(root, "registry/snapshots/000000000128")

    assert log.load() == (139, tuple(range(140)))
    assert "damaged snapshot left out: snapshot=128" in caplog.text


def test_with_both_snapshots_damaged_the_first_missing_change_is_named() -> None:
    root = MemoryRoot()
    log = filled(root, 140)
    for entry in log.outdated():
        root.delete(entry.name)
    for number in (64, 128):
        damage(root, f"registry/snapshots/{number:012d}")

    with pytest.raises(CorruptionError, match=r"000000000000.* is missing") as caught:
        log.load()
    assert isinstance(caught.value.__cause__, CorruptionError)


def test_changes_lost_before_a_damaged_snapshot_are_not_passed_over() -> None:
    root = MemoryRoot()
    log = filled(root, 129)
    for number in range(120, 129):
        root.delete(f"registry/changes/{number:012d}")
    damage(root, "registry/snapshots/000000000128")

    with pytest.raises(CorruptionError, match=r"000000000120.* is missing"):
        log.load()


def test_a_damaged_change_stops_the_start() -> None:
    root = MemoryRoot()
    log = filled(root, 10)
    damage(root, "registry/changes/000000000004")

    with pytest.raises(CorruptionError, match=r"000000000004.* is damaged"):
        log.load()


def test_a_snapshot_of_a_later_version_stops_the_start() -> None:
    root = MemoryRoot()
    log = filled(root, 65)
    data = bytearray(root.get("registry/snapshots/000000000064"))
    data[8] = data[-16] = 9
    root.put("registry/snapshots/000000000064", bytes(data))

    with pytest.raises(FormatVersionError):
        log.load()


def test_a_snapshot_that_a_crash_prevented_is_due_at_the_next_change() -> None:
    log = a_log(MemoryRoot())
    for number in range(70):
        log.append(number, change(number))

    assert [log.due(number) for number in (62, 63, 64, 65, 69)] == [False, False, True, True, True]
    log.snapshot(69, pack({"all": list(range(70))}, ()))
    assert [log.due(number) for number in (69, 100, 127, 128)] == [False, False, False, True]


def test_two_snapshots_are_kept_and_the_changes_after_the_older() -> None:
    root = MemoryRoot()
    log = filled(root, 200)
    for entry in log.outdated():
        root.delete(entry.name)

    assert log.kept_snapshots() == [128, 192]
    assert [entry.name[-3:] for entry in root.list("registry/snapshots/")] == ["128", "192"]
    assert root.list("registry/changes/")[0].name[-3:] == "129"
    assert log.load() == (199, tuple(range(200)))


def test_every_file_is_a_container() -> None:
    root = MemoryRoot()
    filled(root, 65)

    assert {Container.open(root, entry.name).name for entry in root.list("")} == {
        entry.name for entry in root.list("")
    }
