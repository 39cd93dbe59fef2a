"""A query as it was written: sqlglot's tree together with the text that it came from."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token

from millrace.lang import lexical
from millrace.lang.dialect import CQL
from millrace.lang.errors import LanguageError, Span
from millrace.lang.parser import CqlParser, SyntaxFault
from millrace.lang.printer import to_text
from millrace.lang.trees import XStream

FRAMES = 30_000
"""Python calls that a text with the deepest brackets needs, and some more."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree, and the text its positions count in; two are equal if their trees are."""

    tree: exp.Expr
    source: str = field(compare=False, repr=False)

    def __str__(self) -> str:
        with deep():
            return to_text(self.tree)


def parse_query(tokens: list[Token], source: str) -> Parsed:
    """Parse tokens as one query."""
    parsed = _parse(tokens, source, "query")
    if not isinstance(parsed.tree, exp.Query | XStream):
        raise LanguageError(
            "a query was expected here", source=source, span=_whole(tokens, source)
        )
    return parsed


def parse_condition(tokens: list[Token], source: str) -> Parsed:
    """Parse tokens as one condition."""
    return _parse(tokens, source, "condition")


def query_of(text: str) -> Parsed:
    """Parse a text that holds one query and nothing else."""
    spans = list(lexical.statements(text))
    if not spans:
        raise LanguageError("there is no query", source=text, span=Span(0, 0))
    if len(spans) > 1:
        raise LanguageError(
            "there is more than one query", source=text, span=Span(spans[1].first, spans[1].first)
        )
    return parse_query(lexical.tokenize(text, spans[0]), text)


def _parse(tokens: list[Token], source: str, what: str) -> Parsed:
    parser = CqlParser(dialect=CQL)
    try:
        with deep():
            if what == "query":
                trees = parser.parse(list(tokens), source)
            else:
                trees = [parser.condition(list(tokens), source)]
    except SyntaxFault as fault:
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
        raise LanguageError(f"a {what} was expected here", source=source, span=_whole(tokens, source))
    return Parsed(trees[0], source)


def _in_our_words(fault: SyntaxFault, source: str, what: str) -> tuple[str, str]:
    found = source[fault.span.first : fault.span.stop][:40]
    message = fault.message
    if message.startswith(("Expecting ", "Expected ")):
        wanted = message.split(" ", 1)[1].rstrip(".")
        return (f'"{wanted}" was expected here', "") if len(wanted) < 3 else (
            f"{what} is not understood here", f"sqlglot expected {wanted}."
        )  # fmt: skip
    if message[:1].islower() or message.startswith(("CASE", '"')):
        hints = {"CQL012": "Write stream [window] AS alias."}
        return message, hints.get(fault.code, "")
    if not found:
        return f"{what} ends too early", ""
    return f'"{found}" was not expected here', ""


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
