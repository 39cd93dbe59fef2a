"""Holdings: what each store of a plan holds, and how many bytes a row of it takes.

Stores are called by their operators, which end their names with what is in them:

    .due        changes that will happen: rows whose windows have an end
    .counts     what is there, each different row once with how often
    .left, .right, and those without an ending      rows that may meet others
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa

from millrace.plan.extent import Extent, Rates, extent
from millrace.plan.relations import (
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)

PANES: dict[str, tuple[str, float | None]] = {
    "panes.due": ("panes of the widest window, by group and by cells of filters", None),
    "sums.due": ("digits of sums of panes, where these are beyond the usual", 0),
    "values.due": ("values of panes of which one is picked", 0),
}
"""What is stored of elements that queries of a family share."""
_TEXT_BYTES = 16
"""How long a text is taken to be."""
_OFFSET_BYTES = 4


def row_bytes(schema: pa.Schema) -> int:
    """Return about how many bytes a row of a store takes.

    >>> row_bytes(pa.schema([("_key", pa.uint64()), ("_time", pa.int64()), ("name", pa.string())]))
    36
    """
    return sum(_value_bytes(each.type) for each in schema)


def _value_bytes(arrow: pa.DataType) -> int:
    if pa.types.is_list(arrow):
        return _OFFSET_BYTES + 4 * _value_bytes(arrow.value_type)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return _OFFSET_BYTES + _TEXT_BYTES
    return -(-int(arrow.bit_width) // 8)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Says what stores hold; `again` are the relations of which nobody notes when rows will go."""

    rates: Rates
    again: Collection[Relation] = ()

    def of(self, store: str, owner: Relation | Stream) -> Extent:
        """Return what an operator's store holds."""
        part = store.partition(".")[2]
        match owner:
            case StreamOf():
                return self._told(part, owner)
            case Windowed():
                return extent(owner, self.rates)
            case Join():
                return self._joined(part, owner)
            case Group():
                return self._grouped(part, owner)
            case Distinct(given) | Top(given):
                return _counted(part, self._given(given))
            case Combined(kind, left, right, _):
                both = Combined(kind, left, right, keep_all=True)
                ends = self._given(left).ends or self._given(right).ends
                return _counted(part, replace(extent(both, self.rates), ends=ends))
            case Source() | Table() | Filter() | Project() | Asked() | Hop():
                raise AssertionError("this operator remembers nothing")
            case _:
                assert_never(owner)

    def _told(self, part: str, node: StreamOf) -> Extent:
        """Tell what of a stream is told later, and what queries of a family share."""
        if part == "queries":
            return Extent("queries that share the plan")
        if (shared := part.lstrip("0123456789.")) in PANES:
            return Extent(*PANES[shared])
        if part == "counts" and node.kind != "rstream":
            return Extent("rows that are told and forgotten", 0)
        return _counted(part, self._given(node.relation))

    def _given(self, node: Relation) -> Extent:
        node = node.input if isinstance(node, Hop) else node
        found = extent(node, self.rates)
        return replace(found, ends=found.ends and node not in self.again)

    def _joined(self, part: str, node: Join) -> Extent:
        """Tell the sides apart, and what an outer join knows of rows with a partner."""
        side = node.left if part == "left" or part.startswith("l.") else node.right
        found = extent(side, self.rates)
        if part.startswith(("l.once.", "r.once.")) or part.endswith("taken.right"):
            words = f"{found.words} that have a partner"
            return _counted(part, replace(found, words=words, rows=None))
        return found

    def _grouped(self, part: str, node: Group) -> Extent:
        """Tell groups, the rare digits of their sums, and single values apart."""
        given, groups = self._given(node.input), extent(node, self.rates)
        if part.startswith("all.sums"):
            words = f"digits of sums of the {groups.words}, where these are beyond the usual"
            return Extent(words, 0)
        if part.startswith("all."):
            by_instant = given.called("groups by instant", ends=given.ends)
            return _counted(part, by_instant if part.endswith("due") else groups)
        aggregate = node.aggregates[int(part.partition(".")[0])]
        return _counted(part, given.called(f"values of {aggregate.kind}", ends=given.ends))


def _counted(part: str, given: Extent) -> Extent:
    """Tell what is there from what will happen; what has no end yet is not waited for."""
    if not part.endswith("due"):
        return given
    ends = given.called("ends")
    return ends if given.ends else replace(ends, rows=0)
