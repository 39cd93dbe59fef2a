"""Entries: the instants of a slab at which something happens to a group, ordered by group and time.

Each group begins with an entry for how it stood before the slab; so what is told of a group can be
compared with what was told last.

    group 0:  before, t1, t2      group 1:  before, t1      ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.grouping import add_by_number, firsts_of, order_by, places_of, running_sums
from millrace.operators.relational.equal import hashes_of, numbered
from millrace.operators.relational.events import Account, Events
from millrace.operators.relational.timed import NEVER, concat_rows, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Groups, and the instants of each; `NEVER` is the entry before the slab."""

    keys: pa.RecordBatch
    hashes: Hashes
    groups: Ints
    times: Ints
    begins: Ints
    """Where the entries of each group begin, and where the last end."""

    @property
    def before(self) -> Bools:
        """Which entries say how a group stood before the slab."""
        return firsts_of(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def group_of(self, keys: pa.RecordBatch) -> Ints:
        """Return the group that each key is of, -1 for none."""
        both = concat_rows([self.keys, keys], self.keys.schema)
        numbers, firsts = numbered(both)
        n_groups = self.keys.num_rows  # different keys, so their numbers are their places
        found: Ints = np.where(firsts[numbers[n_groups:]] < n_groups, numbers[n_groups:], -1)
        return found

    def entry_of(self, groups: Ints, times: Ints) -> Ints:
        """Return the entries of a group at an instant, which exist."""
        return places_of(self.begins, self.times, groups, times)

    def running(self, groups: Ints, base: Ints, of: Ints, times: Ints, changes: Ints) -> Ints:
        """Return counts at each entry: base counts by group, and changes of groups at instants."""
        start = add_by_number(groups, base, len(self.hashes))
        moved = add_by_number(self.entry_of(of, times), changes, len(self))
        return running_sums(self.groups, moved, start)


def entries_of(feeds: Sequence[Events], keys: pa.Schema, place: str | None) -> Entries:
    """Return the entries of all events, which have the columns `keys` among others."""
    rows = concat_rows([each.rows.select(keys.names) for each in feeds], keys)
    times = np.concatenate([each.times for each in feeds])
    numbers, firsts = numbered(rows)
    n_groups = len(firsts)
    groups = np.concatenate((np.arange(n_groups), numbers))
    times = np.concatenate((np.full(n_groups, NEVER), times))
    order = order_by(groups, times, n_groups)
    groups, times = groups[order], times[order]
    fresh = firsts_of(groups)
    fresh[1:] |= times[1:] != times[:-1]
    found = take_rows(rows, firsts)
    groups, times = groups[fresh], times[fresh]
    begins = np.searchsorted(groups, np.arange(n_groups + 1))
    return Entries(found, hashes_of(found, place), groups, times, begins)


def accounted(entries: Entries, account: Account, keys: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the group of each row of an account, and of each event."""
    groups = entries.group_of(account.rows.select(list(keys)))
    return groups, groups[account.numbers]
