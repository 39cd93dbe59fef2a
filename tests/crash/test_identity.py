"""An epoch with another input than it had is refused, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.engine.decision import Identity
from millrace.errors import IdentityError
from millrace.state.root import Root
from millrace.testing.harness import QUERY, Process, Record, conditions, differences, fill
from millrace.testing.mortal_root import copied

Places = Callable[[], Path]

EPOCH = 12  # the last committed one is 11


def bytes_of(files: Root) -> dict[str, bytes]:
    return {entry.name: files.get(entry.name) for entry in files.list("")}


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        (Identity(QUERY, 11, "other"), "epoch 11 is committed, and its input was not"),
        (Identity(QUERY, 3, "other"), "epoch 3 is committed, and its input was not"),
        (Identity("other", 11, "digest of 11"), "belongs to another streaming query"),
        (Identity("other", 12, "digest of 12"), "belongs to another streaming query"),
        (Identity(QUERY, 13, "digest of 13"), "asks for epoch 13, but the last one .* is 11"),
        (Identity("new", 0, "digest of 0"), "belongs to another streaming query"),
    ],
)
def test_an_input_that_cannot_be_the_epochs_is_refused(
    spread_record: Record, places: Places, identity: Identity, words: str
) -> None:
    record, directory = spread_record, places()
    files = copied(record.before[EPOCH][0])
    fill(directory, record.before[EPOCH][1])
    with conditions(record.how):
        process = Process(record.scenario, record.how, files, directory, EPOCH)
        before = bytes_of(files)

        with pytest.raises(IdentityError, match=words) as refused:
            process.engine.run(identity, process.execution(EPOCH))

        assert refused.value.hint
        assert bytes_of(files) == before
        process.step(EPOCH)
        assert not differences(process.observe(), record.after[EPOCH])


def test_a_committed_epoch_with_its_own_input_is_passed_over(
    spread_record: Record, places: Places
) -> None:
    record = spread_record
    files = copied(record.before[EPOCH][0])
    with conditions(record.how):
        process = Process(record.scenario, record.how, files, places(), EPOCH)
        before = bytes_of(files)

        assert process.engine.run(process.identity(11), process.execution(11)) is None
        assert bytes_of(files) == before
