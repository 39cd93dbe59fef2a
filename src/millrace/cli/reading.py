"""Reading a root from outside, while an engine may be running on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from millrace.errors import StoreError
from millrace.state.fence import Holder, holder_of
from millrace.state.lease import Lease
from millrace.state.names import COMMITS, TERMS, number_of
from millrace.state.root import Root, open_root

LEASE_SECONDS = 3_600.0


def existing_root(path: str) -> Root:
    """Open a root that is there already, or say that there is none."""
    root = open_root(path)
    if root.list(f"{TERMS}/"):
        return root
    place = Path(path)
    if not place.exists():
        raise StoreError(f'directory "{path}" does not exist')
    inside = [each.parent.name for each in place.glob(f"*/{TERMS}")]
    hint = f'There is a root in "{place / inside[0]}".' if inside else ""
    raise StoreError(
        f'directory "{path}" is not a root',
        detail="No engine has ever opened it.",
        hint=hint or "Give the directory that was given to millrace.Session.",
    )


@contextmanager
def leased(root: Root) -> Iterator[None]:
    """Keep the files of the newest manifest from being deleted; load it inside."""
    numbers = [number_of(entry.name) for entry in root.list(f"{COMMITS}/")]
    newest = max((number for number in numbers if number is not None), default=0)
    try:
        lease = Lease.take(root, newest, LEASE_SECONDS)
    except StoreError:  # a root that we may not write to is read without
        yield
        return
    try:
        yield
    finally:
        lease.release(root)


def engine_of(root: Root) -> Holder | None:
    """Return the engine that holds the root; None if there is none, or if it has ended."""
    return holder_of(root)
