"""Leases: in force until they expire or are released."""

from __future__ import annotations

import time

import pytest

from millrace.errors import StoreError
from millrace.state.lease import Lease, held
from millrace.state.root import Root


def test_leases_are_held_until_released(root: Root) -> None:
    first, second = Lease.take(root, 5, 60), Lease.take(root, 9, 60)
    assert sorted(lease.epoch for lease in held(root, time.time())) == [5, 9]

    first.release(root)
    first.release(root)

    assert held(root, time.time()) == [second]


def test_an_expired_lease_is_removed(root: Root) -> None:
    lease = Lease.take(root, 5, 60)

    assert held(root, lease.expires - 1) == [lease]
    assert held(root, lease.expires) == []
    assert root.list("leases/") == []


def test_renewing_moves_the_epoch_and_the_end(root: Root) -> None:
    lease = Lease.take(root, 5, 60).renew(root, 8, 600)

    assert held(root, time.time() + 300) == [lease]
    assert lease.epoch == 8


def test_an_expired_lease_is_not_renewed(root: Root) -> None:
    lease = Lease.take(root, 5, -1)

    with pytest.raises(StoreError, match="has expired"):
        lease.renew(root, 6, 60)
