"""Expansion: the query as it was understood, with everything written out that was left out.

Windows that a stream has by default, and those that BEGIN and END behind the query give it, stand
behind the stream; ISTREAM stands around what became one by itself. Views stay names.
"""

from __future__ import annotations

from sqlglot import exp

from millrace.lang.printer import to_text
from millrace.lang.relational.context import Shared
from millrace.lang.trees import WINDOW, XStream


def expanded(tree: exp.Expr, shared: Shared, *, istream: bool) -> str:
    """Print a bound query with its defaults."""
    copied = tree.copy()
    for old, new in list(zip(tree.walk(), copied.walk(), strict=True)):
        window = shared.defaults.get(id(old))
        if window is not None:
            new.set(WINDOW, window.copy())
        if id(old) in shared.streamed and isinstance(new.this, exp.Query):
            new.set("this", XStream(kind="ISTREAM", this=new.this))
        if isinstance(new, exp.Select):
            new.set(WINDOW, None)
    return to_text(XStream(kind="ISTREAM", this=copied) if istream else copied)
