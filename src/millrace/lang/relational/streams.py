"""From relations to streams and back: ISTREAM, DSTREAM and RSTREAM, and what is said by default.

A stream where a relation is needed has an unbounded window. A relation where a stream is needed
is an Istream, if it only grows.
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from millrace.lang.relational.context import Answer, Environment, Rows, Shared
from millrace.lang.relational.windows import UNBOUNDED
from millrace.lang.trees import XStream
from millrace.plan.expressions import Column
from millrace.plan.growth import instantaneous
from millrace.plan.nodes import Output
from millrace.plan.relations import Project, StreamKind, StreamOf, Windowed


def streamed(rows: Rows, node: XStream, env: Environment) -> Answer:
    """Return the stream that a node makes of a relation."""
    kind = cast(StreamKind, node.args["kind"].lower())
    every = node.args.get("every")
    if every is not None and kind != "rstream":
        raise env.text.fault(
            node,
            f"{kind.upper()} has no EVERY",
            code="CQL040",
            hint="It tells each change when it happens. Leave EVERY out, or write RSTREAM.",
        )
    if every is not None and every < 1:
        raise env.text.fault(node, "EVERY must be longer than 0", code="CQL014")
    if kind == "rstream" and every is None and not instantaneous(rows.plan):
        raise env.text.fault(
            node,
            "RSTREAM of a relation that lasts needs EVERY",
            code="CQL040",
            detail="It would repeat every row at every instant.",
            hint="Write RSTREAM(...) EVERY 1 second, or ISTREAM(...), or use the window [NOW].",
        )
    return Answer(rows, StreamOf(kind, rows.plan, every))


def relation_of(answer: Answer, shared: Shared) -> Rows:
    """Return a query's answer as a relation: of a stream, all that it has told."""
    if answer.stream is None:
        return answer.rows
    alias, columns = shared.name(), answer.rows.columns
    plain = tuple(Output(each.name, Column(f"{alias}.{each.name}")) for each in columns)
    return Rows(Project(Windowed(answer.stream, UNBOUNDED, alias), plain), columns)


def stream_of_select(select: exp.Select, env: Environment) -> XStream | None:
    """Return what makes a stream of a SELECT: ISTREAM(...) around its whole list, if it is."""
    bare = [unaliased(each) for each in select.expressions]
    found = [each for each in bare if isinstance(each, XStream)]
    if not found:
        return None
    stream = found[0]
    if len(bare) > 1 or isinstance(select.expressions[0], exp.Alias):
        raise env.text.fault(
            stream,
            f"{stream.args['kind']} must be around the whole select list",
            code="CQL020",
            hint="Write SELECT ISTREAM(a, b) FROM ...",
        )
    if stream.this is not None:
        hint = "Put it around the whole select list, or around the whole query."
        raise env.text.fault(stream, f"{stream.args['kind']} of a query is not a column", hint=hint)
    return stream


def unaliased(item: exp.Expr) -> exp.Expr:
    """Return an item of a select list without its alias."""
    inner: exp.Expr = item.this if isinstance(item, exp.Alias) else item
    return inner
