"""FROM: streams with their windows, tables, views, subqueries, and how they are joined.

The columns of an item are `alias.column` in the plan. An item without an alias has its own name;
a subquery without one has a name that nobody can write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from millrace.lang.refusals import NOT_YET, node_refused, only
from millrace.lang.relational.context import Answer, Environment, Rows
from millrace.lang.relational.frame import Frame, Item, Visible
from millrace.lang.relational.joins import joined
from millrace.lang.relational.named import named_answer, renamed, resolve, with_names
from millrace.lang.relational.outputs import check_reserved
from millrace.lang.relational.windows import UNBOUNDED, window_of
from millrace.lang.trees import WINDOW, CqlWindow, XStream
from millrace.plan.expressions import Column
from millrace.plan.growth import monotonic
from millrace.plan.nodes import Output
from millrace.plan.relations import Project, Source, StreamOf, Table, Windowed
from millrace.schema import Column as Field


def from_clause(select: exp.Select, env: Environment) -> tuple[Rows, Frame]:
    """Bind FROM and its joins."""
    origin = select.args.get("from_")
    if origin is None:
        raise env.text.fault(select, "query has no FROM", hint="Name a stream.")
    span = select.args.get(WINDOW)
    rows, frame = _tree(origin.this, select.args.get("joins") or (), span, env)
    if span is not None and not any(item.stream for item in frame.items):
        raise env.text.fault(span, "FROM has no stream for BEGIN and END", code="CQL010")
    return rows, replace(frame, outer=env.outer)


def _tree(
    first: exp.Expr, joins: Iterable[exp.Join], span: CqlWindow | None, env: Environment
) -> tuple[Rows, Frame]:
    """Bind an item, and what is joined to it, from left to right."""
    rows, frame = _item(first, span, env)
    own = first.args.get("joins") if isinstance(first, exp.Table) else None
    for join in (*(own or ()), *joins):
        right, added = _item(join.this, span, env)
        _check_aliases(frame, added, join.this, env)
        rows, frame = joined(join, (rows, frame), (right, added), env)
    return rows, frame


def _check_aliases(frame: Frame, added: Frame, node: exp.Expr, env: Environment) -> None:
    taken = {each.alias.casefold() for each in frame.items}
    for each in added.items:
        if each.alias.casefold() in taken:
            raise env.text.fault(
                _name_of(node),
                f'FROM has "{each.alias}" twice',
                code="CQL004",
                hint=f"Give it another name: {each.alias} AS another_name.",
            )


def _name_of(node: exp.Expr) -> exp.Expr:
    named: exp.Expr = node.args.get("alias") or node.this
    return named


def _item(node: exp.Expr, span: CqlWindow | None, env: Environment) -> tuple[Rows, Frame]:
    """Bind one item; brackets around a name or a join may have an alias behind them."""
    node = _unwrapped(node)
    source = env.text.source
    match node:
        case exp.Table():
            only(node, source, "this", "db", "catalog", "alias", WINDOW, "joins")
            return _table(node, span, env)
        case exp.Subquery() if isinstance(node.this, exp.Table) and _is_stream(node.this):
            only(node, source, "this", "alias", WINDOW)
            return _derived(env.bind(node.this.this, env), node, None, env)
        case exp.Subquery() if isinstance(node.this, exp.Table) and node.args.get("alias"):
            only(node, source, "this", "alias")
            only(node.this, source, "this", WINDOW)
            return _named(node.this, node, span, env)
        case exp.Subquery() if isinstance(node.this, exp.Table):
            only(node, source, "this")
            return _tree(node.this, (), span, env)
        case exp.Subquery():
            only(node, source, "this", "alias", WINDOW)
            return _derived(env.bind(node.this, env), node, None, env)
        case _:
            raise node_refused(node, source)


def _unwrapped(node: exp.Expr) -> exp.Expr:
    """Return what brackets stand around that do nothing."""
    while isinstance(node, exp.Subquery) and isinstance(node.this, exp.Subquery):
        if any(value for key, value in node.args.items() if key != "this"):
            break
        node = node.this
    return node


def _table(node: exp.Table, span: CqlWindow | None, env: Environment) -> tuple[Rows, Frame]:
    if isinstance(node.this, XStream):
        return _derived(env.bind(node.this, env), node, None, env)
    if isinstance(node.this, exp.Func):
        raise env.text.fault(node, "a function in FROM is not executed yet", code=NOT_YET)
    if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        raise env.text.fault(node, "a stream was expected here", code="CQL001")
    return _named(node, node, span, env)


def _is_stream(table: exp.Table) -> bool:
    """Say whether a table in brackets is ISTREAM(...) and nothing else."""
    others = (value for key, value in table.args.items() if key != "this")
    return isinstance(table.this, XStream) and not any(others)


def _named(
    node: exp.Table, naming: exp.Expr, span: CqlWindow | None, env: Environment
) -> tuple[Rows, Frame]:
    """Bind a name; the alias may stand behind brackets around it, which is `naming`."""
    kind, name = resolve(node.this, env)
    window = node.args.get(WINDOW)
    if kind in ("view", "subquery"):
        return _derived(named_answer(kind, name, node, env), naming, (kind, name), env, window)
    alias = _alias(naming, name, env)
    if kind == "table":
        if window is not None:
            raise env.text.fault(
                window,
                f'"{name}" is a table and has no window',
                code="CQL010",
                hint="Windows are for streams. Leave it out.",
            )
        return _aliased(Table(name, alias), env.shared.declared.tables[name], naming, env)
    schema = env.shared.declared.streams[name]
    if window is None:
        window = span or CqlWindow(kind="RANGE")
        env.shared.defaults[id(node)] = window
    made = window_of(window, schema.columns, (name, alias), env)
    return _aliased(Windowed(Source(name), made, alias), schema, naming, env)


def _aliased(
    plan: Table | Windowed, columns: Iterable[Field], node: exp.Expr, env: Environment
) -> tuple[Rows, Frame]:
    """Return a source whose columns the plan calls `alias.column`."""
    alias = plan.alias
    fields = tuple(columns)
    rows = Rows(plan, tuple(Field(f"{alias}.{each.name}", each.type) for each in fields))
    origin = plan.stream if isinstance(plan, Windowed) else None
    stream = origin.name if isinstance(origin, Source) else None
    what = "table" if stream is None else "stream"
    visible = tuple(Visible(each.name, f"{alias}.{each.name}") for each in fields)
    given = _alias_columns(node)
    if given:
        rows, visible = _renamed(rows, alias, renamed(given, fields, node, env))
    return rows, Frame(env.text.source, (Item(alias, what, visible, stream),))


def _renamed(rows: Rows, alias: str, names: list[str]) -> tuple[Rows, tuple[Visible, ...]]:
    """Return a source under other names of its columns."""
    new = [f"{alias}.{each}" for each in names]
    outputs = tuple(
        Output(name, Column(old.name)) for name, old in zip(new, rows.columns, strict=True)
    )
    fields = tuple(Field(name, old.type) for name, old in zip(new, rows.columns, strict=True))
    visible = tuple(Visible(name, column) for name, column in zip(names, new, strict=True))
    return Rows(Project(rows.plan, outputs), fields), visible


def _derived(
    answer: Answer,
    node: exp.Expr,
    named: tuple[str, str] | None,
    env: Environment,
    window: CqlWindow | None = None,
) -> tuple[Rows, Frame]:
    """Return a query in FROM: as it is, or as a stream with a window."""
    window = window or node.args.get(WINDOW)
    what, name = named or ("subquery", None)
    given, alias = _alias_columns(node), _alias(node, name, env)
    if given:
        answer = with_names(answer, renamed(given, answer.rows.columns, node, env))
    columns = answer.rows.columns
    if window is not None and answer.stream is None:
        answer = _as_stream(answer, window, node, env)
    if answer.stream is None:
        outputs = tuple(Output(f"{alias}.{each.name}", Column(each.name)) for each in columns)
        plan: Project | Windowed = Project(answer.rows.plan, outputs)
    else:
        made = UNBOUNDED
        if window is None:
            env.shared.defaults[id(node)] = CqlWindow(kind="RANGE")
        else:
            made = window_of(window, columns, (name or alias, alias), env)
        plan = Windowed(answer.stream, made, alias)
    rows = Rows(plan, tuple(Field(f"{alias}.{each.name}", each.type) for each in columns))
    visible = tuple(Visible(each.name, f"{alias}.{each.name}") for each in columns)
    return rows, Frame(env.text.source, (Item(alias, what, visible),))


def _as_stream(answer: Answer, window: CqlWindow, node: exp.Expr, env: Environment) -> Answer:
    """Return a relation that a window stands on as the stream of what it gains."""
    if not monotonic(answer.rows.plan):
        raise env.text.fault(
            window,
            "a window stands on a stream, and this relation also loses rows",
            code="CQL011",
            hint="Say which stream of it is meant: ISTREAM(...) or RSTREAM(...) EVERY ...",
        )
    env.shared.streamed.add(id(node))
    return Answer(answer.rows, StreamOf("istream", answer.rows.plan))


def _alias(node: exp.Expr, name: str | None, env: Environment) -> str:
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        return env.shared.name() if name is None else name
    only(alias, env.text.source, "this", "columns")
    check_reserved(alias.name, "alias", alias, env)
    return str(alias.name)


def _alias_columns(node: exp.Expr) -> list[exp.Identifier]:
    alias = node.args.get("alias")
    return [] if alias is None else list(alias.args.get("columns") or ())
