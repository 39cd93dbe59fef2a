"""Settings that change while Spark runs: a new trigger starts the query anew, and nothing is lost.

The engine tells of itself meanwhile: what it tells comes through the push source.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import millrace
from millrace.session.telling import tell_of_itself
from millrace.testing.spark_rows import wait_until
from millrace.time import MILLISECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_trigger_and_other_settings_change_and_nothing_is_lost(
    spark: SparkSession, sessions: Any
) -> None:
    session, sink = sessions.open(trigger=100 * MILLISECOND), millrace.MemorySink(["all"])
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
    session.stream("ticks", ticks.name("ticks").load(), time="timestamp")
    session.query("SELECT value FROM ticks", name="all")
    session.sink(sink)
    telling = tell_of_itself(session)
    telling.ask(time.time_ns() // 1_000)
    session.start()
    wait_until(lambda: len(session.statistics()) > 2, seconds=60)
    first = session._run.query.runId

    session.change_settings({"target": "500 ms", "shards": 3, "spread": "always"})
    assert session._run.query.runId == first  # the next epoch follows; nothing is started anew
    session.change_settings({"trigger": "400 ms"})
    assert session._run.query.runId != first
    before = len(session.statistics())
    wait_until(lambda: len(session.statistics()) > before + 2, seconds=60)
    wait_until(lambda: session.history("sysstream").num_rows > 0, seconds=60)
    spread = session.statistics()[-1].spread
    session.close()

    values = sink.table("all")["value"].to_pylist()
    assert sorted(values) == list(range(len(values)))
    assert values
    assert spread
