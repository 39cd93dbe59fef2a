"""A view as it was declared: a name for a query that other queries may read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from millrace.engine.streams import check_name


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """The declaration of a view.

    It is expanded when a query that reads it is registered; that query goes on as it is when the
    view is dropped. What a view itself reads (`reads`) cannot be dropped before it.

    Parameters
    ----------
    text
        The query that it stands for.
    columns
        The names of its columns, if they are not those of the query.
    """

    name: str
    text: str
    columns: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("view", self.name)

    def to_json(self) -> dict[str, Any]:
        """Spell the declaration as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        lists = {each: tuple(spelt[each]) for each in ("columns", "reads")}
        return cls(**{**spelt, **lists})
