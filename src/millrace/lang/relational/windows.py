"""Windows of a plan, from windows of a text: columns exist, sizes make sense."""

from __future__ import annotations

from sqlglot import exp

from millrace.lang.relational.context import Environment
from millrace.lang.relational.frame import Frame, Item, Visible
from millrace.lang.translate import Translator
from millrace.lang.trees import CqlWindow
from millrace.plan.expressions import Arithmetic, Expression, Literal, Parameter
from millrace.plan.relations import Window
from millrace.plan.types import kind_of
from millrace.schema import Column as Field
from millrace.schema import type_named
from millrace.time import print_duration

UNBOUNDED = Window("range")


def window_of(
    node: CqlWindow, columns: tuple[Field, ...], names: tuple[str, str], env: Environment
) -> Window:
    """Return the window that a node means on a stream of these columns.

    Parameters
    ----------
    names
        The stream's own name and the one that the query gives it, either of which may stand
        before a column of PARTITION BY.
    """
    size, slide = (_length(node, each, env) for each in ("size", "slide"))
    kind = node.args["kind"]
    _check_slide(node, env)
    match kind:
        case "NOW":
            return Window("range", 0)
        case "BEGIN":
            return _span(node, size, slide, env)
        case "RANGE":
            return Window("range", size, slide)
        case _:
            by = tuple(_partition(each, columns, names, env) for each in node.args.get("by") or ())
            if size is None and slide is None:
                return UNBOUNDED
            return Window("rows", size, slide, tuple(dict.fromkeys(by)))


def _length(node: CqlWindow, what: str, env: Environment) -> int | Expression | None:
    """Return the size or the slide of a window; a parameter counts rows, or units of time."""
    length: int | exp.Placeholder | None = node.args.get(what)
    if not isinstance(length, exp.Placeholder):
        return length
    text = env.text
    found = Translator(Frame(text.source), text.parameters, text.source, text.notes)
    value = found.expression(length)
    assert isinstance(value, Parameter), "a placeholder is a parameter"
    if kind_of(type_named(value.type)) != "integer":
        hint = "Declare the parameter as an int or a bigint."
        message = f'parameter ":{length.name}" is {value.type} where a window has a whole number'
        raise text.fault(length, message, code="CQL032", hint=hint)
    unit = node.args.get("unit" if what == "size" else "slide_unit") or 1
    return value if unit == 1 else Arithmetic("*", value, Literal(unit))


def _check_slide(node: CqlWindow, env: Environment) -> None:
    size, slide = node.args.get("size"), node.args.get("slide")
    if not isinstance(slide, int):
        return
    if slide < 1:
        hint = "Leave SLIDE out, so that the window moves all the time."
        raise env.text.fault(node, "SLIDE must be longer than 0", code="CQL014", hint=hint)
    if isinstance(size, int) and slide > size:
        timed = node.args["kind"] in ("RANGE", "BEGIN")
        show, unit = (print_duration, "") if timed else (str, " rows")
        message = f"the window slides by {show(slide)}{unit} and is {show(size)}{unit} long"
        env.caution("CQL015", node, message, "What falls between two windows is never seen.")


def _span(
    node: CqlWindow, size: int | Expression | None, slide: int | Expression | None, env: Environment
) -> Window:
    since, until, lag = (node.args.get(each) for each in ("since", "until", "lag"))
    if size is not None and not isinstance(size, int) and (lag or until is not None):
        message = "BEGIN has a parameter and END is not NOW"
        hint = "Write END NOW, or a constant behind BEGIN."
        raise env.text.fault(node, message, code="CQL014", hint=hint)
    backwards = since is not None and until is not None and since > until
    if backwards or (isinstance(size, int) and lag is not None and lag > size):
        hint = "Swap BEGIN and END."
        raise env.text.fault(node, "the window ends before it begins", code="CQL014", hint=hint)
    return Window("range", size, slide, since=since, until=until, lag=lag or 0)


def _partition(
    node: exp.Column, columns: tuple[Field, ...], names: tuple[str, str], env: Environment
) -> str:
    """Return which column of a stream PARTITION BY names."""
    visible = tuple(Visible(each.name, each.name) for each in columns)
    own, alias = (Item(name, "stream", visible) for name in names)
    items = (own,) if own.alias == alias.alias or node.args.get("table") is None else (own, alias)
    return Frame(env.text.source, items).column(node)
