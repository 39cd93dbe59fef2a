"""Intervals: what an atom is for each query of a family, in codes.

A comparison is a range (`operators.ranges`), and so is a pattern that begins with a text:

    name LIKE 'ab%'   low  = code('ab')           high = code('ac') - 1
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.index.atoms import Atom
from millrace.index.text.patterns import KINDS, read_likes
from millrace.kernels.arrays import Ints
from millrace.operators.codes import valid
from millrace.operators.ranges import End, Ends, end_of, evaluate_constants


def ends_of(atom: Atom, parameters: pa.RecordBatch) -> Ends:
    """Evaluate an atom's constants for each query (but for `points`, which are many a query)."""
    n_rows = parameters.num_rows
    exact = np.ones(n_rows, np.bool_)
    match atom.form:
        case "null":
            return Ends(None, None, exact, null=True)
        case "present":
            return Ends(None, None, exact)
        case "like":
            return _like_ends(atom, parameters)
        case _:
            low, low_exact = end_of(atom.low, atom.type, parameters, least=True)
            high, high_exact = end_of(atom.high, atom.type, parameters, least=False)
            return Ends(low, high, low_exact & high_exact)


def _like_ends(atom: Atom, parameters: pa.RecordBatch) -> Ends:
    """See patterns without a wildcard as points and prefixes as ranges; others stay open."""
    assert atom.pattern is not None, "a LIKE has a pattern"
    patterns = evaluate_constants(atom.pattern.pattern, parameters).cast(pa.string())
    read = read_likes(patterns.fill_null(""), atom.pattern.escape)
    whole, prefix = (read.kinds == KINDS.index(each) for each in ("equals", "prefix"))
    stems = pc.if_else(pa.array(valid(patterns)), read.texts, None).cast(pa.binary())
    successors = pa.array([_successor(each) for each in stems.to_pylist()], pa.binary())
    high = pc.if_else(pa.array(whole), stems, successors)
    exact = read.exact & (whole | prefix) | ~valid(patterns)
    return Ends(End(stems, _zeros(parameters)), End(high, np.where(whole, 0, -1)), exact)


def _successor(stem: bytes | None) -> bytes | None:
    """Return the least bytes greater than everything that begins with `stem`.

    No byte of UTF-8 is the greatest one, so the last can always grow.
    """
    if stem is None:
        return None
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\xff"


def _zeros(parameters: pa.RecordBatch) -> Ints:
    return np.zeros(parameters.num_rows, np.int64)
