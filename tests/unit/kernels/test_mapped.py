"""Columns by their addresses: kernels read what stands there, in any block and at any bit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.containers import pack_places, unpack_places
from millrace.kernels.mapped import BIT, gather, gather_texts, members_of_keys

SETS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 9),
        st.sets(st.integers(0, 65_535) | st.integers(0, 40), min_size=1, max_size=40),
    ),
    min_size=1,
    max_size=8,
)


@given(st.lists(SETS, max_size=3), st.sets(st.integers(0, 6)), st.integers(0, 9))
def test_members_are_those_of_the_sets_of_wanted_keys(
    blocks: list[list[tuple[int, int, set[int]]]], keys: set[int], begin: int
) -> None:
    held, expected = [], []
    for block in blocks:
        ordered = sorted(block, key=lambda each: each[:2])
        places = [place for *_, each in ordered for place in sorted(each)]
        sizes = [len(each) for *_, each in ordered]
        owners = np.array([key for key, *_ in ordered], np.uint64)
        bases_of, counts = np.arange(len(ordered), dtype=np.uint64), np.array(sizes, np.int32)
        newest = np.array([time for _, time, _ in ordered], np.int64)
        ends, data = pack_places(np.array(places, np.uint16), np.cumsum([0, *sizes]))
        held.append((owners, bases_of, counts, newest, ends, data))
        for at, key in enumerate(owners.tolist()):
            one = slice(at, at + 1)
            members = unpack_places(
                bases_of[one], counts[one], ends[at : at + 2], data, newest[one], begin
            )
            expected += [(key, member) for member in members.tolist() if key in keys]
    bases = np.array([[each.ctypes.data for each in columns] for columns in held], np.uint64)

    found_of, found = members_of_keys(
        bases.reshape(len(held), 6),
        np.array([len(columns[0]) for columns in held], np.int64),
        np.arange(len(held)),
        np.array(sorted(keys), np.uint64),
        begin,
    )

    told = list(zip(found_of.tolist(), found.tolist(), strict=True))
    assert sorted(told) == sorted(expected)


@given(st.integers(0, 1 << 30), st.integers(0, 20), st.integers(0, 3))
def test_values_of_all_widths_are_gathered(seed: int, skipped: int, n_blocks: int) -> None:
    random = np.random.default_rng(seed)
    kinds = [np.uint64, np.uint32, np.uint16, np.uint8]
    held = [[random.integers(0, 200, 40).astype(kind) for kind in kinds] for _ in range(n_blocks)]
    bits = [random.integers(0, 2, 40 + skipped).astype(np.uint8) for _ in range(n_blocks)]
    packed = [np.packbits(each, bitorder="little") for each in bits]
    bases = np.array(
        [
            [*(each.ctypes.data for each in numbers), 8 * truths.ctypes.data + skipped]
            for numbers, truths in zip(held, packed, strict=True)
        ],
        np.uint64,
    ).reshape(n_blocks, 5)
    n_rows = int(random.integers(0, 60)) if n_blocks else 0
    blocks, places = random.integers(0, max(n_blocks, 1), n_rows), random.integers(0, 40, n_rows)
    rows = list(zip(blocks.tolist(), places.tolist(), strict=True))
    starts = np.arange(6) * 1_024

    found = gather(bases, np.array([8, 4, 2, 1, BIT]), blocks, places, starts)

    for column, kind in enumerate(kinds):
        values = found[starts[column] :].view(kind)[:n_rows]
        assert values.tolist() == [held[block][column][place] for block, place in rows]
    truths = np.unpackbits(found[starts[4] : starts[5]], bitorder="little")[:n_rows]
    assert truths.tolist() == [bits[block][skipped + place] for block, place in rows]


@given(st.lists(st.lists(st.binary(max_size=5), min_size=1), min_size=1, max_size=3), st.data())
def test_texts_are_gathered(held: list[list[bytes]], data: st.DataObject) -> None:
    stored = [pa.array(texts, pa.binary()) for texts in held]
    bases = np.zeros((len(held), 3), np.uint64)
    for block, texts in enumerate(stored):
        _, offsets, values = texts.buffers()
        bases[block, 1:] = offsets.address, 0 if values is None else values.address
    every = [(block, place) for block, texts in enumerate(held) for place in range(len(texts))]
    rows = data.draw(st.lists(st.sampled_from(every)))
    blocks, places = np.array(rows, np.int64).reshape(-1, 2).T.copy()

    ends, found = gather_texts(bases, 1, blocks, places)

    spans = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    told = [found[first:stop].tobytes() for first, stop in spans]
    assert told == [held[block][place] for block, place in rows]
