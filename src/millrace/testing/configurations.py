"""Configurations: every way to run the same epochs, under which nothing may come out otherwise.

A suite that checks answers runs under each of `CONFIGURATIONS`. Besides an engine's settings a
configuration says how many tasks share the input, in which order their chunks arrive, and sets
the sizes at which the engine changes its ways, so that tiny epochs meet all of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from millrace.engine import decide, outgoing, publication, step
from millrace.engine.chunk import Chunk
from millrace.engine.settings import Settings

_PLAIN = Settings(shards=1, spread="never", backoff=0)
_SPREAD = Settings(shards=4, spread="always", backoff=0)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to run epochs.

    Parameters
    ----------
    settings
        Those of epoch 0, 1, ...; the last one is followed by the first.
    n_tasks
        How many map tasks share the rows of an epoch at most.
    shuffled
        Whether chunks reach the shards in random order.
    inline_bytes, driver_bytes, chunk_bytes, spread_bytes, rows_on_the_spot
        What replaces the engine's constants of these names; None leaves one as it is.
    """

    name: str
    settings: tuple[Settings, ...] = (_PLAIN,)
    n_tasks: int = 1
    shuffled: bool = False
    inline_bytes: int | None = None
    driver_bytes: int | None = None
    chunk_bytes: int | None = None
    spread_bytes: int | None = None
    rows_on_the_spot: int | None = None

    def settings_of(self, epoch: int) -> Settings:
        """Return the settings under which an epoch is decided."""
        return self.settings[epoch % len(self.settings)]

    def arranged(self, chunks: list[Chunk]) -> list[Chunk]:
        """Put chunks into the order in which they reach the shards."""
        return random.sample(chunks, len(chunks)) if self.shuffled else chunks

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the engine's constants for as long as the context lasts."""
        places = (
            (step, "INLINE_BYTES", self.inline_bytes),
            (outgoing, "DRIVER_BYTES", self.driver_bytes),
            (outgoing, "CHUNK_BYTES", self.chunk_bytes),
            (decide, "SPREAD_BYTES", self.spread_bytes),
            (publication, "ROWS_ON_THE_SPOT", self.rows_on_the_spot),
        )
        with replaced(places):
            yield


@contextmanager
def replaced(places: Sequence[tuple[ModuleType, str, int | None]]) -> Iterator[None]:
    """Give constants of modules other values for a while; None leaves one as it is."""
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    try:
        for module, name, value in places:
            if value is not None:
                setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


CONFIGURATIONS = (
    Configuration("plain"),
    Configuration("tasks", n_tasks=3, shuffled=True, rows_on_the_spot=0),
    Configuration("spread", (_SPREAD,), n_tasks=3, shuffled=True),
    Configuration(
        "resharded",
        tuple(Settings(shards=n, spread="always", backoff=0) for n in (1, 3, 2)),
        n_tasks=2,
        inline_bytes=0,
    ),
    Configuration("files", (Settings(spread="always", backoff=0),), n_tasks=2, inline_bytes=0),
    Configuration(
        "unmerged", (Settings(merging=False, spread="never", backoff=0),), inline_bytes=0
    ),
    Configuration(
        "oversize", (Settings(shards=2, backoff=0),), n_tasks=2, driver_bytes=0, chunk_bytes=1
    ),
    Configuration(
        "alternating", (Settings(shards=3, backoff=0), _PLAIN), n_tasks=2, spread_bytes=0
    ),
)


def configuration(name: str) -> Configuration:
    """Return the configuration of that name."""
    return next(each for each in CONFIGURATIONS if each.name == name)
