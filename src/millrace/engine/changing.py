"""Changing settings while an engine runs.

An epoch decides once, from the settings as they are then, and logs what it has decided; whoever
repeats it reads that back. So a setting may change between any two epochs, and nothing that was
decided is decided again. What is not listed here is read only when an engine starts.

A change holds until the engine ends: the next one starts with what it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from millrace.engine.settings import Settings
from millrace.errors import PlanError
from millrace.index.access import METHODS
from millrace.operators.keys import N_BUCKETS
from millrace.plan.bind import nearest
from millrace.state.sizes import spell_bytes, to_bytes
from millrace.time import SECOND, print_duration, to_micros

Kind = Literal["duration", "choice", "switch", "count", "size"]


@dataclass(frozen=True, slots=True)
class Changeable:
    """A setting that may change: its name, of what kind it is, and what it does, in words.

    A count, a duration or a size is at least `least`; `optional` counts may be left to the engine.
    """

    name: str
    kind: Kind
    words: str
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int = 1 << 62
    optional: bool = False

    def read(self, given: object) -> Any:  # noqa: ANN401  as the setting is declared
        """Return the value that a text, or a value of JSON, stands for."""
        value: Any
        match self.kind:
            case "duration":
                value = to_micros(given) if isinstance(given, str | int) else None
            case "choice":
                value = given if given in self.choices else None
            case "switch":
                value = given if isinstance(given, bool) else _TRUTH.get(str(given).lower())
            case "count":
                if self.optional and given in (None, "", "auto"):
                    return None
                value = int(str(given)) if str(given).isdecimal() else None
            case "size":
                value = to_bytes(given) if isinstance(given, str | int) else None
        if value is None or (
            self.kind in ("duration", "count", "size") and not self.least <= value <= self.most
        ):
            raise PlanError(
                f'setting "{self.name}" cannot be "{given}"', hint=f"It is {self._expected()}."
            )
        return value

    def spell(self, value: Any) -> str:  # noqa: ANN401  as the setting is declared
        """Print a value so that `read` reads it back."""
        if self.kind == "duration":
            return print_duration(value)
        if self.kind == "size":
            return spell_bytes(value)
        if self.kind == "switch":
            return "on" if value else "off"
        return "auto" if value is None else str(value)

    def _expected(self) -> str:
        match self.kind:
            case "duration":
                least = f" of at least {print_duration(self.least)}" if self.least else ""
                return f'a duration{least}, such as "2 seconds"'
            case "size":
                return f'a size of at least {spell_bytes(self.least)}, such as "512 MB"'
            case "choice":
                return f"one of {', '.join(self.choices)}"
            case "switch":
                return "on or off"
            case "count":
                auto = ', or "auto"' if self.optional else ""
                most = f" and {self.most:,}" if self.most < 1 << 62 else " and more"
                return f"a whole number between {self.least}{most}{auto}"


_TRUTH = {"on": True, "true": True, "off": False, "false": False}

CHANGEABLE = {
    each.name: each
    for each in (
        Changeable("trigger", "duration", "the least time between the starts of two epochs"),
        Changeable(
            "target",
            "duration",
            "how long an epoch should take at most; how many rows it takes follows it",
            least=SECOND // 100,
        ),
        Changeable(
            "rows",
            "count",
            "how many rows of each stream of files an epoch takes; auto follows the target",
            least=1,
            optional=True,
        ),
        Changeable(
            "memory",
            "size",
            "how many bytes the rows of an epoch take at most, and those of histories; half of it "
            "is for what joins keep prepared",
            least=1 << 20,
        ),
        Changeable(
            "backfill_rows",
            "count",
            "how many rows of histories an epoch answers at most, for all queries that catch up",
            least=1,
        ),
        Changeable("keep_rejected", "duration", "how long late rows and dead letters are kept"),
        Changeable(
            "spread",
            "choice",
            "whether shards run as tasks behind a shuffle, or in the driver",
            ("auto", "always", "never"),
        ),
        Changeable(
            "shards",
            "count",
            "into how many parts the work of an epoch is cut",
            least=1,
            most=N_BUCKETS,
        ),
        Changeable("merging", "switch", "whether runs are merged, so that reading stays quick"),
        Changeable("access", "choice", "how the index finds queries", ("auto", *sorted(METHODS))),
        Changeable("backoff", "duration", "the wait before the first retry after a failure"),
        Changeable("hops", "switch", "whether rows of plans that are registered now may travel"),
        Changeable("bands", "switch", "whether band joins that are registered now are spread"),
        Changeable("again", "switch", "whether plans that are registered now read elements again"),
    )
}


def changed(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """Return settings with some of them changed, all or none."""
    for name in changes:
        if name not in CHANGEABLE:
            fixed = name in Settings.__dataclass_fields__
            raise PlanError(
                f'setting "{name}" ' + ("cannot change at run time" if fixed else "does not exist"),
                detail=f"Those that can are {', '.join(CHANGEABLE)}.",
                hint=nearest(name, list(CHANGEABLE)),
            )
    return replace(settings, **{name: CHANGEABLE[name].read(to) for name, to in changes.items()})


def listed(settings: Settings) -> list[dict[str, Any]]:
    """Describe the settings that may change, with what holds now, for a page or a route."""
    return [
        {
            "name": each.name,
            "kind": each.kind,
            "value": each.spell(getattr(settings, each.name)),
            "choices": list(each.choices),
            "about": each.words,
        }
        for each in CHANGEABLE.values()
    ]
