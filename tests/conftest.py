"""Hypothesis profiles, a seed that is always printed, and the Spark session tests share."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_TESTS = Path(__file__).parent / "spark"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
FUZZ_MINUTES = float(os.environ.get("FUZZ_MINUTES", "0"))

# No deadline: the first call of a kernel compiles it. On a loaded machine drawing may be slow.
_always = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _always, max_examples=200)
settings.register_profile("ci", _always, max_examples=100)
settings.register_profile("nightly", _always, max_examples=20_000)
settings.load_profile(PROFILE)

_stop_at = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed here, before Hypothesis would, so that it can be printed."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = random.SystemRandom().randrange(2**32)
    if FUZZ_MINUTES:
        config.stash[_stop_at] = time.monotonic() + 60 * FUZZ_MINUTES


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
    """Mark what stands under tests/spark; when fuzzing, take the properties in any order."""
    for item in items:
        if SPARK_TESTS in item.path.parents:
            item.add_marker("spark")
    if FUZZ_MINUTES:
        random.Random(config.option.hypothesis_seed).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no further property when the time for fuzzing is over."""
    if time.monotonic() > item.config.stash.get(_stop_at, float("inf")):
        item.session.shouldstop = f"{FUZZ_MINUTES:g} minutes are over"
        pytest.skip("no time left")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark with two cores, started once for all tests that ask for it."""
    from millrace.spark.launch import local_spark

    session = local_spark(cores=2, app="tests")
    yield session
    session.stop()
