"""Families: queries that differ in their constants only are parsed and bound once.

    text -> skeleton, literals          by `lift`, 5 us
    skeleton -> shape                   from the cache; parsed and bound at first sight, 3 ms
    literals of many texts -> columns   typed Arrow arrays

Not every literal becomes a parameter: one that the binder must see (the unit of `date_trunc`, a
regular expression, the 10 of a window) belongs to the shape, and so does one inside an operation
on columns (the 2 of `price * 2 > 100`). So does the number of digits behind the point of an exact
number, where the type depends on it.

Invariant: the shape of a text, filled with its parameters, is the plan of that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from millrace.lang import constants
from millrace.lang.binder import bind_parsed, checked
from millrace.lang.columns import MisfitError, Slot, column
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.lexical import LONGEST_STATEMENT
from millrace.lang.lift import Lifted1, Place, lift, place_at, places
from millrace.lang.notes import Notes
from millrace.lang.queries import query_of
from millrace.lang.settle import DATE_FLOOR, date_name, decimal_of
from millrace.lang.shape import Parametrizer, Shape
from millrace.plan.calls import Functions
from millrace.plan.expressions import Literal, walk
from millrace.plan.nodes import Selection
from millrace.schema import Schema

MOST_SKELETONS = 100_000


@dataclass(frozen=True, slots=True)
class Group:
    """The texts of one shape: which ones they are, and their parameters, a column each."""

    positions: list[int]
    columns: list[pa.Array]


@dataclass(slots=True)
class _Variants:
    """The shapes of a skeleton with certain values in its fixed places."""

    floors: tuple[tuple[int, int], ...]  # literals whose type depends on them, see notes.Typed
    shapes: dict[tuple[str, ...], Shape] = field(default_factory=dict)

    def types(self, literals: Sequence[Lifted1]) -> tuple[str, ...]:
        return tuple(_type_name(literals[at], floor) for at, floor in self.floors)


@dataclass(slots=True)
class _Skeleton:
    """What is known of a skeleton: which literals belong to the shape."""

    fixed: tuple[int, ...]
    variants: dict[tuple[Lifted1, ...], _Variants] = field(default_factory=dict)
    only: Shape | None = None  # the shape, if nothing distinguishes texts of this skeleton


class Shapes:
    """The shapes of texts over streams; a cache that is thrown away when a stream changes.

    Examples
    --------
    >>> shapes = Shapes({"trades": Schema.of("symbol text, price double")})
    >>> shape, literals = shapes.shape_of("SELECT symbol FROM trades WHERE price > 100")
    >>> literals, shape.types
    (('100',), ('double',))
    >>> shape is shapes.shape_of("SELECT symbol FROM trades WHERE price > 7")[0]
    True
    """

    def __init__(self, streams: Mapping[str, Schema], functions: Functions | None = None) -> None:
        self._streams, self._functions = dict(streams), dict(functions or {})
        self._skeletons: dict[str, _Skeleton] = {}
        self._shapes: dict[tuple[str, tuple[Slot, ...]], Shape] = {}

    def shape_of(self, text: str) -> tuple[Shape, tuple[Lifted1, ...]]:
        """Return the shape of a text and its literals."""
        skeleton, literals = lift(text)
        known = self._skeletons.get(skeleton)
        if known is not None and len(text) <= LONGEST_STATEMENT:
            if known.only is not None:
                return known.only, literals
            variants = known.variants.get(tuple(literals[at] for at in known.fixed))
            if variants is not None:
                shape = variants.shapes.get(variants.types(literals))
                if shape is not None:
                    return shape, literals
        return self._learn(text, skeleton, literals), literals

    def prepare_many(self, texts: Sequence[str]) -> dict[Shape, Group]:
        """Return the families of texts, each with its texts and their parameters; all or nothing.

        A family is given as the shape of its first text; its `key` is the same at all times.

        Raises
        ------
        LanguageError
            For the first text that is not a query, or whose constants do not fit its family;
            the detail says which text it is.
        """
        rows: dict[Shape, tuple[list[int], list[tuple[Lifted1, ...]]]] = {}
        shape_of = self.shape_of
        for number, text in enumerate(texts):
            try:
                shape, literals = shape_of(text)
            except LanguageError as cause:
                raise _numbered(cause, number, len(texts)) from cause
            group = rows.get(shape)
            if group is None:
                group = rows[shape] = ([], [])
            group[0].append(number)
            group[1].append(literals)
        groups: dict[str, list[tuple[Shape, Group]]] = {}
        for shape, (positions, lifted) in rows.items():
            made = Group(positions, self._columns(shape, positions, lifted, texts))
            groups.setdefault(shape.key, []).append((shape, made))
        return {parts[0][0]: _joined([each for _, each in parts]) for parts in groups.values()}

    def _columns(
        self,
        shape: Shape,
        positions: list[int],
        literals: list[tuple[Lifted1, ...]],
        texts: Sequence[str],
    ) -> list[pa.Array]:
        try:
            return columns(shape, literals)
        except MisfitError as misfit:
            number = positions[misfit.row]
            raise _numbered(misplaced(misfit, texts[number]), number, len(texts)) from misfit

    def _learn(self, text: str, skeleton: str, literals: tuple[Lifted1, ...]) -> Shape:
        """Parse and bind a text that is the first of its shape."""
        bound = bind_parsed(query_of(text), self._streams, self._functions, {})
        checked(bound, bound.selection, self._functions)
        where = places(text) if literals else []
        maker = Parametrizer(bound.notes, where)
        made = checked(bound, maker.selection(bound.selection), self._functions)
        slots = tuple(maker.slots)
        shape = Shape(made, slots)
        shape = self._shapes.setdefault((shape.key, slots), shape)
        lifted = {each.literal for each in slots}
        known = self._skeletons.get(skeleton)
        if known is None:
            fixed = tuple(at for at in range(len(literals)) if at not in lifted)
            known = self._skeletons[skeleton] = _Skeleton(fixed)
            self._forget()
        floors = _floors(bound.selection, bound.notes, where)
        pinned = tuple(literals[at] for at in known.fixed)
        variants = known.variants.setdefault(pinned, _Variants(floors))
        variants.shapes[variants.types(literals)] = shape
        if not known.fixed and not floors:
            known.only = shape
        return shape

    def _forget(self) -> None:
        while len(self._skeletons) > MOST_SKELETONS:
            del self._skeletons[next(iter(self._skeletons))]


def columns(shape: Shape, literals: Sequence[tuple[Lifted1, ...]]) -> list[pa.Array]:
    """Return the parameters of many texts of one shape: an array for each, a value for each text.

    Raises
    ------
    MisfitError
        If a literal is not a value of its parameter's type; `misplaced` makes a message of it.
    """
    return [column(each, literals) for each in shape.slots]


def _joined(groups: list[Group]) -> Group:
    """Return the texts of one family, which may have been written in several ways."""
    if len(groups) == 1:
        return groups[0]
    positions = [at for each in groups for at in each.positions]
    return Group(
        positions,
        [pa.concat_arrays(parts) for parts in zip(*(each.columns for each in groups), strict=True)],
    )


def misplaced(misfit: MisfitError, text: str) -> LanguageError:
    """Return the message for a text of which a literal does not fit."""
    place = places(text)[misfit.slot.literal]
    return LanguageError(
        f"{quoted(text, Span(place.first, place.stop))} {misfit.reason}",
        source=text,
        span=Span(place.first, place.stop),
        code="CQL032",
        hint=constants.hint_for(misfit.slot.type),
    )


def _floors(
    selection: Selection, notes: Notes, where: Sequence[Place]
) -> tuple[tuple[int, int], ...]:
    """Return which literals have a type that depends on them."""
    roots = [each.value for each in selection.outputs]
    roots += [] if selection.condition is None else [selection.condition]
    found: dict[int, int] = {}
    for node in (each for root in roots for each in walk(root) if isinstance(each, Literal)):
        typed, origin = notes.typed(node), notes.origin(node)
        if typed is None or typed.floor is None or origin is None:
            continue
        number = place_at(where, origin.first)
        if number is not None:
            found[number] = min(typed.floor, found.get(number, typed.floor))
    return tuple(found.items())


def _type_name(literal: Lifted1, floor: int) -> str:
    texts = literal if isinstance(literal, tuple) else (literal,)
    if floor == DATE_FLOOR:
        return date_name(texts)
    scale = max(len(each) - each.find(".") - 1 if "." in each else 0 for each in texts)
    return decimal_of(max(floor, scale))


def _numbered(cause: LanguageError, number: int, n_texts: int) -> LanguageError:
    if n_texts == 1:
        return cause
    which = f"It is text {number + 1:,} of {n_texts:,}."
    return LanguageError(
        cause.message,
        source=cause.source,
        span=cause.span,
        code=cause.code,
        detail=f"{which} {cause.detail}".rstrip(),
        hint=cause.hint,
    )
