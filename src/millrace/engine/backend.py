"""What drives an engine: a backend binds streams to sources and calls the epochs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from millrace.engine.epoch import Engine
from millrace.engine.outage import Outage
from millrace.engine.streams import StreamSpec
from millrace.operators.select import Function
from millrace.schema import Schema


@dataclass(frozen=True, slots=True)
class Binding:
    """A declared stream and the source that its rows come from."""

    spec: StreamSpec
    source: object


class Run(Protocol):
    """A running engine."""

    @property
    def up(self) -> bool:
        """Whether everything that a start takes is done, so that epochs can follow."""

    @property
    def failure(self) -> BaseException | None:
        """What last went wrong outside of an epoch, if it has not been overcome."""

    @property
    def outages(self) -> Mapping[str, Outage]:
        """The streams whose sources cannot be looked at now, by name."""

    def nudge(self) -> None:
        """Start an epoch soon, though no row may have arrived."""

    def rebind(self, bindings: Mapping[str, Binding], functions: Mapping[str, Function]) -> None:
        """Go on with other sources or functions; finishes the epoch in flight first."""

    def take_settings(self) -> None:
        """Go on with the engine's settings as they are now, from the next epoch on."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends; False if it still runs. Raises what ended it, if it failed."""

    def stop(self) -> None:
        """Finish the epoch in flight and stop."""


class Backend(Protocol):
    """Something that can run an engine: Spark, or a loop in this process."""

    def schema_of(self, source: object) -> Schema | None:
        """Return the columns that a source delivers, if it knows them."""

    def make_source(
        self, kind: str, options: Mapping[str, Any], stream: str, schema: Schema
    ) -> object:
        """Make a source by its name in SQL, for a stream of those columns."""

    def start(
        self, engine: Engine, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> Run:
        """Begin to call epochs."""
