"""A shape: a query in which constants have become parameters, and how it is filled again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from millrace.lang.columns import Slot
from millrace.lang.lift import Place, place_at
from millrace.lang.notes import Notes
from millrace.plan.expressions import (
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    In,
    Like,
    Literal,
    Negative,
    Parameter,
    Scalar,
    children,
    walk,
)
from millrace.plan.fold import fold, rebuilt
from millrace.plan.nodes import Output, Selection


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What the queries of a family have in common.

    Parameters
    ----------
    selection
        The query; `Parameter` number j stands for what `slots[j]` describes.
    slots
        How the literals of a text become parameters.
    """

    selection: Selection
    slots: tuple[Slot, ...]
    key: str = field(init=False)

    def __post_init__(self) -> None:
        spelt = json.dumps(self.selection.to_json(), sort_keys=True, ensure_ascii=False)
        digest = hashlib.blake2b(spelt.encode(), digest_size=16).hexdigest()
        object.__setattr__(self, "key", digest)

    @property
    def types(self) -> tuple[str, ...]:
        """The names of the parameters' types; of a set, of its members."""
        return tuple(each.type for each in self.slots)


class Parametrizer:
    """Replaces the constants of a settled query that were literals of its text by parameters."""

    def __init__(self, notes: Notes, places: Sequence[Place]) -> None:
        self._notes = notes
        self._places = places
        self._by_first = {each.first: number for number, each in enumerate(places) if not each.many}
        self._sets: dict[int, None] = {}  # constants that become part of a set
        self._patterns: dict[int, Slot] = {}
        self._pinned: set[int] = set()
        self.slots: dict[Slot, int] = {}

    def selection(self, settled: Selection) -> Selection:
        """Return the query with parameters; `slots` says afterwards what they stand for."""
        outputs = tuple(Output(each.name, self._expression(each.value)) for each in settled.outputs)
        condition = settled.condition
        if condition is not None:
            condition = self._expression(condition)
        return Selection(settled.stream, outputs, condition)

    def _expression(self, node: Expression) -> Expression:
        self._pinned |= _beside_columns(node)
        for each in walk(node):
            if isinstance(each, In):
                self._sets.update(dict.fromkeys(map(id, each.options)) if self._set(each) else {})
            elif isinstance(each, Like):
                self._patterns[id(each.pattern)] = Slot(0, "", pattern=True, escape=each.escape)
        return fold(node, self._combine)

    def _combine(self, node: Expression, operands: list[Expression]) -> Expression:
        if (
            isinstance(node, Literal)
            and id(node) not in self._sets
            and id(node) not in self._pinned
        ):
            made: Expression = self._single(node)
        elif isinstance(node, In) and (slot := self._set(node)) is not None:
            made = In(operands[0], (self._parameter(slot),))
        else:
            made = rebuilt(node, operands)
        return self._notes.instead(node, made)

    def _single(self, literal: Literal) -> Expression:
        origin, typed = self._notes.origin(literal), self._notes.typed(literal)
        number = None if origin is None else self._by_first.get(origin.first)
        if number is None or origin is None or typed is None:
            return literal
        slot = self._patterns.get(id(literal), Slot(0, ""))
        return self._parameter(
            replace(slot, literal=number, type=typed.name, negated=origin.negated)
        )

    def _set(self, node: In) -> Slot | None:
        origins = [self._notes.origin(each) for each in node.options]
        typed = self._notes.typed(node.options[0])
        if typed is None or None in origins:
            return None
        firsts = [each.first for each in origins if each is not None]
        number = place_at(self._places, firsts[0])
        if number is None or not self._places[number].many:
            return None
        place = self._places[number]
        inside = all(place.first <= each < place.stop for each in firsts)
        return Slot(number, typed.name, many=True) if inside else None

    def _parameter(self, slot: Slot) -> Parameter:
        number = self.slots.setdefault(slot, len(self.slots))
        return Parameter(number, slot.type, slot.many)


def _beside_columns(node: Expression) -> set[int]:
    """Return the constants that are part of an operation on columns.

    `price * 2 > 100` differs from another query in the 100 at most: as a parameter, the 2 would
    make of `price * 2` something that no index can hold.
    """
    over_columns: set[int] = set()

    def note(each: Expression, below: list[bool]) -> bool:
        found = isinstance(each, Column) or any(below)
        if found:
            over_columns.add(id(each))
        return found

    fold(node, note)
    pinned: set[int] = set()
    waiting = [node]
    while waiting:
        each = waiting.pop()
        operation = isinstance(each, Arithmetic | Call | Case | Cast | Negative)
        if operation and id(each) in over_columns:
            pinned |= {id(part) for part in walk(each) if isinstance(part, Literal)}
        else:
            waiting += children(each)
    return pinned


def filled(selection: Selection, values: Sequence[Scalar | Sequence[Scalar]]) -> Selection:
    """Return the query in which each parameter is the constant it has in these values."""

    def combine(node: Expression, operands: list[Expression]) -> Expression:
        if isinstance(node, In) and isinstance(node.options[0], Parameter) and node.options[0].many:
            members = values[node.options[0].number]
            assert isinstance(members, list | tuple), "a set has members"
            return In(operands[0], tuple(Literal(each) for each in members))
        if isinstance(node, Parameter) and not node.many:
            return Literal(cast(Scalar, values[node.number]))
        return rebuilt(node, operands)

    outputs = tuple(Output(each.name, fold(each.value, combine)) for each in selection.outputs)
    condition = selection.condition
    return Selection(
        selection.stream, outputs, None if condition is None else fold(condition, combine)
    )
