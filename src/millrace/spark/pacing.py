"""Backpressure: telling the sources how many rows an epoch may take.

Our own sources read their limit from a file at every trigger. A source of Spark's takes its
limit as an option when it is made, so a stream that is given as a function of the limit,

    session.stream("trades", lambda rows: reader.option("maxOffsetsPerTrigger", rows).load(), …)

is made anew, by a restart of the streaming query, when the limit has come to differ from the
one it was made with by a factor of two. A stream that is given as a plain DataFrame keeps the
limit it has; if its epochs take much longer than the target, that is said once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from millrace.engine.backend import Binding
from millrace.engine.pace import Pace
from millrace.engine.settings import Settings
from millrace.engine.statistics import EpochStatistics

FACTOR = 2.0
LEAST_SECONDS_BETWEEN_RESTARTS = 10.0
SLOW_FACTOR = 2.0
SLOW_EPOCHS = 5

_logger = logging.getLogger(__name__)


class Pacing:
    """The limits of all bound streams, and who has to be told of them how."""

    def __init__(self, settings: Callable[[], Settings], file: Path) -> None:
        self.file = file
        self._settings_now = settings
        self._pace = Pace(self._settings)
        self._bindings: Mapping[str, Binding] = {}
        self._made_with: dict[str, int] = {}
        self._made_at = 0.0
        self._written: dict[str, int] = {}
        self._slow = 0

    @property
    def _settings(self) -> Settings:
        return self._settings_now()

    def bind(self, bindings: Mapping[str, Binding]) -> None:
        """Take note of the sources that a query is being started with."""
        self._bindings = dict(bindings)
        self._made_at = time.monotonic()
        self._made_with = {name: self.limit(name) for name in bindings}
        self._write()

    def limit(self, stream: str) -> int:
        """Return how many rows of a stream the next epoch may take."""
        return self._settings.rows or self._pace.limit(stream)

    def follow(self, statistics: EpochStatistics) -> None:
        """Learn from an epoch."""
        self._pace.aim(self._settings)
        if self._pace.follow(statistics) or self._limits() != self._written:
            self._write()
        self._warn(statistics)

    def outgrown(self) -> bool:
        """Say whether a source should be made anew, with another limit."""
        if time.monotonic() - self._made_at < LEAST_SECONDS_BETWEEN_RESTARTS:
            return False
        for name, binding in self._bindings.items():
            ratio = self.limit(name) / self._made_with[name]
            if callable(binding.source) and not 1 / FACTOR < ratio < FACTOR:
                return True
        return False

    def _write(self) -> None:
        limits = self._limits()
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(limits))
        fresh.replace(self.file)
        self._written = limits

    def _limits(self) -> dict[str, int]:
        return {name: self.limit(name) for name in self._bindings}

    def _warn(self, statistics: EpochStatistics) -> None:
        seconds, target = statistics.total_seconds, self._settings.target / 1e6
        fixed = [
            name
            for name in statistics.rows_by_stream
            if name in self._bindings and isinstance(self._bindings[name].source, DataFrame)
        ]
        self._slow = self._slow + 1 if fixed and seconds > SLOW_FACTOR * target else 0
        if self._slow == SLOW_EPOCHS:
            _logger.warning(
                "epochs take %.1f s, target %.1f s; limit what a trigger reads from %s, or give "
                "the stream as a function of the limit",
                seconds, target, ", ".join(fixed),
            )  # fmt: skip
