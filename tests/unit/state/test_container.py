"""Containers: what is packed is read, and no damage goes unnoticed."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import CorruptionError, FormatVersionError
from millrace.state.container import MAGIC, Container, pack
from millrace.state.memory_root import MemoryRoot

META = {"made": "by hand", "n": 3}
SECTIONS = [("short", b"x"), ("empty", b""), ("whole", bytes(range(64))), ("long", b"y" * 70)]
SMALL = b"".join(pack(META, SECTIONS))


def contents(data: bytes) -> tuple[object, list[tuple[str, bytes]]]:
    """Everything that a container says."""
    container = Container("runs/a", pa.py_buffer(data))
    return container.meta, [(n, container.section(n).to_pybytes()) for n in container.sections]


def test_what_is_packed_is_read() -> None:
    assert contents(SMALL) == (META, SECTIONS)


@given(
    st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3),
    st.dictionaries(st.text(), st.lists(st.binary(max_size=100), max_size=3), max_size=4),
)
def test_anything_packed_is_read(meta: dict[str, object], sections: dict[str, list[bytes]]) -> None:
    data = b"".join(pack(meta, sections.items()))

    expected = [(name, b"".join(parts)) for name, parts in sections.items()]
    assert contents(data) == (meta, expected)


def test_sections_are_aligned_and_not_copied() -> None:
    root = MemoryRoot()
    root.put("runs/a", pack(META, SECTIONS))
    container = Container.open(root, "runs/a")

    for name in container.sections:
        offset = container.section(name).address - root.map("runs/a").address
        assert offset % 64 == 0
        assert offset == container.sections[name].offset


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flip_of_any_byte_is_noticed(flip: int) -> None:
    for at in range(len(SMALL)):
        damaged = bytearray(SMALL)
        damaged[at] ^= flip
        with pytest.raises((CorruptionError, FormatVersionError)):
            contents(bytes(damaged))


def test_a_file_cut_at_any_length_is_noticed() -> None:
    for length in range(len(SMALL)):
        with pytest.raises(CorruptionError):
            contents(SMALL[:length])


def test_a_file_that_goes_on_is_noticed() -> None:
    for more in (b"\0", b"\0" * 64, SMALL, SMALL[-40:]):
        with pytest.raises(CorruptionError):
            contents(SMALL + more)


def test_a_byte_lost_or_doubled_anywhere_is_noticed() -> None:
    for at in range(len(SMALL)):
        for damaged in (SMALL[:at] + SMALL[at + 1 :], SMALL[:at] + SMALL[at : at + 1] + SMALL[at:]):
            with pytest.raises(CorruptionError):
                contents(damaged)


def test_damage_is_told_with_file_section_place_and_checksums() -> None:
    damaged = bytearray(SMALL)
    place = Container("a", pa.py_buffer(SMALL)).sections["long"]
    damaged[place.offset + 3] ^= 1
    container = Container("runs/a", pa.py_buffer(bytes(damaged)))

    assert container.section("whole").to_pybytes() == bytes(range(64)), "other sections are well"
    with pytest.raises(CorruptionError) as caught:
        container.section("long")

    told = f'file "runs/a" is damaged in section "long" at bytes [{place.offset}, {place.stop})'
    assert caught.value.message == told
    assert f"{place.checksum:016x}" in caught.value.detail


def test_a_later_version_is_told_apart_from_damage() -> None:
    later = bytearray(SMALL)
    later[8:12] = later[-16:-12] = struct.pack("<I", 3)
    assert SMALL[:8] == SMALL[-8:] == MAGIC

    with pytest.raises(FormatVersionError, match="has format version 3, which is not known"):
        contents(bytes(later))


def test_a_section_that_is_not_there_is_told() -> None:
    with pytest.raises(CorruptionError, match='file "a" has no section "other"'):
        Container("a", pa.py_buffer(SMALL)).section("other")
