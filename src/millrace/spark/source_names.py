"""Names of streaming sources: Spark keeps offsets by them, so each must have one of its own.

A session with the settings that millrace requires refuses `readStream…load()` without `.name(…)`
by itself. A DataFrame that was made before those settings were in force got past that, and would
fail only when the query starts.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError

_UNNAMED = "name=<Unassigned>"


def source_names(frame: DataFrame) -> list[str]:
    """Return the names of a DataFrame's streaming sources; refuse one without a name."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(at) for at in range(leaves.size())]
    streaming = [leaf for leaf in found if leaf.isStreaming()]
    names = [str(leaf.sourceIdentifyingName()) for leaf in streaming]
    if _UNNAMED in names:
        raise PlanError(
            "a streaming source has no name",
            detail=f"It is {streaming[names.index(_UNNAMED)].toString()}.",
            hint='Name it where it is made: spark.readStream.format(…).name("trades").load(…).',
        )
    return [name.removeprefix('name="').removesuffix('"') for name in names]


def require_distinct(streams: Mapping[str, DataFrame]) -> None:
    """Refuse streams whose sources share a name."""
    owners: dict[str, str] = {}
    for stream, frame in streams.items():
        for name in source_names(frame):
            if name in owners:
                raise PlanError(
                    f'streams "{owners[name]}" and "{stream}" read from sources of one name',
                    detail=f'The name is "{name}".',
                    hint="Give each source a name of its own with readStream.name(…).",
                )
            owners[name] = stream


def source_name(spec: StreamSpec) -> str:
    """Name the source of a stream, in letters that Spark and the root take.

    >>> from millrace.schema import Schema
    >>> source_name(StreamSpec("my trades", Schema.of("ts timestamp"), "ts", born=7))
    'millrace_my_trades_7'
    """
    plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in spec.name)
    return f"millrace_{plain}_{spec.born}"
