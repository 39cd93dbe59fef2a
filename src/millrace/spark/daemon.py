"""The process that Python workers are forked from, with the slow imports done beforehand.

Spark starts one daemon for each machine and Python, and forks a worker from it whenever no idle
one is left. PySpark's own daemon imports nothing, so every new worker pays for numpy, pyarrow
and numba again: 0.4 s, on a shard that others wait for. This one imports them once, and runs
every kernel once so that it is compiled; its workers share the pages.

Invariant: nothing imported here leaves a thread running, because a fork copies one thread only
and a lock that another held stays locked for ever. A test counts them.

Used through the setting `spark.python.daemon.module=millrace.spark.daemon`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from pyspark.daemon import manager

PRELOADED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "numba",
    "xxhash",
    "pandas",  # pyarrow imports it, where it is installed, when it first meets a Python list
    "pyspark.worker",
    "millrace.spark.tasks",
    "millrace.engine.route",
    "millrace.engine.step",
)

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's own choice, mimalloc, holds on to 20 MB in each worker that this one gives back.
    **({"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}),
    # jemalloc, which Arrow loads in any case, would start a thread.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def preload() -> None:
    """Import what tasks will need; a module that is not there is a task's problem, not ours."""
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        importlib.import_module("millrace.engine.warm").warm()
        readers = importlib.import_module("millrace.connectors.compiled")
        if readers.readers_are_compiled():
            readers.warm_decoders()
    # A worker collects garbage after each task. What is frozen is neither looked at again (so
    # that each collection is short) nor written to (so that its pages stay shared).
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    manager()
