"""Folding: compute something of an expression from its leaves up, at any depth.

What a tool or a program writes may nest thousands of levels deep, and Python's stack does not.
Everything that reads a whole expression (its type, its text, its value) is therefore given as a
function of one node and of the results for its operands; `fold` keeps the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
    children,
)

Result = TypeVar("Result")


def fold(node: Expression, combine: Callable[[Expression, list[Result]], Result]) -> Result:
    """Return `combine(node, results of its operands)`, computed for the operands first."""
    waiting: list[tuple[Expression, int]] = [(node, -1)]
    results: list[Result] = []
    while waiting:
        each, n_operands = waiting.pop()
        if n_operands < 0:
            operands = children(each)
            if operands:
                waiting.append((each, len(operands)))
                waiting.extend((operand, -1) for operand in reversed(operands))
                continue
            n_operands = 0
        first = len(results) - n_operands
        given = results[first:]
        del results[first:]
        results.append(combine(each, given))
    return results[0]


def depth(node: Expression) -> int:
    """Return on how many levels the nodes of an expression stand; 1 for a leaf."""
    return fold(node, lambda _, depths: 1 + max(depths, default=0))


def rebuilt(node: Expression, operands: Sequence[Expression]) -> Expression:
    """Return the node with other operands, itself if they are the ones it has."""
    if all(new is old for new, old in zip(operands, children(node), strict=True)):
        return node
    match node:
        case Column() | Literal() | Parameter():
            return node
        case Compare() | Arithmetic() | Both() | Either():
            return replace(node, left=operands[0], right=operands[1])
        case Negative() | Not() | IsNull() | Cast():
            return replace(node, operand=operands[0])
        case In():
            return In(operands[0], tuple(operands[1:]))
        case Like() | Matches():
            return replace(node, operand=operands[0], pattern=operands[1])
        case Case():
            return Case(tuple(zip(operands[:-1:2], operands[1:-1:2], strict=True)), operands[-1])
        case Call(function, _):
            return Call(function, tuple(operands))
        case _:
            assert_never(node)


def balanced(node: Expression, *, deepest: int = 100) -> Expression:
    """Return the expression with long chains of AND and of OR as trees of little depth.

    Both are associative, also in three-valued logic. Chains of up to `deepest` stay as they are
    written, so that what most people write is printed back in the same form.
    """
    if depth(node) <= deepest:
        return node
    return _balanced_chain(fold(node, _balanced_below))


def _balanced_below(node: Expression, operands: list[Expression]) -> Expression:
    """Balance the chains that end at this node's operands and do not go on through it."""
    kind = type(node) if isinstance(node, Both | Either) else None
    return rebuilt(
        node, [each if type(each) is kind else _balanced_chain(each) for each in operands]
    )


def _balanced_chain(node: Expression, *, deepest: int = 8) -> Expression:
    if not isinstance(node, Both | Either):
        return node
    links = chain(node)
    return node if len(links) <= deepest else _tree(type(node), links)


def chain(node: Expression) -> list[Expression]:
    """Return what a chain of AND, or of OR, connects, in the order in which it is written."""
    kind, waiting, links = type(node), [node], list[Expression]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, Both | Either) and type(each) is kind:
            waiting += (each.right, each.left)
        else:
            links.append(each)
    return links


def _tree(kind: type[Both | Either], links: list[Expression]) -> Expression:
    if len(links) == 1:
        return links[0]
    middle = len(links) // 2
    return kind(_tree(kind, links[:middle]), _tree(kind, links[middle:]))
