"""Events, however their bytes were cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millrace.client.events import Event, Events

TEXT = (
    b"\xef\xbb\xbf: alive\r\n\r\nid: 7:1\r\nevent: rows\r\ndata: {\"a\":\ndata: 1}\n\n"
    b"id: 8\ndata: \xc3\xa9\xf0\x9f\x8c\x8a\n\nid: 9\n\ndata: x\rid:10\r\rdata: half"
)  # fmt: skip
WHOLE = [
    Event("comment", "alive"),
    Event("rows", '{"a":\n1}', "7:1"),
    Event("message", "é🌊", "8"),
    Event("message", "x", "10"),
]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_where_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    events = Events()

    found = [event for first, stop in pairwise(places) for event in events.feed(TEXT[first:stop])]

    assert found == WHOLE


def test_one_byte_at_a_time() -> None:
    events = Events()

    assert [event for at in range(len(TEXT)) for event in events.feed(TEXT[at : at + 1])] == WHOLE
