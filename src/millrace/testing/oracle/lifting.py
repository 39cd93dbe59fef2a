"""What lifting means, by sqlglot's tokenizer: which literals a text has, and when two are equal."""

from __future__ import annotations

import re

from sqlglot.tokens import Token, TokenType

from millrace.lang.errors import LanguageError, Span
from millrace.lang.lexical import statements, tokenize
from millrace.lang.lift import MARK, Lifted

_QUOTED = (TokenType.STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER)
_LITERALS = (TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING)
_SIGNS = set("(),=<>+-*/%|[]:;")


def tokens(text: str) -> list[tuple[TokenType, str]]:
    """Return what a text is made of, without space and comments; .5 is the number 0.5."""
    found = []
    for token in _with_fractions(tokenize(text, Span(0, len(text)))):
        word = token.text.upper() if token.token_type not in _QUOTED else token.text
        found.append((token.token_type, word))
    return found


def well_formed(text: str) -> bool:
    """Say whether every quote and every comment of a text is closed, so that it has tokens."""
    try:
        list(statements(re.sub(r"[\[\](){}]", " ", text)))
        tokenize(text, Span(0, len(text)))
    except LanguageError:
        return False
    return True


def flat(lifted: Lifted) -> list[str]:
    """Return lifted literals one by one, sets taken apart, without signs."""
    found: list[str] = []
    kinds = (piece[0] for piece in lifted.skeleton.split(MARK)[1:])
    for each, kind in zip(lifted.literals, kinds, strict=True):
        members = each if isinstance(each, tuple) else (each,)
        found += [member.removeprefix("-") if kind in "IDF" else member for member in members]
    return found


def literals(text: str, *, alone: bool = False) -> list[str]:
    """Return the literals of a text as they are written, without quotes.

    With `alone`, only those that nothing but space and operators touches.
    """
    return [
        each.text
        for each in _with_fractions(tokenize(text, Span(0, len(text))))
        if each.token_type in _LITERALS and (not alone or _stands_alone(text, each))
    ]


def _stands_alone(text: str, token: Token) -> bool:
    before, after = text[: token.start], text[token.end + 1 :]
    written = text[token.start : token.end + 1]
    return (
        re.search(r"(^|[\s(,=<>+\-*/%|\[])$", before) is not None
        and re.search(r"[0-9.][eE][+-]$", before) is None
        and re.match(r"$|[\s),=<>+\-*/%|\]:;]", after) is not None
        and re.fullmatch(r"(x?'.*'|[0-9.]+(e[+-]?[0-9]+)?)", written, re.I | re.S) is not None
    )


def within(some: list[str], more: list[str]) -> bool:
    """Say whether a list is another one with members left out."""
    rest = iter(more)
    return all(each in rest for each in some)


def substituted(lifted: Lifted) -> str:
    """Return a text that has a skeleton and literals; quoted names are not put back."""
    skeleton, *rest = lifted.skeleton.split(MARK)
    pieces = [skeleton]
    for piece, literal in zip(rest, lifted.literals, strict=True):
        members = literal if isinstance(literal, tuple) else (literal,)
        pieces.append(", ".join(_spelt(piece[0], each) for each in members))
        pieces.append(piece[1:])
    return "".join(pieces)


def _spelt(kind: str, literal: str) -> str:
    doubled = literal.replace("'", "''")
    return {"s": f"'{doubled}'", "x": f"X'{literal}'"}.get(kind.lower(), literal)


def _is_sign(token: Token) -> bool:
    return token.token_type not in _QUOTED and token.text[0] in _SIGNS


def _with_fractions(found: list[Token]) -> list[Token]:
    """Join a point and the number behind it, unless something touches the point on its left."""
    joined: list[Token] = []
    for token in found:
        last = joined[-1] if joined else None
        before = joined[-2] if len(joined) > 1 else None
        point = last is not None and last.token_type == TokenType.DOT and last.text == "."
        touched = before is not None and last is not None and before.end + 1 == last.start
        loose = not touched or (before is not None and _is_sign(before) and before.text not in ")]")
        if (
            last is not None
            and point
            and loose
            and token.token_type == TokenType.NUMBER
            and last.end + 1 == token.start
            and "." not in token.text
        ):
            joined[-1] = Token(TokenType.NUMBER, f".{token.text}", start=last.start, end=token.end)
        else:
            joined.append(token)
    return joined
