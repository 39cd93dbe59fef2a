"""The grammar's extent: which nodes of sqlglot's tree are part of the language.

sqlglot reads the SQL of twenty systems, and understands much that no statement of ours means
(LATERAL, PIVOT, arrows into JSON). What is not listed here is refused when it is parsed. What is
listed can be printed and read again; whether it is executed is for the binder to say.
"""

from __future__ import annotations

from sqlglot import exp

from millrace.lang.elsewhere import NODES
from millrace.lang.errors import LanguageError, quoted
from millrace.lang.refusals import keyword
from millrace.lang.trees import CqlWindow, XStream, span_of

_QUERIES = (
    exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.With, exp.CTE, XStream,
    exp.From, exp.Join, exp.Table, exp.TableAlias, CqlWindow, exp.Where, exp.Group, exp.Having,
    exp.Distinct, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Window, exp.WindowSpec,
    exp.TableSample, exp.Filter, exp.WithinGroup, exp.Qualify,
)  # fmt: skip
_NAMES = (
    exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.Var, exp.Dot, exp.Placeholder,
    exp.DataType, exp.DataTypeParam,
)  # fmt: skip
_VALUES = (
    exp.Literal, exp.HexString, exp.Boolean, exp.Null, exp.Interval, exp.Tuple, exp.Paren,
    exp.Anonymous, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.Bracket, exp.Neg,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.DPipe,
    exp.Pow, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot, exp.BitwiseLeftShift,
    exp.BitwiseRightShift,
)  # fmt: skip
_CONDITIONS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Like, exp.ILike, exp.Escape,
    exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.Exists, exp.Any, exp.All,
)  # fmt: skip
_KNOWN: frozenset[type[exp.Expr]] = frozenset((*_QUERIES, *_NAMES, *_VALUES, *_CONDITIONS))


def check_grammar(tree: exp.Expr, source: str) -> None:
    """Refuse a tree that holds something the language does not have."""
    for node in tree.walk():
        if isinstance(node, exp.Select):
            _check_select(node, source)
        if isinstance(node, exp.Star) and any(node.args.values()):
            message, hint = "* stands for all columns", "Name those that are meant."
            raise LanguageError(
                message, source=source, span=span_of(node), code="CQL050", hint=hint
            )
        if type(node) in NODES:
            raise _said_otherwise(node, source)
        if type(node) not in _KNOWN:
            span = span_of(node)
            raise LanguageError(
                f'"{quoted(source, span)}" is not understood', source=source, span=span
            )


def _said_otherwise(node: exp.Expr, source: str) -> LanguageError:
    name, hint = NODES[type(node)]
    span = keyword(name.split(" ...")[0], source, node)
    return LanguageError(
        f"{name} is not part of CQL", source=source, span=span, code="CQL050", hint=hint
    )


def _check_select(node: exp.Select, source: str) -> None:
    if not node.expressions:
        raise LanguageError(
            "query selects nothing", source=source, span=span_of(node), hint="Write *."
        )
    if node.args.get("joins") and not node.args.get("from_"):
        join = node.args["joins"][0]
        raise LanguageError(
            "JOIN needs a FROM before it", source=source, span=span_of(join), hint="Write FROM."
        )
