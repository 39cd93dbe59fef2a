"""Who runs the epochs of a session: Spark, found by name, or a loop in this process."""

from __future__ import annotations

from importlib.metadata import entry_points

from millrace.engine.backend import Backend
from millrace.engine.local import LocalBackend
from millrace.engine.local_loop import LoopBackend
from millrace.state.fence import Fence


def backend_for(spark: object, fence: Fence) -> Backend:
    """Return the backend of a SparkSession, the one given, or one that is fed by hand."""
    if spark is None:
        return LocalBackend()
    if isinstance(spark, LocalBackend | LoopBackend):
        return spark
    found = entry_points(group="millrace.backends", name="spark")
    made: Backend = next(iter(found)).load()(spark, fence)
    return made
