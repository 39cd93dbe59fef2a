"""The columns of a stream: those that are declared, or those that its source knows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millrace.connectors.files import Files
from millrace.connectors.pushed import Pushed
from millrace.engine.backend import Backend
from millrace.errors import PlanError
from millrace.schema import Column, Schema


def columns_of(
    backend: Backend,
    name: str,
    source: object,
    declared: str | Schema | None,
    json: str | None,
    beside: Sequence[str | None],
) -> Schema:
    """Return the columns of a stream; what stands `beside` JSON text is the source's own."""
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


def _found(found: Schema | None, column: str, stream: str) -> pa.DataType:
    if found is None or column not in found:
        raise PlanError(f'column "{column}" is not delivered by the source of stream "{stream}"')
    return found.type_of(column)
