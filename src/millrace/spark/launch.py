"""Start a local Spark with the settings that millrace needs, or check a session it is given.

`REQUIRED` is what the answers depend on: a session that a user brings must have it. `ADVISED` is
what speed and quiet depend on. The figures were measured with Spark 4.3 on two cores.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millrace.errors import MachineError
from millrace.spark.class_archive import archive_options
from millrace.spark.java import ensure_java, java_environment
from millrace.spark.spark_home import spark_home

SPARK_VERSION = "4.3"

JAVA_OPTIONS = "MILLRACE_JAVA_OPTIONS"
"""The environment variable with further options of JVMs, such as -XX:TieredStopAtLevel=1."""

REQUIRED: dict[str, str] = {
    # Streams come and go: offsets are kept by the name of a source, not by its position. Without
    # it a query refuses to restart once a stream was added.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    # The form of the offset log that has room for names. It cannot be changed in a checkpoint
    # that exists, so it must be there from the first epoch on.
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    # An epoch is known by the digest of its offsets file, so that file must outlive the time
    # between an epoch and its commit, restarts included. More is allowed.
    "spark.sql.streaming.minBatchesToRetain": "16",
    # If its metadata file is lost, a checkpoint must not take another query id in silence.
    "spark.sql.streaming.checkpoint.verifyMetadataExists.enabled": "true",
    # A timestamp read from text must not depend on where the machine stands.
    "spark.sql.session.timeZone": "UTC",
    # Chunks cross into Python as Arrow binary with 32-bit offsets.
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}

AT_LEAST = frozenset({"spark.sql.streaming.minBatchesToRetain"})

ADVISED: dict[str, str] = {
    # The default manager forks a process for each link and chmod: 45 ms for each of the two log
    # files of an epoch, against 10 to 15 ms.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    # Our plans are tiny and fixed; planning them again at each exchange costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    # Forks workers from a process that has numpy, pyarrow and numba loaded: 0.4 s a worker.
    "spark.python.daemon.module": "millrace.spark.daemon",
    # Calls into Python are made per Arrow batch. 1,000 rows a batch cost, above 10,000 it is flat.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # How often a quiet source is asked. Each asking costs about 2 ms for a source in Python.
    "spark.sql.streaming.pollingDelay": "10ms",
    # Spark's file source writes a log file an epoch and keeps those it has compacted for ten
    # minutes, for readers of stores that list late; in a root they would be thousands of files.
    # No file system and no store of objects lists late any more.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1s",
    # Progress objects kept in memory; millrace has statistics of its own.
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    # A quiet stream reports once a minute, not every ten seconds.
    "spark.sql.streaming.noDataProgressEventInterval": "60000",
    # A worker that crashes says where.
    "spark.python.worker.faulthandler.enabled": "true",
    # No web server; and little of what it would show is kept, because epochs are many.
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "40",
    "spark.ui.retainedTasks": "400",
    "spark.sql.ui.retainedExecutions": "10",
    # Progress bars belong to the user's program.
    "spark.ui.showConsoleProgress": "false",
}

# A local session listens to this machine alone.
_LOCAL: dict[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# Plain local mode gives a task up at its first failure; a worker's death is worth another try.
_TASK_ATTEMPTS = 4

LAST_TASKS_SECONDS = 5.0


def local_spark(
    *,
    cores: int | str = "*",
    app: str = "millrace",
    memory: str = "1g",
    log_level: str = "error",
    java_options: str | None = None,
    log: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark in a JVM of its own on this machine.

    Parameters
    ----------
    cores
        How many tasks run at once; "*" for one for each processor.
    app
        The name Spark knows the application by.
    memory
        The heap of the JVM. State does not live there.
    log_level
        What Spark's JVM writes to the terminal: error, warn, info, debug.
    java_options
        Options for the JVM; by default the archive of classes, where `millrace warm` made one.
        Those of the environment (`MILLRACE_JAVA_OPTIONS`) are added.
    log
        The file that is appended to with what the JVM and Spark's Python processes write; by
        default the terminal. A JVM that runs in this process's name already keeps its own.
    extra
        Further settings. They win over `ADVISED` and `spark.master`, not over `REQUIRED`.

    Raises
    ------
    MachineError
        When there is no Java, or when Spark runs in this process already.
    """
    if SparkContext._active_spark_context is not None:
        raise MachineError(
            "Spark is already running in this process",
            hint="Stop it first, or hand its session to the engine.",
        )
    extra = {} if extra is None else extra
    if java_options is None:
        java_options = archive_options(ensure_java())
    further = os.environ.get(JAVA_OPTIONS, "")
    options = f"{_quiet_java_options(log_level)} {java_options} {further}"
    settings = {
        "spark.master": f"local[{cores},{_TASK_ATTEMPTS}]",
        "spark.app.name": app,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": options,
        "spark.executor.extraJavaOptions": further,
        **_LOCAL,
        **ADVISED,
        **extra,
        **REQUIRED,
    }
    for name in AT_LEAST & extra.keys():
        settings[name] = extra[name]
    configuration = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    imports = threading.Thread(target=_import_the_engine)
    imports.start()
    with _environment():
        if log is not None:
            _launch_jvm(configuration, log)
        session = SparkSession.builder.config(conf=configuration).getOrCreate()
    imports.join()
    check_session(session)
    return session


