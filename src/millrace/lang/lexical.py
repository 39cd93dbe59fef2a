"""What a text is made of, before any grammar: statements, tokens, and what may not be in it.

sqlglot's tokenizer is generous: a comment that never ends is a comment, `10s` is a number and
an alias. This module looks first, with one regular expression that finds quotes, comments and
brackets, and refuses with a position what would otherwise be understood as something else.

Cost: linear in the text. 1 MB of text takes about 0.1 s before sqlglot sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from millrace.lang.dialect import CQL
from millrace.lang.errors import LanguageError, Span

LONGEST_SCRIPT = 10_000_000
LONGEST_STATEMENT = 1_000_000
DEEPEST_BRACKETS = 500

_OPEN = {")": "(", "]": "[", "}": "{"}
_PARTS = re.compile(
    r"""
    '[^']*(?:''[^']*)*' | "[^"]*(?:""[^"]*)*" | --[^\r\n]*
    | (?P<comment>/\*) | (?P<quote>['"]) | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | (?P<semicolon>;) | (?P<odd>\ufeff)
    """,
    re.VERBOSE,
)
_NEVER = re.compile("[\0-\x08\x0e-\x1b\ud800-\udfff]")  # control characters, half surrogates
_COMMENT_MARK = re.compile(r"/\*|\*/")


def statements(script: str) -> Iterator[Span]:
    """Yield where each statement of a script is, without its semicolon and the space around it.

    Pieces that hold nothing but space and comments are no statements.
    """
    if len(script) > LONGEST_SCRIPT:
        raise LanguageError(
            "script is too long",
            source=script[: LONGEST_STATEMENT],
            span=Span(0, 0),
            detail=f"It has {len(script):,} characters; the most is {LONGEST_SCRIPT:,}.",
            hint="Cut it into several scripts.",
        )
    first = 0
    for stop in [*_semicolons(script), len(script)]:
        piece = script[first:stop]
        span = Span(first + len(piece) - len(piece.lstrip()), first + len(piece.rstrip()))
        if span.first < span.stop:
            if span.stop - span.first > LONGEST_STATEMENT:
                raise LanguageError(
                    "statement is too long",
                    source=script,
                    span=Span(span.first, span.first),
                    detail=f"It has {span.stop - span.first:,} characters; the most is "
                    f"{LONGEST_STATEMENT:,}.",
                )
            yield span
        first = stop + 1


def tokenize(source: str, span: Span) -> list[Token]:
    """Return the tokens of a part of a text; their positions are those in the whole text."""
    try:
        tokens = CQL().tokenize(source[span.first : span.stop])
    except SqlglotError as cause:
        raise LanguageError(
            "text is not understood", source=source, span=Span(span.first, span.first)
        ) from cause
    for token in tokens:
        token.start += span.first
        token.end += span.first
        token.comments = []
    _check_neighbours(source, tokens)
    return tokens


def _semicolons(script: str) -> Iterator[int]:
    """Yield the position of every semicolon that ends a statement; check what is on the way."""
    if odd := _NEVER.search(script):
        raise _odd(script, odd)
    opened: list[int] = []
    position = 0
    while match := _PARTS.search(script, position):
        kind, at, position = match.lastgroup, match.start(), match.end()
        if kind == "comment":
            position = _comment_end(script, at)
        elif kind == "quote":
            what = "text" if match[0] == "'" else "quoted name"
            raise _fault(f"{what} is never closed", script, at, f"Close it with {match[0]}.")
        elif kind == "odd":
            raise _odd(script, match)
        elif kind == "open":
            opened.append(at)
            if len(opened) > DEEPEST_BRACKETS:
                hint = f"At most {DEEPEST_BRACKETS} brackets may be open at once."
                raise _fault("statement is nested too deeply", script, at, hint)
        elif kind == "close":
            if not opened or script[opened[-1]] != _OPEN[match[0]]:
                raise _fault(f'"{match[0]}" closes nothing', script, at, "Remove it.")
            opened.pop()
        elif kind == "semicolon":
            _require_closed(script, opened)
            yield at
    _require_closed(script, opened)


def _odd(script: str, found: re.Match[str]) -> LanguageError:
    what = f"character U+{ord(found[0]):04X} is not allowed"
    return _fault(what, script, found.start(), "Remove it.")


def _require_closed(script: str, opened: list[int]) -> None:
    if opened:
        raise _fault(f'"{script[opened[-1]]}" is never closed', script, opened[-1], "")


def _comment_end(script: str, first: int) -> int:
    depth, position = 1, first + 2
    while mark := _COMMENT_MARK.search(script, position):
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
        if depth == 0:
            return position
    raise _fault("comment is never closed", script, first, "Close it with */.", width=2)


def _check_neighbours(source: str, tokens: list[Token]) -> None:
    """Refuse a number or a quote that touches a word, outside brackets: `10s`, `e'x'`."""
    depth = 0
    for left, right in zip(tokens, tokens[1:], strict=False):
        depth += {TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}.get(left.token_type, 0)
        if left.end + 1 != right.start:
            continue
        unit = left.token_type == TokenType.NUMBER and _is_word(source, right) and not depth
        prefix = right.token_type == TokenType.STRING and _is_word(source, left)
        if not (unit or prefix):
            continue
        span = Span(left.start, right.end + 1)
        raise LanguageError(
            f'"{source[span.first:span.stop][:40]}" is not understood',
            source=source,
            span=span,
            hint="Put a space where one thing ends and the next begins.",
        )


def _is_word(source: str, token: Token) -> bool:
    return source[token.start].isidentifier()


def _fault(message: str, source: str, at: int, hint: str, *, width: int = 1) -> LanguageError:
    return LanguageError(message, source=source, span=Span(at, at + width), hint=hint)
