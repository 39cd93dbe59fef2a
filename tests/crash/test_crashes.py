"""A process dies at every failpoint, in every configuration: nothing is lost, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from millrace.engine.settings import Settings
from millrace.engine.streams import StreamSpec
from millrace.failpoints import POINTS
from millrace.testing.bag import Bag, bag
from millrace.testing.configurations import CONFIGURATIONS, Configuration, configuration
from millrace.testing.harness import (
    KEEP_REJECTED,
    Crash,
    Disturbed,
    Process,
    Record,
    check_sound,
    contents,
    differences,
    undisturbed,
)
from millrace.testing.oracle.epochs import Epoch, outcome_of
from millrace.testing.scenario import Scenario

Places = Callable[[], Path]

# What a configuration cannot reach, by its nature. Everything else has to be reached.
UNREACHED = {"unmerged": {"merge.before", "merge.after"}}

# Rows travel where plans stand and shards are apart. One configuration has plans in all of its
# tests; for the others there is a short scenario.
HOPS = ("hop.before", "hop.after")
HOPPING = ("oversize",)
SHORT = 12

# One crash after another is for configurations that differ most; one at each point is for all.
OFTEN = ("spread", "resharded", "unmerged")
DISK_ERRORS = {"fail": ("oversize",), "full": ("spread",)}

EPOCHS_AFTER = 1

MOVING = {"merge.before", "merge.after", "snapshot.before", "snapshot.after"}
FIRST = ("register", "publish")


def passing(record: Record, point: str) -> tuple[int, int]:
    """Choose a passing of a point: the first, one in the middle or the last, by configuration."""
    known = record.passings[point]
    chosen = [known[0], known[len(known) // 2], known[-1]]
    number = [each.name for each in CONFIGURATIONS].index(record.how.name)
    return chosen[(number + POINTS.index(point)) % 3]


def check_delivered(record: Record, process: Process, directory: Path) -> None:
    """Check that the files so far are those of the undisturbed run, to the byte."""
    stops = {each.name: each.next_epoch for each in process.session.sinks()}
    expected = {
        name: data
        for name, data in record.delivered.items()
        if last_epoch(name) < stops[name.partition("/")[0]]
    }

    assert not differences(contents(directory), expected)


def check_happened(run: Disturbed) -> None:
    """Check that crashes were no empty threat; some things may have become due in another epoch."""
    missed = [each.point for each in run.crashes if each.point not in run.happened]
    assert set(missed) <= MOVING
    assert len(run.happened) > 0.9 * len(run.crashes)


def unreached(record: Record) -> set[str]:
    """Return the points that a run cannot reach, by its nature."""
    hops = set[str]() if record.scenario.plans else set(HOPS)
    return UNREACHED.get(record.how.name, set()) | hops


def last_epoch(name: str) -> int:
    return int(name.removesuffix(".parquet").rpartition("-")[2])


def test_every_failpoint_is_reached_or_listed(record: Record) -> None:
    assert record.unreached == unreached(record)


def test_what_comes_out_does_not_depend_on_the_configuration(
    record: Record, request: pytest.FixtureRequest, places: Places
) -> None:
    name = "planned_record" if record.scenario.plans else "spread_record"
    other: Record = request.getfixturevalue(name)
    if other.how == record.how:
        other = undisturbed(record.scenario, configuration("plain"), places())
    assert other.scenario == record.scenario
    assert other.how != record.how
    for found, expected in zip(record.after, other.after, strict=True):
        assert not differences(found, expected)
    assert not differences(record.delivered, other.delivered)


def test_an_undisturbed_run_is_what_the_oracle_says(spread_record: Record) -> None:
    """Otherwise all runs might be wrong alike."""
    scenario, last = spread_record.scenario, spread_record.after[-1]
    known = {each["name"]: StreamSpec.from_json(each) for each in last["catalog"]["streams"]}
    specs = [known["kafka"], known["files"]]
    numbers = range(scenario.n_epochs)
    epochs = [Epoch(scenario.arrivals(each), scenario.clock(each)) for each in numbers]

    oldest = epochs[-1].clock - KEEP_REJECTED
    expected = outcome_of(specs, epochs, [])
    expired = outcome_of(specs, [each for each in epochs if each.clock < oldest], [])

    for spec in specs:
        mark = expected.watermarks[spec.name]
        n_expired = len(expired.late.get(spec.name, []))
        late = [tuple(row.values()) for _, row in expected.late[spec.name][n_expired:]]
        history = [tuple(row.values()) for row in expected.history[spec.name]]
        assert len(history) > 8 < len(late)
        assert last["watermarks"][spec.name] == mark
        assert last["clocks"][spec.name] == expected.clocks[spec.name]
        assert last["seen"][spec.name] == expected.seen[spec.name]
        assert without_leading(last[f"history {spec.name}"], 1) == bag(history)
        assert without_leading(last[f"late {spec.name}"], 3) == bag(late)


def without_leading(rows: Bag, n_columns: int) -> Bag:
    shorter: Bag = Counter()
    for row, count in rows.items():
        shorter[row[n_columns:]] += count
    return shorter


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_changes_nothing(record: Record, point: str, places: Places) -> None:
    if point in unreached(record):
        pytest.skip("listed as unreached")
    epoch, nth = passing(record, point)
    check_crash(record, Crash(epoch, point, nth), places())


def check_crash(record: Record, crash: Crash, directory: Path) -> None:
    """Check that all is as if there had been no crash, when an epoch has followed it."""
    run = Disturbed(record, [crash], directory)

    process = run.run(stop=crash.epoch + 1 + EPOCHS_AFTER)

    assert run.happened == [crash.point]
    last = min(crash.epoch + EPOCHS_AFTER, record.scenario.n_epochs - 1)
    assert not differences(process.observe(), record.after[last])
    check_delivered(record, process, directory)
    check_sound(run.files)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOPPING)
def test_a_crash_between_two_stages_changes_nothing(how: str, places: Places) -> None:
    record = undisturbed(Scenario(SHORT, plans=True), configuration(how), places())

    for point in HOPS:
        epoch, nth = passing(record, point)
        check_crash(record, Crash(epoch, point, nth), places())


def test_a_crash_in_every_epoch_changes_nothing(record: Record, places: Places) -> None:
    """Every epoch has its crash, at as many points as can be; one run again is cut otherwise."""
    if record.how.name not in OFTEN:
        pytest.skip("three configurations have a crash in every epoch")
    crashes, directory = one_crash_an_epoch(record), places()
    run = Disturbed(record, crashes, directory, moved=True)
    process = run.run()
    process.close()

    check_happened(run)
    assert not differences(process.observe(), record.after[-1])
    assert not differences(contents(directory), record.delivered)
    check_sound(run.files)
    assert len(run.files.list("")) <= record.n_files + 20


@pytest.mark.slow
def test_a_crash_at_each_point_changes_nothing_of_alike_queries(places: Places) -> None:
    """Joins, bands, groups and ticks that run as one plan each; two fail, one by a function.

    A strategy is forced, and queries of a template share panes. An epoch has many crashes.
    """
    apart = Settings(shards=2, spread="always", families="always", backoff=0)
    how = replace(configuration("resharded"), settings=(apart, replace(apart, shards=3)))
    record = undisturbed(Scenario(SHORT, alike=True), how, places())
    verdicts = [len(each["suspended"]) for each in record.after]
    assert record.unreached <= set(HOPS)
    assert max(verdicts) == 2
    feeds = record.after[-1]["catalog"]["feeds"]
    assert {"called0", "banded0"} <= {each["name"] for each in feeds if each.get("family")}

    crashes, directory = each_point_once(record), places()
    run = Disturbed(record, crashes, directory)
    process = run.run()
    process.close()

    missed = {each.point for each in crashes} - {*run.happened}
    assert missed <= {*MOVING, "collect.between"}
    assert not differences(process.observe(), record.after[-1])
    assert not differences(contents(directory), record.delivered)
    check_sound(run.files)


def each_point_once(record: Record) -> list[Crash]:
    """Choose an epoch for each point, in which it is passed: the one with the fewest others."""
    chosen: dict[int, list[str]] = {}
    for point in sorted(record.passings, key=lambda each: len(record.passings[each])):
        epochs = {at for at, _ in record.passings[point]}
        best = min(sorted(epochs), key=lambda each: len(chosen.get(each, [])))
        chosen.setdefault(best, []).append(point)
    return [
        Crash(epoch, point)
        for epoch, points in sorted(chosen.items())
        for point in sorted(points, key=_in_order)
    ]


def _in_order(point: str) -> tuple[bool, int]:
    return not point.startswith(FIRST), POINTS.index(point)


def one_crash_an_epoch(record: Record, action: str = "raise") -> list[Crash]:
    """Choose a point for each epoch: the one that was chosen least of those it passes."""
    used = dict.fromkeys(record.passings, 0)
    crashes = []
    for epoch in range(record.scenario.n_epochs):
        possible = [
            point for point, known in record.passings.items() if epoch in {at for at, _ in known}
        ]
        point = min(possible, key=lambda each: (used[each], len(record.passings[each])))
        used[point] += 1
        crashes.append(Crash(epoch, point, action=action))
    return crashes


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=[pytest.mark.slow] if at % 4 else [])
        for at, each in enumerate(POINTS)
    ],
)
def test_a_crash_during_the_recovery_changes_nothing(
    spread_record: Record, point: str, places: Places
) -> None:
    """The first crash is early in an epoch, so that the second finds all points before it."""
    if point in unreached(spread_record):
        pytest.skip("listed as unreached")
    record, directory = spread_record, places()
    first = "register.before" if point.startswith(("register", "publish")) else "log.before"
    passed = [epoch for epoch, _ in record.passings[point]]
    # The registry has snapshots too, but those are not taken again.
    epoch = max(each for each in passed if each % 8 == 0 or not point.startswith("snapshot"))
    crashes = [Crash(epoch, first), Crash(epoch, point)]
    run = Disturbed(record, crashes, directory)
    process = run.run(stop=epoch + 1 + EPOCHS_AFTER)

    assert run.happened == [first, point]
    last = min(epoch + EPOCHS_AFTER, record.scenario.n_epochs - 1)
    assert not differences(process.observe(), record.after[last])
    check_delivered(record, process, directory)


@pytest.mark.parametrize("action", ["fail", "full"])
def test_an_error_of_the_disk_in_every_epoch_changes_nothing(
    record: Record, action: str, places: Places
) -> None:
    if record.how.name not in DISK_ERRORS[action]:
        pytest.skip("one configuration for each error")
    crashes, directory = one_crash_an_epoch(record, action), places()
    run = Disturbed(record, crashes, directory)
    process = run.run()
    process.close()

    check_happened(run)
    assert not differences(process.observe(), record.after[-1])
    assert not differences(contents(directory), record.delivered)
    check_sound(run.files)


def test_the_same_run_twice_is_the_same(places: Places) -> None:
    """Otherwise a difference found above would not have to come from a crash."""
    how: Configuration = CONFIGURATIONS[1]
    first, second = (undisturbed(Scenario(12), how, places()) for _ in range(2))

    assert all(map(dict.__eq__, first.after, second.after))
    assert not differences(first.delivered, second.delivered)
    assert first.passings == second.passings
