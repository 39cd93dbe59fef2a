"""Names, data and entries: the nouns that every root shares.

A name is relative and slash-separated. No part of it starts with a dot, so a temporary file
(`.tmp-...`) can never be named, listed or read as if it were complete.

    commits/000000000123                          what epoch 123 changed, and its small runs
    snapshots/000000000128                        the whole manifest after epoch 128
    runs/000000000123-0000-0256-<hash>.run        runs that a task of epoch 123 wrote
    terms/000000000007                            the seventh engine that took the root
    leases/<id>                                   a reader in another process
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import xxhash

from millrace.errors import StoreError

Part: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
Data: TypeAlias = Part | Sequence[Part]

COMMITS = "commits"
SNAPSHOTS = "snapshots"
RUNS = "runs"
TERMS = "terms"
LEASES = "leases"
TEMPORARY = ".tmp-"
N_BUCKETS = 1024

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*(/[A-Za-z0-9_][A-Za-z0-9_.=+-]*)*")
_RUN_FILE = re.compile(rf"{RUNS}/(\d{{12}})-\d+-\d+-[0-9a-f]{{16}}\.run")
_NUMBERED = re.compile(r".*/(\d{12})")


class MissingError(StoreError):
    """A root holds no file of that name."""

    code = "missing"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a root, as a listing shows it.

    `modified` is in seconds of the wall clock; only the sweeping of left-overs looks at it.
    """

    name: str
    size: int
    modified: float


Entries: TypeAlias = list[Entry]


def check_name(name: str) -> str:
    """Return `name` if it may stand for a file of a root, else raise."""
    if _NAME.fullmatch(name) is None:
        raise StoreError(
            f'name "{name}" cannot stand for a file of a root',
            detail="A name is relative; its parts hold letters, digits and _ . = + - and do "
            "not start with a dot.",
        )
    return name


def parts_of(data: Data) -> list[memoryview]:
    """Give the parts of `data` as views of bytes, without copying."""
    single = isinstance(data, bytes | bytearray | memoryview | pa.Buffer)
    parts: Sequence[Part] = [data] if single else data
    views = [memoryview(part) for part in parts]
    return [view.cast("B") for view in views if view.nbytes]


def numbered(prefix: str, number: int) -> str:
    """Name the `number`-th file under `prefix`, so that names sort as numbers do.

    >>> numbered("commits", 7)
    'commits/000000000007'
    """
    assert number >= 0, "files are numbered from zero"
    return f"{prefix}/{number:012d}"


def number_of(name: str) -> int | None:
    """Return the number in a numbered name, None in any other."""
    match = _NUMBERED.fullmatch(name)
    return None if match is None else int(match[1])


def run_file_name(epoch: int, buckets: tuple[int, int], data: Data) -> str:
    """Name a file of runs by its epoch, its half-open bucket range and its content.

    A task that is tried again computes the same bytes and so the same name.

    >>> run_file_name(3, (0, 256), b"")
    'runs/000000000003-0-256-2d06800538d394c2.run'
    """
    low, high = buckets
    assert 0 <= low < high <= N_BUCKETS, "a bucket range is half-open and not empty"
    digest = xxhash.xxh3_64()
    for part in parts_of(data):
        digest.update(part)
    return f"{RUNS}/{epoch:012d}-{low}-{high}-{digest.hexdigest()}.run"


def epoch_of(name: str) -> int | None:
    """Return the epoch that wrote a file of runs or a commit, None for any other name."""
    match = _RUN_FILE.fullmatch(name)
    if match is not None:
        return int(match[1])
    return number_of(name) if name.startswith(f"{COMMITS}/") else None


def inline(name: str) -> bool:
    """Tell whether the file `name` is a commit, whose runs are to be folded soon."""
    return name.startswith(f"{COMMITS}/")
