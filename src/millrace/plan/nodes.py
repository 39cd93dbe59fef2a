"""What is asked of a stream: the logical queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from millrace.plan.expressions import Column, Expression
from millrace.plan.spelling import from_json, identifier, to_json, to_text
from millrace.plan.term import expression


@dataclass(frozen=True, slots=True)
class Output:
    """One column of an answer: its name and what is computed for it."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of one stream that satisfy a condition, with some of their columns.

    It is monotonic and stateless: a row's answer depends on that row alone, so it appears in
    the epoch in which the row arrives.
    """

    stream: str
    outputs: tuple[Output, ...]
    condition: Expression | None = None

    def to_json(self) -> dict[str, Any]:
        """Spell the query for the registry and for other processes."""
        return {
            "stream": self.stream,
            "outputs": [[each.name, to_json(each.value)] for each in self.outputs],
            "condition": None if self.condition is None else to_json(self.condition),
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        outputs = tuple(Output(name, from_json(value)) for name, value in spelt["outputs"])
        condition = spelt["condition"]
        return cls(spelt["stream"], outputs, None if condition is None else from_json(condition))

    def __str__(self) -> str:
        names = ", ".join(_output_text(each) for each in self.outputs)
        where = "" if self.condition is None else f" WHERE {to_text(self.condition)}"
        return f"SELECT {names} FROM {identifier(self.stream)}{where}"


def select(stream: str, *columns: str, where: object = None, **computed: object) -> Selection:
    """Ask for columns of a stream, by name or computed, where a condition holds.

    >>> from millrace.plan.term import col
    >>> str(select("trades", "symbol", where=col("price") > 100, dear=col("price") > 500))
    'SELECT symbol, price > 500 AS dear FROM trades WHERE price > 100'
    """
    outputs = [Output(name, Column(name)) for name in columns]
    outputs += [Output(name, expression(value)) for name, value in computed.items()]
    return Selection(stream, tuple(outputs), None if where is None else expression(where))


def _output_text(output: Output) -> str:
    text = to_text(output.value)
    name = identifier(output.name)
    return text if text == name else f"{text} AS {name}"
