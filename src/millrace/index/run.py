"""An index file, opened: mapped arrays, and what its families are.

Nothing is copied: the arrays point into the mapped file, so the workers of a machine share one
copy in its page cache. Families are read only when a row has matched one of their queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.index.atoms import name_of
from millrace.index.text.group import TextIndex
from millrace.kernels.arrays import Bools, Ints32
from millrace.operators.codes import TextCodes
from millrace.plan.expressions import Column, Expression, Parameter, walk
from millrace.plan.nodes import Output, Selection
from millrace.plan.spelling import from_json
from millrace.state.container import Container
from millrace.state.root import Root


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Boxes that are found by one access method, whichever of `methods` is the quickest.

    If they are `decisive`, a row in a box satisfies its query, and need not be looked at again.
    """

    columns: tuple[int, ...]
    slots: Ints32
    methods: dict[str, dict[str, NDArray[Any]]]
    decisive: bool


class StoredFamily:
    """One family of an index file."""

    def __init__(self, described: dict[str, Any]) -> None:
        self.key: str = described["key"]
        self.feed: str = described["feed"]
        self.columns: tuple[int, ...] = tuple(described["columns"])
        self.projection: str = described["projection"]
        self._described = described

    @cached_property
    def selection(self) -> Selection:
        """What its queries ask."""
        return Selection.from_json(self._described["selection"])

    @cached_property
    def residual(self) -> Expression | None:
        """What the boxes do not say of the condition."""
        spelt = self._described["residual"]
        return None if spelt is None else from_json(spelt)

    @property
    def has_residual(self) -> bool:
        """Whether there is such a rest; known without reading it."""
        return self._described["residual"] is not None

    @cached_property
    def outputs_differ(self) -> bool:
        """Whether the columns of the answer depend on a query's constants."""
        return any(_parametric(each) for each in self.selection.outputs)

    @cached_property
    def columns_shown(self) -> frozenset[str]:
        """The columns of a row that an answer is made of."""
        return _columns_of(each.value for each in self.selection.outputs)

    @cached_property
    def columns_read(self) -> frozenset[str]:
        """The columns of a row that say whether it is an answer, and which."""
        condition = self.selection.condition
        return self.columns_shown | _columns_of(() if condition is None else (condition,))


class IndexRun:
    """The standing queries of one file, by their slots."""

    def __init__(self, file: Container) -> None:
        self.name = file.name
        self._file = file
        meta = file.meta
        self.n: int = meta["n"]
        self.families = [StoredFamily(each) for each in meta["families"]]
        self.qids: NDArray[np.uint64] = self.array("qids")

    @classmethod
    def open(cls, root: Root, name: str) -> IndexRun:
        """Map an index file."""
        return cls(Container.open(root, name))

    @property
    def n_bytes(self) -> int:
        """How large the file is."""
        return self._file.size

    def array(self, name: str) -> NDArray[Any]:
        """Return one of the stored arrays."""
        dtype, shape = self._file.meta["arrays"][name]
        if 0 in shape:
            return np.zeros(shape, dtype)
        return np.frombuffer(self._file.section(name), dtype).reshape(shape)

    @cached_property
    def columns(self) -> tuple[Expression, ...]:
        """The columns, computed or not, that boxes have intervals on."""
        return tuple(from_json(each) for each in self._file.meta["columns"])

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """What the columns are known by, in all files."""
        return tuple(name_of(each) for each in self.columns)

    @cached_property
    def groups(self) -> list[Group]:
        """The boxes."""
        return [self._group(*each) for each in enumerate(self._file.meta["groups"])]

    def _group(self, number: int, described: dict[str, Any]) -> Group:
        slots: Ints32 = self.array(f"group{number}/slots")
        methods = {
            method: {name: self.array(f"group{number}/{method}/{name}") for name in names}
            for method, names in described["methods"].items()
        }
        decisive = self.unsettled is None or not self.unsettled[slots].any()
        return Group(tuple(described["columns"]), slots, methods, decisive)

    @cached_property
    def texts(self) -> TextIndex | None:
        """The queries that are found by the texts they need; None if there are none."""
        described = self._file.meta["automata"]
        if not described:
            return None
        automata = [
            (
                each["column"],
                {name: self.array(f"automaton{number}/{name}") for name in each["arrays"]},
            )
            for number, each in enumerate(described)
        ]
        slots, clauses, n_clauses = (
            self.array(f"needles/{name}") for name in ("slots", "clauses", "n_clauses")
        )
        return TextIndex(automata, slots, clauses, n_clauses)

    def text_codes(self, column: int) -> TextCodes | None:
        """Return the codes of a column of texts; None for another column."""
        name = f"text/{column}"
        if f"{name}/bounds" not in self._file.meta["arrays"]:
            return None
        return TextCodes(self.array(f"{name}/bounds"), self.array(f"{name}/data"))

    @cached_property
    def settled(self) -> Bools | None:
        """The slots whose texts are all there is to their condition; None if there are none."""
        return self.array("settled") if "settled" in self._file.meta["arrays"] else None

    @cached_property
    def verify(self) -> Bools | None:
        """The slots whose whole condition is to be evaluated; None if there are none."""
        return self.array("verify") if "verify" in self._file.meta["arrays"] else None

    @cached_property
    def unsettled(self) -> Bools | None:
        """The slots of which boxes and needles leave something open; None if there are none."""
        residual = np.array([each.has_residual for each in self.families], np.bool_)
        if self.verify is None and not residual.any():
            return None
        found: Bools = residual[self.owners(np.arange(self.n, dtype=np.int32))]
        if self.settled is not None:
            found &= ~self.settled
        return found if self.verify is None else found | self.verify

    def owners(self, slots: Ints32) -> Ints32:
        """Return the family of each slot."""
        if len(self.families) == 1:
            return np.zeros(slots.size, np.int32)
        found: Ints32 = self.array("owner")[slots]
        return found

    def places(self, slots: Ints32) -> Ints32:
        """Return the row of each slot in its family's constants."""
        if len(self.families) == 1:
            return slots
        found: Ints32 = self.array("place")[slots]
        return found

    def slots_of_family(self, family: int) -> Ints32:
        """Return the slots of a family, ascending."""
        if len(self.families) == 1:
            return np.arange(self.n, dtype=np.int32)
        return np.flatnonzero(self.array("owner") == family).astype(np.int32)

    def parameters(self, family: int) -> pa.RecordBatch:
        """Return the constants of a family, one row a query in the order of slots."""
        schema = pa.ipc.read_schema(self._file.section(f"schema/{family}"))
        return pa.ipc.read_record_batch(self._file.section(f"parameters/{family}"), schema)


def _columns_of(expressions: Iterable[Expression]) -> frozenset[str]:
    nodes = (node for each in expressions for node in walk(each))
    return frozenset(node.name for node in nodes if isinstance(node, Column))


def _parametric(output: Output) -> bool:
    return any(isinstance(each, Parameter) for each in walk(output.value))
