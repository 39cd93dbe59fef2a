"""Which back end runs the epochs of a session."""

from __future__ import annotations

from importlib.metadata import entry_points

from millrace.engine.backend import Backend
from millrace.engine.local import LocalBackend
from millrace.state.fence import Fence


def backend_for(spark: object, fence: Fence) -> Backend:
    """Return what runs epochs: Spark, which is found by name, or without it this process."""
    if spark is None:
        return LocalBackend()
    found = entry_points(group="millrace.backends", name="spark")
    made: Backend = next(iter(found)).load()(spark, fence)
    return made
