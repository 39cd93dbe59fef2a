"""Hypothesis profiles, a seed that is always printed, and the Spark session tests share."""

from __future__ import annotations

import functools
import gc
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.errors import UnsatisfiedAssumption
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).parent
SPARK_TESTS = TESTS / "spark"
# What starts a server, a terminal or a browser, or takes long, is not for `make check`.
SLOW_TESTS = {
    TESTS / each
    for each in (
        "browser",
        "unit/cli/shell",
        "unit/cli/test_query.py",
        "unit/client/served",
        "unit/engine/test_keeping.py",
        "unit/engine/test_statistics.py",
        "unit/lang/test_limits.py",
        "unit/operators/joining",
        "unit/reading/test_adhoc_plans.py",
        "unit/reading/test_backup.py",
        "unit/server/test_bulk_together.py",
        "unit/server/test_fan_out.py",
        "unit/server/test_hostile.py",
        "unit/server/test_processes.py",
        "unit/server/test_service.py",
        "unit/server/test_tls.py",
        "unit/server/test_trust.py",
        "unit/session/test_backfill.py",
        "unit/session/test_population.py",
        "unit/session/test_warm_start.py",
        "unit/sharing",
        "unit/state/test_levels.py",
    )
}
# One process runs all tests with the Spark session of the tests, for to start one is dear.
# These start their own.
SPARK_SESSION = re.compile(r"tests/(?:spark/|slt/test_slt_spark.py)")
OWN_SPARK = re.compile(r"tests/spark/test_(?:demo|run_command|serve|torture).py")
# One process runs all tests of another file: they share what is made once. In these files it is
# what the first parameter names that is shared: a configuration, or a way.
PARTED = re.compile(
    r"(tests/(?:crash/test_crashes|slt/test_slt).py)::\w+(\[[a-z0-9-]+?(?=[]:]|-[a-z]+[].]))?"
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
RUNS_OF_A_MACHINE = 300
"""When fuzzing: a machine of states knows no clock, and each of its runs has many steps."""
FUZZ_MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))

# No deadline: the first call of a kernel compiles it. On a loaded machine drawing may be slow.
_always = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time, so that a change is judged by itself; `make fuzz` looks further.
settings.register_profile("quick", _always, max_examples=8, derandomize=True)
settings.register_profile("nightly", _always, max_examples=20_000)
settings.load_profile(PROFILE)


@dataclass
class Budget:
    """The time for fuzzing, shared out fairly among the properties that are left."""

    ends: float
    n_left: int = 0
    turn_ends: float = float("inf")

    def next_turn(self) -> bool:
        """Give the next property its share; False when there is none."""
        left = self.ends - time.monotonic()
        self.turn_ends = time.monotonic() + left / max(self.n_left, 1)
        self.n_left -= 1
        return left > 0

    def limited(self, test: Callable[..., None]) -> Callable[..., None]:
        """Wrap a property so that it ends with its turn, unless it has an example to shrink."""
        failing = False

        @functools.wraps(test)
        def in_turn(*args: object, **kwargs: object) -> None:
            nonlocal failing
            try:
                test(*args, **kwargs)
            except UnsatisfiedAssumption:
                raise
            except Exception:
                failing = True
                raise
            # After the test, so that it has drawn all it wants. Hypothesis lets a skip through.
            if time.monotonic() > self.turn_ends and not failing:
                pytest.skip("held for as long as its turn was")

        return in_turn


_budget = Budget(time.monotonic() + 60 * FUZZ_MINUTES)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed here, before Hypothesis would, so that it can be printed."""
    # A JVM that lives for seconds is not worth the work of its second compiler, half its time,
    # nor that of the threads that collect its garbage beside it, a sixth.
    os.environ.setdefault("MILLRACE_PRICES", "known")  # whatever this machine is
    os.environ.setdefault("MILLRACE_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = random.SystemRandom().randrange(2**32)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    seed = config.option.hypothesis_seed
    return f"hypothesis: HYPOTHESIS_PROFILE={PROFILE} --hypothesis-seed={seed}"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say it again after a failure: a quiet run prints no header."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED or FUZZ_MINUTES:
        terminalreporter.write_line(pytest_report_header(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by where they stand; when fuzzing, take the properties in any order.

    Otherwise what takes longest comes first, so that no process is alone with it at the end.
    """
    for item in items:
        if SPARK_TESTS in item.path.parents:
            item.add_marker("spark")
        if not SLOW_TESTS.isdisjoint({item.path, *item.path.parents}):
            item.add_marker("slow")
    if FUZZ_MINUTES:
        random.Random(config.option.hypothesis_seed).shuffle(items)
    else:
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    marks = [item.get_closest_marker(each) is None for each in ("spark", "slow")]
    return marks.index(False) if False in marks else len(marks)


def pytest_collection_finish(session: pytest.Session) -> None:
    """When fuzzing, put every property under the clock."""
    # Modules and tests stay, and little of what tests make is garbage in circles: looking for it,
    # as often as Python does by itself, is a twentieth of the time.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    if not FUZZ_MINUTES:
        return
    _budget.n_left = len(session.items)
    for item in session.items:  # a machine has no function that could be wrapped
        machine = getattr(item, "cls", None)
        if machine is not None and isinstance(getattr(machine, "settings", None), settings):
            machine.settings = settings(machine.settings, max_examples=RUNS_OF_A_MACHINE)
    handles = {id(handle): handle for handle in map(_hypothesis_handle, session.items) if handle}
    for handle in handles.values():  # once for each function, however it is parametrized
        handle.inner_test = _budget.limited(handle.inner_test)


def _hypothesis_handle(item: pytest.Item) -> Any:
    return getattr(getattr(item, "obj", None), "hypothesis", None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no further property when the time for fuzzing is over."""
    if FUZZ_MINUTES and not _budget.next_turn():
        pytest.skip("no time left")


class SharedOut(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Gives tests to processes, those together that share something."""

    def _split_scope(self, nodeid: str) -> str:
        """Name what is given to one process as a whole."""
        if SPARK_SESSION.match(nodeid) and not OWN_SPARK.match(nodeid):
            return "spark"
        parted = PARTED.match(nodeid)
        return "".join(filter(None, parted.groups())) if parted else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharedOut:
    """Share tests out, if several processes run them."""
    return SharedOut(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark with two cores, started once for all tests that ask for it."""
    from millrace.spark.launch import local_spark

    session = local_spark(cores=2, app="tests")
    yield session
    session.stop()
