"""Parameters of families: their types by name, and the columns in which their values are kept."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from millrace.schema import type_named

SET = "[]"
"""Ends the type of a parameter whose values are sets, and of a column of lists."""


def parameter_schema(types: Iterable[str]) -> pa.Schema:
    """Return the columns of constants of those types.

    >>> parameter_schema(("text", "double[]")).names
    ['p0', 'p1']
    """
    return pa.schema([(f"p{at}", set_or_type(each)) for at, each in enumerate(types)])


def set_or_type(name: str) -> pa.DataType:
    """Return the type of that name, which may be one of sets."""
    if name.endswith(SET):
        return pa.list_(type_named(name.removesuffix(SET)))
    return type_named(name)
