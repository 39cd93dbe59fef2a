"""Tallies: segments laid end to end judge every row as one reader of the partition would."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from millrace.engine.tally import (
    NEVER,
    Failure,
    Segment,
    Tally,
    advanced,
    clock_at,
    hidden_lateness,
    segments_of,
)

DELAY = 5
TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=12)


def late(clock: int, times: list[int]) -> list[bool]:
    """Judge rows that follow a clock, one after the other."""
    verdicts = []
    for time in times:
        verdicts.append(clock != NEVER and time < clock - DELAY)
        clock = max(clock, time)
    return verdicts


def cut(times: list[int], cuts: list[int]) -> list[tuple[int, list[int]]]:
    bounds = sorted({0, *(each for each in cuts if each < len(times)), len(times)})
    return [(first, times[first:stop]) for first, stop in pairwise(bounds)]


def segment(clock: int, first: int, times: list[int]) -> Segment:
    """What a task says that knows only the clock at the start of the epoch."""
    verdicts = late(clock, times)
    punctual = [time for time, behind in zip(times, verdicts, strict=True) if not behind]
    return Segment("p", [first], max(times), min(punctual, default=None))


@given(st.just(NEVER) | st.integers(0, 30), TIMES, st.lists(st.integers(1, 11)))
@example(NEVER, [20, 10], [1])
@example(30, [10, 24], [1])
def test_lateness_is_hidden_if_and_only_if_a_verdict_would_differ(
    clock: int, times: list[int], cuts: list[int]
) -> None:
    pieces = cut(times, cuts)
    alone = [verdict for _, piece in pieces for verdict in late(clock, piece)]
    tallies = [Tally("s", segments=(segment(clock, first, piece),)) for first, piece in pieces]
    clocks = {} if clock == NEVER else {"p": clock}

    assert hidden_lateness(clocks, tallies, DELAY) == (alone != late(clock, times))


@given(st.just(NEVER) | st.integers(0, 30), TIMES, st.lists(st.integers(1, 11)))
def test_with_segments_known_each_verdict_is_that_of_one_reader(
    clock: int, times: list[int], cuts: list[int]
) -> None:
    pieces = cut(times, cuts)
    tallies = [Tally("s", segments=(segment(clock, first, piece),)) for first, piece in pieces]
    known = segments_of(reversed(tallies))["p"]

    verdicts = [
        verdict
        for first, piece in pieces
        for verdict in late(clock_at(clock, known, [first]), piece)
    ]

    assert verdicts == late(clock, times)


@given(TIMES, st.lists(st.integers(1, 11)))
def test_clocks_do_not_depend_on_segments(times: list[int], cuts: list[int]) -> None:
    tallies = [
        Tally("s", segments=(segment(NEVER, first, piece),)) for first, piece in cut(times, cuts)
    ]

    assert advanced({"q": 7}, tallies) == {"p": max(times), "q": 7}
    assert advanced({"p": 99}, tallies) == {"p": 99}


def test_a_segment_of_another_partition_hides_nothing() -> None:
    segments = (Segment("p", [0], 100, 100), Segment("q", [1], 10, 10))

    assert not hidden_lateness({}, [Tally("s", segments=segments)], DELAY)


def test_a_tally_survives_json() -> None:
    tally = Tally(
        "s", 3, 24, 1, 1, 2, 99, (Segment("p", [1, "x"], 5, None),),
        (Failure(7, None, "ValueError", "no"),), {"select": 0.5},
    )  # fmt: skip

    assert Tally.from_json(tally.to_json()) == tally
