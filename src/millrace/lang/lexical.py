"""What a text is made of, before any grammar: statements, tokens, and what may not be in it.

sqlglot's tokenizer is generous: a comment that never ends is a comment, `10s` is a number and
an alias. This module looks first, with one regular expression that finds quotes, comments and
brackets, and refuses with a position what would otherwise be understood as something else.

Cost: linear in the text. 1 MB of text takes about 0.1 s before sqlglot sees it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from millrace.lang.dialect import CQL
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.lift import without_comments

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
_EXPONENT = re.compile(r"""'[^']*'|"[^"]*"|(?P<number>[0-9.][eE][0-9.]+)(?=[+-])""")
_COMMENT_MARK = re.compile(r"/\*|\*/")


def statements(script: str) -> Iterator[Span]:
    """Yield where each statement of a script is, without its semicolon and the space around it.

    Pieces that hold nothing but space and comments are no statements.
    """
    if len(script) > LONGEST_SCRIPT:
        raise LanguageError(
            "script is too long",
            source=script[:LONGEST_STATEMENT],
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
    text, gaps = _with_gaps(without_comments(source[span.first : span.stop]))
    try:
        tokens = CQL().tokenize(text)
    except SqlglotError as cause:
        raise LanguageError(
            "text is not understood", source=source, span=Span(span.first, span.first)
        ) from cause
    for token in tokens:
        token.start += span.first - bisect_left(gaps, token.start)
        token.end += span.first - bisect_left(gaps, token.end)
    return tokens


def _with_gaps(text: str) -> tuple[str, list[int]]:
    """Put a blank behind an exponent that a sign follows, and say where these blanks are.

    sqlglot reads 1e5-2 as one number.
    """
    pieces, gaps, copied = [], list[int](), 0
    for found in _EXPONENT.finditer(text):
        if found["number"]:
            pieces.append(text[copied : found.end()])
            gaps.append(found.end() + len(gaps))
            copied = found.end()
    return " ".join([*pieces, text[copied:]]), gaps


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
        elif kind == "semicolon":
            _require_closed(script, opened)
            yield at
        elif kind in ("open", "close"):
            _count_bracket(script, at, opened)
        elif kind is not None:
            raise _unclosed_quote(script, match) if kind == "quote" else _odd(script, match)
    _require_closed(script, opened)


def _count_bracket(script: str, at: int, opened: list[int]) -> None:
    bracket = script[at]
    if bracket not in _OPEN:
        opened.append(at)
        if len(opened) > DEEPEST_BRACKETS:
            hint = f"At most {DEEPEST_BRACKETS} brackets may be open at once."
            raise _fault("statement is nested too deeply", script, at, hint)
    elif not opened or script[opened[-1]] != _OPEN[bracket]:
        raise _fault(f'"{bracket}" closes nothing', script, at, "Remove it.")
    else:
        opened.pop()


def _unclosed_quote(script: str, found: re.Match[str]) -> LanguageError:
    what = "text" if found[0] == "'" else "quoted name"
    return _fault(f"{what} is never closed", script, found.start(), f"Close it with {found[0]}.")


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


def check_neighbours(source: str, tokens: list[Token]) -> None:
    """Refuse a number or a quote that touches a word: `10s` would be 10 with the alias s.

    Durations are meant so, in windows and behind EVERY.
    """
    for token in tokens:
        if token.token_type == TokenType.HEX_STRING and source[token.start] == "0":
            raise _fault(
                "hexadecimal numbers are not known",
                source,
                token.start,
                "Bytes are written X'00FF'.",
                width=token.end + 1 - token.start,
            )
    depth = 0
    for at, (left, right) in enumerate(pairwise(tokens)):
        depth += {TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}.get(left.token_type, 0)
        if left.end + 1 != right.start:
            continue
        timed = depth or (at and tokens[at - 1].text.upper() == "EVERY")
        unit = left.token_type == TokenType.NUMBER and _is_word(source, right) and not timed
        prefix = right.token_type == TokenType.STRING and _is_word(source, left)
        if unit or prefix:
            span = Span(left.start, right.end + 1)
            raise LanguageError(
                f'"{quoted(source, span)}" is not understood',
                source=source,
                span=span,
                hint="Put a space where one thing ends and the next begins.",
            )


def _is_word(source: str, token: Token) -> bool:
    return source[token.start].isidentifier()


def _fault(message: str, source: str, at: int, hint: str, *, width: int = 1) -> LanguageError:
    return LanguageError(message, source=source, span=Span(at, at + width), hint=hint)