def stop_spark(session: SparkSession) -> None:
    """Stop a session when the tasks that were cancelled have ended, as they soon do.

    A task that reports to a scheduler that is gone leaves a stack on the JVM's error output.
    """
    deadline = time.monotonic() + LAST_TASKS_SECONDS
    with contextlib.suppress(Py4JError, OSError):
        while _n_running(session) and time.monotonic() < deadline:
            time.sleep(0.05)
        session.stop()


def _n_running(session: SparkSession) -> int:
    """Count the tasks that run now."""
    tracker = session.sparkContext._jsc.sc().statusTracker()
    return sum(int(each.numRunningTasks()) for each in tracker.getExecutorInfos())


_launch_gateway: Callable[[SparkConf, dict[str, Any]], Any] = java_gateway.launch_gateway


def _launch_jvm(configuration: SparkConf, log: Path) -> None:
    """Start the JVM with its output, which its Python processes share, in a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        popen = {"stdout": file, "stderr": file}
        try:
            gateway = SparkContext._gateway or _launch_gateway(configuration, popen)
        except PySparkException as cause:
            raise MachineError(
                "the JVM that Spark runs in has not started",
                detail=f"{cause}.",
                hint=f"What it wrote is in {log}; `millrace doctor` looks for what is missing.",
            ) from cause
        SparkContext._ensure_initialized(gateway=gateway)


def check_session(session: SparkSession) -> None:
    """Refuse a session whose settings could change answers.

    Raises
    ------
    MachineError
        Naming each setting, the value it has, and the value that is required.
    """
    if not session.version.startswith(f"{SPARK_VERSION}."):
        raise MachineError(
            f"Spark {session.version} is not supported",
            hint=f"Use Spark {SPARK_VERSION}.",
        )
    actual = {name: session.conf.get(name, None) for name in REQUIRED}
    wrong = {name: value for name, value in actual.items() if not _accepted(name, value)}
    if not wrong:
        return
    detail = "; ".join(
        f"{name} is {'not set' if value is None else value}, required is "
        f"{'at least ' if name in AT_LEAST else ''}{REQUIRED[name]}"
        for name, value in wrong.items()
    )
    raise MachineError(
        "the Spark session lacks settings that answers depend on",
        detail=f"{detail}.",
        hint="Set them before the first stream is started: spark.conf.set(name, value).",
    )


def _import_the_engine() -> None:
    """Import, while the JVM starts, what a session will need right after."""
    import_module("millrace.session")
    import_module("millrace.spark.backend")


def _accepted(name: str, value: str | None) -> bool:
    if value is None:
        return False
    if name in AT_LEAST:
        return int(value) >= int(REQUIRED[name])
    return value.lower() == REQUIRED[name].lower()


def _quiet_java_options(log_level: str) -> str:
    configuration = files("millrace.spark") / "log4j2.properties"
    return f"-Dlog4j2.configurationFile=file:{configuration} -Dmillrace.log.level={log_level}"


@contextmanager
def _environment() -> Iterator[None]:
    """Set what Spark reads from the environment while it starts, and put everything back."""
    chosen = {
        **java_environment(),
        # Otherwise workers are the first `python3` of the path, without this one's packages.
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Another Spark on the machine must not be mixed with this one.
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
