"""The one kind of file: checksummed sections, a directory of them, and a trailer.

    0        header    magic, version, zeros up to 64
    64       sections  each starts at a multiple of 64 and is padded with zeros to the next
             footer    JSON: the `meta` document; name, offset, length, checksum of each section
    -40      trailer   footer offset, length and checksum, version, zeros, magic

Invariant: every byte of a file is compared with something before it is believed. Header and
trailer have one possible value; the footer's checksum stands in the trailer; sections with
their padding follow one another without a gap, and their checksums stand in the footer. So a
torn, truncated, extended or flipped file is noticed when it is opened, or when the section
that was hit is first touched.

Cost: opening maps the file and parses the footer (0.3 ms); a section is hashed once for each
open container, at about 10 GB/s (xxh3, from the page cache), and is not copied.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import pyarrow as pa
import xxhash

from millrace.errors import CorruptionError, FormatVersionError
from millrace.state.names import Data, parts_of
from millrace.state.root import Root

MAGIC = b"MILLRACE"
VERSION = 2
KNOWN = (1, 2)
"""The versions that are read; in the first no column is narrow (`state.narrow`)."""
ALIGNMENT = 64

_HEADER = struct.Struct("<8sI52x")
_TRAILER = struct.Struct("<QQQI4x8s")


@dataclass(frozen=True, slots=True)
class Section:
    """Where a section stands in its file, and the checksum of its bytes and padding."""

    offset: int
    length: int
    checksum: int

    @property
    def stop(self) -> int:
        """The position behind the padding."""
        return _aligned(self.offset + self.length)


def pack(meta: Mapping[str, Any], sections: Iterable[tuple[str, Data]]) -> list[memoryview]:
    """Frame `sections` and the JSON document `meta` as the parts of one file.

    Examples
    --------
    >>> parts = pack({"made": "by hand"}, [("greeting", b"hello")])
    >>> sum(len(part) for part in parts) % 64 != 0  # the footer is not padded
    True
    """
    parts = [memoryview(_HEADER.pack(MAGIC, VERSION))]
    offset = _HEADER.size
    directory: dict[str, list[int]] = {}
    for name, data in sections:
        assert name not in directory, f"section {name!r} is given twice"
        body = parts_of(data)
        length = sum(part.nbytes for part in body)
        padding = memoryview(bytes(_aligned(length) - length))
        directory[name] = [offset, length, _checksum([*body, padding])]
        parts += [*body, padding]
        offset += _aligned(length)
    footer = json.dumps({"meta": meta, "sections": directory}, separators=(",", ":")).encode()
    trailer = _TRAILER.pack(offset, len(footer), _checksum([footer]), VERSION, MAGIC)
    return [*parts, memoryview(footer), memoryview(trailer)]


class Container:
    """One mapped file whose frame has been checked; its sections are checked when touched."""

    def __init__(self, name: str, data: pa.Buffer) -> None:
        self.name = name
        self._data = data
        self._touched: set[str] = set()
        document = _footer(name, data)
        self.meta: dict[str, Any] = document["meta"]
        self.sections = {key: Section(*value) for key, value in document["sections"].items()}
        _check_gapless(name, self.sections, stop=_trailer(name, data)[0])

    @classmethod
    def open(cls, root: Root, name: str) -> Self:
        """Map the file `name` of `root` and check its frame."""
        return cls(name, root.map(name))

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return int(self._data.size)

    def section(self, name: str) -> pa.Buffer:
        """Give the bytes of a section, without copying, checked at the first touch."""
        place = self.sections.get(name)
        if place is None:
            raise CorruptionError(f'file "{self.name}" has no section "{name}"')
        if name not in self._touched:
            self._verify(name, place)
            self._touched.add(name)
        return self._data.slice(place.offset, place.length)

    def _verify(self, name: str, place: Section) -> None:
        found = _checksum([self._data.slice(place.offset, place.stop - place.offset)])
        if found != place.checksum:
            _damaged(
                self.name,
                f'section "{name}" at bytes [{place.offset}, {place.stop})',
                expected=f"checksum {place.checksum:016x}",
                found=f"{found:016x}",
            )


def _footer(name: str, data: pa.Buffer) -> dict[str, Any]:
    """Check header, trailer and footer; give the footer's document."""
    offset, length, expected, version = _trailer(name, data)
    header = data.slice(0, _HEADER.size).to_pybytes()
    stated = struct.unpack_from("<8sI", header)
    if version not in KNOWN and stated == (MAGIC, version):
        raise FormatVersionError(
            f'file "{name}" has format version {version}, which is not known',
            detail=f"This millrace knows versions {KNOWN[0]} to {KNOWN[-1]}.",
            hint="Open the root with the millrace that wrote it, or a newer one.",
        )
    if version not in KNOWN:
        known = f"{KNOWN[0]} to {KNOWN[-1]}"
        _damaged(name, "the version in the trailer", expected=known, found=str(version))
    if header != _HEADER.pack(MAGIC, version):
        _damaged(name, f"the header at bytes [0, {_HEADER.size})", found=header.hex())
    if offset + length + _TRAILER.size != data.size or offset < _HEADER.size:
        _damaged(
            name,
            f"the trailer at byte {data.size - _TRAILER.size}",
            expected=f"a footer that ends at byte {data.size - _TRAILER.size}",
            found=f"[{offset}, {offset + length})",
        )
    footer = data.slice(offset, length)
    found = _checksum([footer])
    if found != expected:
        place = f"the footer at bytes [{offset}, {offset + length})"
        _damaged(name, place, expected=f"checksum {expected:016x}", found=f"{found:016x}")
    document: dict[str, Any] = json.loads(footer.to_pybytes())
    return document


def _trailer(name: str, data: pa.Buffer) -> tuple[int, int, int, int]:
    """Give footer offset, length, checksum, and the version."""
    smallest = _HEADER.size + _TRAILER.size
    if data.size < smallest:
        _damaged(name, "its length", expected=f"at least {smallest} bytes", found=str(data.size))
    trailer = data.slice(data.size - _TRAILER.size).to_pybytes()
    offset, length, checksum, version, magic = _TRAILER.unpack(trailer)
    if trailer != _TRAILER.pack(offset, length, checksum, version, MAGIC):
        place = f"the trailer at byte {data.size - _TRAILER.size}"
        _damaged(name, place, expected=MAGIC.hex(), found=magic.hex())
    return offset, length, checksum, version


def _check_gapless(name: str, sections: Mapping[str, Section], *, stop: int) -> None:
    position = _HEADER.size
    for key, place in sections.items():
        if place.offset != position:
            _damaged(name, f'section "{key}"', expected=f"byte {position}", found=str(place.offset))
        position = place.stop
    if position != stop:
        _damaged(name, "the footer", expected=f"byte {position}", found=str(stop))


def _damaged(name: str, place: str, *, expected: str = "", found: str) -> NoReturn:
    wanted = f"Expected {expected}; found {found}." if expected else f"Found {found}."
    raise CorruptionError(
        f'file "{name}" is damaged in {place}',
        detail=wanted,
        hint="Restore this file from a copy of the root; a disk or a transfer has changed it.",
    )


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def _checksum(parts: Iterable[Any]) -> int:
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    return digest.intdigest()
