"""Spans: by few numbers a reader knows whether it has missed anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.retention import MOST_SPANS, grown, last_expired


@given(st.lists(st.none() | st.integers(0, 50), max_size=60), st.integers(0, 60))
def test_few_epochs_are_told_apart(leasts: list[int | None], horizon: int) -> None:
    spans: list[list[int]] = []
    for epoch, least in enumerate(leasts):
        spans = grown(spans, epoch, least, None)

    expected = [
        epoch for epoch, least in enumerate(leasts) if least is not None and least < horizon
    ]
    assert last_expired(spans, horizon) == max(expected, default=None)


@given(st.integers(0, 300), st.integers(1, 9), st.integers(0, 400), st.integers(0, 400))
def test_many_epochs_become_few_spans_that_never_promise_too_much(
    n_epochs: int, step: int, retain: int, longer: int
) -> None:
    spans: list[list[int]] = []
    for epoch in range(n_epochs):
        spans = grown(spans, epoch, step * epoch, step * epoch - retain - longer)
    horizon = step * (n_epochs - 1) - retain

    assert len(spans) <= MOST_SPANS
    gone = max((each for each in range(n_epochs) if step * each < horizon), default=-1)
    told = last_expired(spans, horizon)
    assert (-1 if told is None else told) >= gone
    # A span is short beside what is retained: a reader that was away for less is not told.
    slack = 2 * (retain + longer) // MOST_SPANS + 2 * step
    assert (-1 if told is None else told) <= gone + slack // step + 1
