"""A query as it was written: sqlglot's tree together with the text that it came from."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from millrace.lang import lexical
from millrace.lang.dialect import CQL
from millrace.lang.elsewhere import hint_at
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.grammar import check_grammar
from millrace.lang.parser import ComplaintError, CqlParser
from millrace.lang.printer import to_text
from millrace.lang.trees import XStream, span_of
from millrace.plan.nearest import nearest

FIRST_WORDS = ("SELECT", "WITH", "ISTREAM", "DSTREAM", "RSTREAM", "(")
_SET_OPERATORS = ("UNION", "EXCEPT", "INTERSECT")
_SELECT_ALL = (
    (TokenType.SELECT, "SELECT"),
    (TokenType.STAR, "*"),
    (TokenType.FROM, "FROM"),
)
FRAMES = 30_000
"""Python calls that a text with the deepest brackets needs, and some more."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree, and the text its positions count in; two are equal if their trees are."""

    tree: exp.Expr
    source: str = field(compare=False, repr=False)

    def __str__(self) -> str:
        try:
            with deep():
                return to_text(self.tree)
        except RecursionError as cause:
            span = span_of(self.tree)
            raise LanguageError(
                "query is nested too deeply", source=self.source, span=span
            ) from cause


def parse_query(tokens: list[Token], source: str) -> Parsed:
    """Parse tokens as one query.

    `A UNION B`, with names in place of queries, means all of A and all of B.
    """
    first = tokens[0].text.upper() if tokens else ""
    if first not in FIRST_WORDS:
        if not names_only(tokens):
            raise LanguageError(
                "a query was expected here",
                source=source,
                span=_token_span(tokens[0]) if tokens else Span(len(source), len(source)),
                hint=nearest(first, FIRST_WORDS) or "A query begins with SELECT.",
            )
        tokens = _spelt_out(tokens)
    parsed = _parse(tokens, source, "query")
    if not isinstance(parsed.tree, exp.Query | XStream):
        raise LanguageError("a query was expected here", source=source, span=_whole(tokens, source))
    return parsed


def names_only(tokens: list[Token]) -> bool:
    """Say whether tokens are names with UNION, EXCEPT or INTERSECT between them."""
    names, operators = tokens[::2], tokens[1::2]
    return (
        len(names) == len(operators) + 1 > 1
        and all(each.text.upper() in _SET_OPERATORS for each in operators)
        and all(each.token_type in (TokenType.VAR, TokenType.IDENTIFIER) for each in names)
    )


def _spelt_out(tokens: list[Token]) -> list[Token]:
    """Write SELECT * FROM before every name, and ALL behind every operator."""
    spelt = []
    for at, token in enumerate(tokens):
        words = () if at % 2 else _SELECT_ALL
        spelt += [_like(token, kind, text) for kind, text in words]
        spelt.append(token)
        spelt += [_like(token, TokenType.ALL, "ALL")] if at % 2 else []
    return spelt


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _token_span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def parse_condition(tokens: list[Token], source: str) -> Parsed:
    """Parse tokens as one condition."""
    return _parse(tokens, source, "condition")


def parse_value(tokens: list[Token], source: str) -> Parsed:
    """Parse tokens as one expression."""
    return _parse(tokens, source, "value")


def query_of(text: str) -> Parsed:
    """Parse a text that holds one query and nothing else."""
    return parse_query(_tokens(text, "query"), text)


def condition_of(text: str) -> Parsed:
    """Parse a text that holds one condition and nothing else."""
    return parse_condition(_tokens(text, "condition"), text)


def _tokens(text: str, what: str) -> list[Token]:
    spans = list(lexical.statements(text))
    if not spans:
        raise LanguageError(f"there is no {what}", source=text, span=Span(0, 0))
    if len(spans) > 1:
        second = Span(spans[1].first, spans[1].first)
        raise LanguageError(f"there is more than one {what}", source=text, span=second)
    return lexical.tokenize(text, spans[0])


def _parse(tokens: list[Token], source: str, what: str) -> Parsed:
    lexical.check_neighbours(source, tokens)
    parser = CqlParser(dialect=CQL)
    try:
        with deep():
            if what == "query":
                trees = parser.parse(list(tokens), source)
            else:
                trees = [parser.condition(list(tokens), source)]
    except ComplaintError as fault:
        message, hint = _in_our_words(fault, source, what)
        raise LanguageError(
            message, source=source, span=fault.span, code=fault.code, hint=hint
        ) from fault
    except LanguageError:
        raise
    except RecursionError as cause:
        raise LanguageError(
            f"{what} is nested too deeply", source=source, span=_whole(tokens, source)
        ) from cause
    except (SqlglotError, Exception) as cause:  # whatever sqlglot makes of an odd text
        raise LanguageError(
            f"{what} is not understood", source=source, span=_whole(tokens, source)
        ) from cause
    if len(trees) != 1 or trees[0] is None:
        raise LanguageError(
            f"a {what} was expected here", source=source, span=_whole(tokens, source)
        )
    check_grammar(trees[0], source)
    return Parsed(trees[0], source)


def _in_our_words(fault: ComplaintError, source: str, what: str) -> tuple[str, str]:
    """Return a message and a hint for a complaint, which may be sqlglot's."""
    message, found = fault.message, quoted(source, fault.span)
    if fault.ours:
        return message, fault.hint
    if message.startswith(("Expecting ", "Expected ")):
        wanted = message.split(" ", 1)[1].rstrip(".")
        if len(wanted) < 3:
            return f'"{wanted}" was expected here', hint_at(source, fault.span)
    if not found:
        return f"{what} ends too early", ""
    return f'"{found}" was not expected here', hint_at(source, fault.span)


def _whole(tokens: list[Token], source: str) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1) if tokens else Span(len(source), len(source))


_depth_lock = threading.Lock()
_n_deep = 0
_usual_limit = 0


@contextmanager
def deep() -> Iterator[None]:
    """Allow as many nested calls as the deepest text needs; threads may overlap."""
    global _n_deep, _usual_limit  # noqa: PLW0603  the limit itself is one for all threads
    with _depth_lock:
        if _n_deep == 0:
            _usual_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(FRAMES, _usual_limit))
        _n_deep += 1
    try:
        yield
    finally:
        with _depth_lock:
            _n_deep -= 1
            if _n_deep == 0:
                sys.setrecursionlimit(_usual_limit)
