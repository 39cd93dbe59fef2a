"""What lifting means, by sqlglot's tokenizer: which literals a text has, and when two are equal."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from millrace.lang.dialect import CQL
from millrace.lang.errors import LanguageError
from millrace.lang.lexical import statements
from millrace.lang.lift import MARK, Lifted

_QUOTED = (TokenType.STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER)
_LITERALS = (TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING)
_SIGNS = set("(),=<>+-*/%|[]:;")


def tokens(text: str) -> list[tuple[TokenType, str]]:
    """Return what a text is made of, without space and comments; .5 is the number 0.5."""
    found = []
    for token in _with_fractions(CQL().tokenize(text)):
        word = token.text.upper() if token.token_type not in _QUOTED else token.text
        found.append((token.token_type, word))
    return found


def well_formed(text: str) -> bool:
    """Say whether every quote and every comment of a text is closed, so that it has tokens."""
    try:
        list(statements(text))
        CQL().tokenize(text)
    except LanguageError as refused:
        return not refused.message.startswith(("text", "quoted", "comment"))
    except SqlglotError:
        return False
    return True


def flat(lifted: Lifted) -> list[str]:
    """Return lifted literals one by one, sets taken apart, without signs."""
    found: list[str] = []
    for each in lifted.literals:
        members = each if isinstance(each, tuple) else (each,)
        signed = isinstance(each, tuple) and "\0S" not in lifted.skeleton
        found += [member.removeprefix("-") if signed else member for member in members]
    return found


def literals(text: str, *, alone: bool = False) -> list[str]:
    """Return the literals of a text as they are written, without quotes.

    With `alone`, only those that no word, number or quote touches.
    """
    found = _with_fractions(CQL().tokenize(text))
    free = [True] * len(found)
    for at, (left, right) in enumerate(pairwise(found)):
        if left.end + 1 == right.start and not (_is_sign(left) or _is_sign(right)):
            free[at] = free[at + 1] = False
    return [
        each.text
        for each, stands_alone in zip(found, free, strict=True)
        if text[each.start : each.start + 2].lower() != "0x"  # which is refused later
        and each.token_type in _LITERALS and (stands_alone or not alone)
    ]


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
