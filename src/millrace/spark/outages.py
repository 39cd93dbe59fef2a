"""Outages: sources that cannot be looked at now, told from the process that lists to the driver.

A source whose directory cannot be listed offers no new files instead of failing the one query
that all streams share; it is listed again at the next trigger, so that nothing is skipped. The
reader leaves a note beside the pace file for as long as that lasts, and the driver looks there:

    reader ── <stream>.outage: since when, why, how many tries ──► driver: one warning an outage
           ── <stream>.warnings: what else was noticed, a line each ──► a warning each
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

from millrace.engine.outage import Outage
from millrace.errors import MillraceError

_ENDING = ".outage"
_WARNINGS = ".warnings"

_logger = logging.getLogger(__name__)


class OutageNote:
    """The reader's end: the note of one stream."""

    def __init__(self, directory: Path, stream: str) -> None:
        self._path, self._stream = directory / f"{quote(stream, safe='')}{_ENDING}", stream
        self._outage: Outage | None = None

    def write(self, error: MillraceError) -> None:
        """Note that the source could not be looked at, once more."""
        before = self._outage or Outage(self._stream, "", time.time(), 0)
        words = f"{error.message}: {error.detail}" if error.detail else error.message
        self._outage = Outage(self._stream, words, before.since, before.tries + 1)
        fresh = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk: there is a next time
            fresh.write_text(json.dumps(asdict(self._outage)))
            fresh.replace(self._path)

    def warn(self, words: str) -> None:
        """Tell the driver of something that is no outage."""
        path = self._path.with_suffix(_WARNINGS)
        with contextlib.suppress(OSError), path.open("a") as file:
            file.write(f"{words}\n")

    def clear(self) -> None:
        """Note that it could be; costs nothing if there was no outage."""
        if self._outage is not None:
            self._path.unlink(missing_ok=True)
            self._outage = None


class Outages:
    """The driver's end: what is out now, and how many outages there were."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.now: dict[str, Outage] = {}
        self.n_begun = 0
        self._told: set[str] = set()

    def look(self) -> None:
        """Read the notes; the begin and the end of each outage are logged once."""
        found = {each.stream: each for each in self._read()}
        for name, outage in found.items():
            if name not in self.now:
                self.n_begun += 1
                _logger.warning('stream "%s" waits: %s', name, outage.message)
        for name, outage in self.now.items():
            if name not in found:
                lasted = time.time() - outage.since
                _logger.warning('stream "%s" goes on, after %.0f s', name, lasted)
        self.now = found
        self._pass_warnings_on()

    def forget(self) -> None:
        """Remove the notes: other readers are about to look for themselves."""
        for path in self._directory.glob(f"*{_ENDING}"):
            path.unlink(missing_ok=True)

    def _pass_warnings_on(self) -> None:
        """Log what the readers have to say, each sentence once."""
        for path in sorted(self._directory.glob(f"*{_WARNINGS}")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n") and line not in self._told:
                    self._told.add(line)
                    _logger.warning("%s", line.strip())

    def _read(self) -> list[Outage]:
        found = []
        for path in sorted(self._directory.glob(f"*{_ENDING}")):
            try:
                found.append(Outage(**json.loads(path.read_text())))
            except FileNotFoundError:  # it has ended just now
                continue
        return found
