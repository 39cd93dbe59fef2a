"""Declaring streams: which columns they have, and that they are declared as in the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.connectors.files import Files
from millrace.connectors.pushed import Pushed
from millrace.engine.backend import Backend
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.schema import Column, Schema

if TYPE_CHECKING:
    from millrace.session.session import Session


def columns_of(
    backend: Backend,
    name: str,
    source: object,
    declared: str | Schema | None,
    json: str | None,
    beside: list[str | None],
) -> Schema:
    """Return the columns of a stream: those declared, or those that its source delivers.

    Of JSON text, those declared and the columns `beside` it that the stream names.
    """
    known = declared if isinstance(declared, Schema | None) else Schema.of(declared)
    found = None if isinstance(source, Files | Pushed) else backend.schema_of(source)
    if json is None:
        columns = known or found
        if columns is None:
            raise PlanError(
                f'the columns of stream "{name}" are not known',
                hint='Declare them: schema="symbol text, price double, ts timestamp".',
            )
        return columns
    if known is None:
        raise PlanError(
            f'stream "{name}" is JSON text and has no declared columns',
            hint='Declare them: schema="symbol text, price double, ts timestamp".',
        )
    extra = [each for each in beside if each is not None and each not in known]
    return Schema((*known, *(Column(each, _found(found, each, name)) for each in extra)))


def declare_stream(session: Session, spec: StreamSpec) -> None:
    """Record a stream that is new; refuse one that is declared otherwise in the root.

    A stream may have another source than before; whether clients push its rows is recorded.
    """
    known = session.engine.registry.catalog.streams.get(spec.name)
    if known is None:
        session.change({"do": "add stream", "stream": spec.to_json()})
        return
    before = known.as_declared.to_json()
    after = {**spec.to_json(), "born": known.born, "pushed": known.pushed}
    differing = [word for word in before if before[word] != after[word]]
    if differing:
        word = differing[0]
        raise PlanError(
            f'stream "{spec.name}" is declared otherwise in the root',
            detail=f"Its {word} is {before[word]} there and {after[word]} here.",
            hint="Declare it as it was, or drop the stream first.",
        )
    if spec.pushed != known.pushed:
        session.change({"do": "bind stream", "name": spec.name, "pushed": spec.pushed})


def _found(found: Schema | None, column: str, stream: str) -> pa.DataType:
    if found is None or column not in found:
        raise PlanError(f'column "{column}" is not delivered by the source of stream "{stream}"')
    return found.type_of(column)
