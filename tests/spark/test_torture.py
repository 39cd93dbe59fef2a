"""Kills of every kind on real Spark: the output must be that of a run in peace, byte for byte."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millrace.testing.spark_victim import PLANS, ROLL_EPOCHS, ROWS, STREAMS
from millrace.testing.torture import CLUSTER, Blow, Schedule, Torturer, random_schedule

N_EPOCHS = 8


def say(text: str) -> None:
    """Print; pytest shows it if the test fails."""
    sys.stdout.write(f"{text}\n")


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # minutes on two idle cores; a build machine may be slower
def test_twenty_kills_of_all_kinds_leave_no_trace(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    torturer = Torturer(
        tmp_path, seed=seed, say=lambda text: say(f"seed {seed}: {text}"), n_epochs=N_EPOCHS
    )
    parts = ["worker", "worker", "daemon", "source", "worker", "worker", "daemon"] * 2
    blows = [Blow(kind, at // 2) for at, kind in enumerate(parts)]
    blows += [Blow("driver", epoch) for epoch in (0, 3)]  # each the start of Spark: no more
    blows.append(Blow("jvm", 6))
    points = (
        "step.computed=segfault@2",
        "route.after=kill@3",
        "hop.after=kill@2",
        "log.before=full@3",  # no kill, but the supervisor has to start the query again
    )
    executors = (Blow("between", -1), Blow("executor", 3))

    torturer.run_in_peace()
    _check_the_quiet_run(tmp_path / "run1" / "out")
    torturer.run_under(Schedule(tuple(sorted(blows, key=lambda blow: blow.epoch)), points))
    torturer.run_under(Schedule(executors, ("hop.before=hang@1",), CLUSTER))

    tally = torturer.tally
    assert tally.total >= 20, tally
    assert set(tally.kills) == {
        "worker", "daemon", "source", "driver", "jvm", "point", "between", "executor",
    }  # fmt: skip
    assert tally.overlaps >= 2, "a driver was started while the JVM of the one before lived"
    assert tally.at_once, "and that within a tenth of a second"


def _check_the_quiet_run(out: Path) -> None:
    """The run that all others are compared with has every row once."""
    for stream in STREAMS:
        files = sorted((out / "sink" / f"all_{stream}").glob("*.parquet"))
        numbers = pa.concat_tables([pq.read_table(each) for each in files])["number"].to_pylist()
        every = range(N_EPOCHS * ROWS)
        assert sorted(numbers) == [each for each in every if each & 127 != 100]
    for query in PLANS:
        files = sorted((out / "sink" / query).glob("*.parquet"))
        assert len(files) == N_EPOCHS // ROLL_EPOCHS, f"{query} has answers in every stretch"
    facts = json.loads((out / "tables" / "facts.json").read_text())
    assert facts["counts"]["rows"] == len(STREAMS) * N_EPOCHS * ROWS
    assert facts["leftovers"] == []


def test_a_seed_says_what_will_be_killed() -> None:
    drawn = [[random_schedule(random.Random(seed)) for seed in range(50)] for _ in range(2)]

    assert drawn[0] == drawn[1]
    assert {blow.kind for each in drawn[0] for blow in each.blows} == {
        "driver", "jvm", "worker", "daemon", "source", "executor", "between",
    }  # fmt: skip
