"""The catalog: every stream and every query in force, as of one number of the registry.

A catalog is immutable; a change makes the next one. Tasks of other processes read it from the
file `catalogs/<sequence>`, which is written once, before the first epoch that uses it, and
remember it by that name.

A query that failed is suspended by the commit of the epoch in which it failed, under the
`generation` it had; resuming it raises the generation, so the old verdict no longer applies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import pyarrow as pa

from millrace.engine.streams import StreamSpec, check_name
from millrace.errors import NameTakenError, PlanError, UnknownNameError
from millrace.plan.bind import nearest
from millrace.plan.nodes import Selection
from millrace.schema import type_name, type_named


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """One standing query: who it is, what it asks, and the columns of its answer."""

    qid: int
    name: str
    selection: Selection
    answer: pa.Schema
    generation: int = 0
    paused: bool = False

    def __post_init__(self) -> None:
        check_name("query", self.name)

    def to_json(self) -> dict[str, Any]:
        """Spell the query as JSON."""
        return {
            "qid": self.qid,
            "name": self.name,
            "selection": self.selection.to_json(),
            "answer": [[each.name, type_name(each.type)] for each in self.answer],
            "generation": self.generation,
            "paused": self.paused,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        answer = pa.schema([(name, type_named(kind)) for name, kind in spelt["answer"]])
        selection = Selection.from_json(spelt["selection"])
        return cls(**{**spelt, "selection": selection, "answer": answer})


@dataclass(frozen=True, slots=True)
class Catalog:
    """All streams and queries after the first `sequence` changes of the registry."""

    sequence: int = 0
    next_qid: int = 1
    streams: dict[str, StreamSpec] = field(default_factory=dict)
    queries: dict[str, QuerySpec] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of the file that tasks read this catalog from."""
        return f"catalogs/{self.sequence:012d}"

    def stream(self, name: str) -> StreamSpec:
        """Return the stream of that name, or say which ones exist."""
        if name not in self.streams:
            raise UnknownNameError(
                f'stream "{name}" does not exist',
                detail=f"The streams are {', '.join(self.streams) or 'none'}.",
                hint=nearest(name, list(self.streams)),
            )
        return self.streams[name]

    def query(self, name: str) -> QuerySpec:
        """Return the query of that name, or say which ones are close."""
        if name not in self.queries:
            raise UnknownNameError(
                f'query "{name}" does not exist',
                detail=f"There are {len(self.queries)} queries.",
                hint=nearest(name, list(self.queries)),
            )
        return self.queries[name]

    def apply(self, change: dict[str, Any]) -> Catalog:
        """Return the catalog after one change; a change that does not fit raises."""
        match change["do"]:
            case "add stream":
                after = self._with_stream(StreamSpec.from_json(change["stream"]))
            case "drop stream":
                after = self._without_stream(change["name"])
            case "add query":
                after = self._with_query(change)
            case "drop query":
                self.query(change["name"])
                rest = {name: q for name, q in self.queries.items() if name != change["name"]}
                after = replace(self, queries=rest)
            case "pause" | "resume":
                after = self._with_paused(change["name"], paused=change["do"] == "pause")
            case unknown:
                message = f"not a change of the registry: {unknown!r}"
                raise AssertionError(message)
        return replace(after, sequence=self.sequence + 1)

    def _with_stream(self, spec: StreamSpec) -> Catalog:
        if spec.name in self.streams:
            raise NameTakenError(f'stream "{spec.name}" exists already')
        born = replace(spec, born=self.sequence + 1)
        return replace(self, streams={**self.streams, spec.name: born})

    def _without_stream(self, name: str) -> Catalog:
        self.stream(name)
        readers = [each.name for each in self.queries.values() if each.selection.stream == name]
        if readers:
            raise PlanError(
                f'stream "{name}" is in use',
                detail=f'{len(readers)} queries read it, such as "{readers[0]}".',
                hint="Drop the queries first.",
            )
        return replace(self, streams={n: s for n, s in self.streams.items() if n != name})

    def _with_query(self, change: dict[str, Any]) -> Catalog:
        query = QuerySpec.from_json({**change["query"], "qid": self.next_qid})
        if query.name in self.queries:
            raise NameTakenError(f'query "{query.name}" exists already')
        queries = {**self.queries, query.name: query}
        return replace(self, queries=queries, next_qid=self.next_qid + 1)

    def _with_paused(self, name: str, *, paused: bool) -> Catalog:
        query = self.query(name)
        generation = query.generation + (not paused)
        changed = replace(query, paused=paused, generation=generation)
        return replace(self, queries={**self.queries, name: changed})

    def to_json(self) -> dict[str, Any]:
        """Spell the catalog for the tasks' file and for snapshots of the registry."""
        return {
            "sequence": self.sequence,
            "next_qid": self.next_qid,
            "streams": [each.to_json() for each in self.streams.values()],
            "queries": [each.to_json() for each in self.queries.values()],
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        streams = [StreamSpec.from_json(each) for each in spelt["streams"]]
        queries = [QuerySpec.from_json(each) for each in spelt["queries"]]
        return cls(
            spelt["sequence"],
            spelt["next_qid"],
            {each.name: each for each in streams},
            {each.name: each for each in queries},
        )
