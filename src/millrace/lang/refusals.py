"""What is understood and not done: every construct is refused by its name, never ignored."""

from __future__ import annotations

import re

from sqlglot import exp

from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.trees import WINDOW, CqlWindow, XStream, span_of

NOT_YET = "CQL090"
"""Parsed, and part of the language, but not executed by this version."""

SELECTIONS_ONLY = "This version runs selections: SELECT ... FROM stream [WHERE ...]."
"""The hint of what a selection may not hold; whole CQL may (`lang.relational`)."""
_NO_ORDER = "A relation has no order, and a stream never ends."

_NO_OVER = (
    "For all rows of a key, join with a subquery that groups by it; for its last rows, write "
    "[PARTITION BY key ROWS n]; for the first of all, ORDER BY ... LIMIT n."
)

_CLAUSES = {
    "with_": "WITH",
    "distinct": "DISTINCT",
    "joins": "JOIN",
    "laterals": "LATERAL",
    "group": "GROUP BY",
    "having": "HAVING",
    "into": "INTO",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    WINDOW: "BEGIN",
}
_NEVER = {
    "order": "ORDER BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
}
_NODES: dict[type[exp.Expr], str] = {
    exp.Subquery: "a subquery",
    exp.Select: "a subquery",
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
    exp.Exists: "EXISTS",
    exp.Bracket: "an array subscript",
    exp.Tuple: "a row value",
    exp.SimilarTo: "SIMILAR TO",
    exp.Distinct: "DISTINCT",
    exp.Filter: "FILTER",
    exp.WithinGroup: "WITHIN GROUP",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Collate: "COLLATE",
    exp.Any: "ANY",
    exp.All: "ALL",
    exp.IntDiv: "DIV",
}
_HINTS: dict[type[exp.Expr], str] = {
    exp.SimilarTo: "Use LIKE, or ~ with a regular expression.",
    exp.IntDiv: "The quotient of two integers, a / b, is an integer.",
}
_AGGREGATES = """
    any_value approx_count_distinct approx_distinct approx_most_frequent approx_percentile
    approx_quantile approx_top_k arg_max arg_min array_agg avg bit_and bit_or bit_xor bool_and
    bool_or collect_list collect_set corr count count_distinct count_if covar_pop covar_samp
    dense_rank every first_value group_concat lag last_value lead listagg max max_by median min
    min_by mode ntile percentile_cont percentile_disc quantile quantile_cont quantile_disc rank
    row_number stddev stddev_pop stddev_samp stdev string_agg sum var_pop var_samp variance
"""
AGGREGATES = frozenset(_AGGREGATES.split())


def only(node: exp.Expr, source: str, *known: str) -> None:
    """Raise if a node has an argument that nobody looks at."""
    for key, value in node.args.items():
        if key not in known and value not in (None, False, []):
            raise _clause(node, key, value, source)


def node_refused(node: exp.Expr, source: str) -> LanguageError:
    """Return the refusal of a node that is not executed, by its name."""
    span = span_of(node)
    if isinstance(node, XStream):
        return LanguageError(
            f"{node.args['kind']} is not allowed here",
            source=source,
            span=span,
            code="CQL021",
            hint="Put it around the whole select list, or around the whole query.",
        )
    if isinstance(node, exp.Window):
        return _never("OVER", source, span, _NO_OVER)
    name = _NODES.get(type(node))
    if name is None:
        return LanguageError(
            f'"{quoted(source, span)}" is not understood', source=source, span=span
        )
    hint = _HINTS.get(type(node), SELECTIONS_ONLY)
    if isinstance(node, exp.SetOperation):
        span = keyword(name, source, node.args["expression"])
    return _not_yet(name, source, span, hint)


def aggregate_refused(node: exp.Anonymous, source: str) -> LanguageError:
    """Return the refusal of an aggregate function."""
    return _not_yet(f"the aggregate {node.name.lower()}", source, span_of(node), SELECTIONS_ONLY)


def window_refused(window: CqlWindow, source: str) -> LanguageError:
    """Return the refusal of a window that keeps rows for a while."""
    kind = window.args["kind"]
    word = "PARTITION BY" if kind == "PARTITION" else kind
    return _not_yet(f"the window [{word} ...]", source, span_of(window), SELECTIONS_ONLY)


def refused(name: str, source: str, span: Span, *, hint: str = SELECTIONS_ONLY) -> LanguageError:
    """Return the refusal of something that has a name."""
    return _not_yet(name, source, span, hint)


def keyword(word: str, source: str, node: exp.Expr) -> Span:
    """Return where the keyword stands that a node was written after, else the node's place."""
    span = span_of(node)
    pattern = re.compile(r"\b" + r"\s+".join(word.split()) + r"\b", re.IGNORECASE)
    places = [each.span() for each in pattern.finditer(source, 0, span.stop)]
    near = [place for place in places if place[0] <= span.first] or places
    return Span(*near[-1]) if near else span


def _clause(node: exp.Expr, key: str, value: object, source: str) -> LanguageError:
    first = value[0] if isinstance(value, list) else value
    where = first if isinstance(first, exp.Expr) else node
    if key in _NEVER:
        hint = (_NO_OVER,) if key in ("qualify", "windows") else ()
        return _never(_NEVER[key], source, keyword(_NEVER[key], source, where), *hint)
    if key == "joins" and not re.search("join", source[: span_of(where).stop], re.IGNORECASE):
        return _not_yet("a join", source, span_of(where), SELECTIONS_ONLY)
    if key in _CLAUSES:
        return _not_yet(
            _CLAUSES[key], source, keyword(_CLAUSES[key], source, where), SELECTIONS_ONLY
        )
    span = span_of(where)
    return LanguageError(
        f'"{quoted(source, span)}" is not understood here', source=source, span=span
    )


def _never(
    name: str, source: str, span: Span, hint: str = "Sort or cut where the answers are read."
) -> LanguageError:
    return LanguageError(
        f"{name} is not part of CQL",
        source=source,
        span=span,
        code="CQL050",
        detail=_NO_ORDER,
        hint=hint,
    )


def _not_yet(name: str, source: str, span: Span, hint: str) -> LanguageError:
    message = f"{name} is not executed yet"
    return LanguageError(message, source=source, span=span, code=NOT_YET, hint=hint)
