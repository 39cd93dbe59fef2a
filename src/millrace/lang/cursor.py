"""A place in a list of tokens: the small parser's tool for the statements of our own.

sqlglot parses queries; what stands around them (CREATE STREAM, windows, durations) is read
here, word by word. Every fault knows its position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

from sqlglot.tokens import Token, TokenType

from millrace.errors import PlanError
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.time import print_duration, to_micros

Item = TypeVar("Item")
Mark: TypeAlias = tuple[str | int, ...]
"""A part of a statement, such as ("query", "big"), ("option", "path") or ("value", row, column)."""

_RESERVED = """
    ALL AND AS BETWEEN BY CASE CAST CREATE CROSS DELETE DISTINCT DROP DSTREAM ELSE END EVERY
    EXCEPT EXISTS FALSE FOR FROM FULL GROUP HAVING IN INNER INSERT INTERSECT INTO IS ISTREAM
    JOIN LEFT LIKE LIMIT NATURAL NOT NULL ON OR ORDER OUTER RIGHT RSTREAM SELECT SET THEN TO
    TRUE UNION UPDATE USING VALUES WHEN WHERE WINDOW WITH
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that stand for a name only in double quotes."""

_AFTER_DURATION = {"SLIDE", "DELAY", "RETAIN", "IDLE", "KEY", "JSON", "TIMESTAMP", "PARTITION BY"}
CONSTANT = (
    "One plan runs all queries of a template, and this is part of the plan. Write a constant, and "
    "a template for each that is needed."
)
"""The hint where a parameter cannot stand."""
_NO_WORDS = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.HEX_STRING}


class Cursor:
    """Tokens, and which of them is next."""

    def __init__(self, tokens: list[Token], source: str, *, index: int = 0) -> None:
        self.tokens, self.source, self.index = tokens, source, index
        self.marks: dict[Mark, Span] | None = None

    def mark(self, *part: str | int, span: Span) -> None:
        """Note where a part of the statement stands, if somebody wants to know."""
        if self.marks is not None:
            self.marks.setdefault(part, span)

    @property
    def token(self) -> Token | None:
        """The next token, or None at the end."""
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def last(self) -> Token:
        """The token that was read last."""
        return self.tokens[max(self.index - 1, 0)]

    @property
    def span(self) -> Span:
        """Where the next token is; at the end, just behind the last one."""
        token = self.token
        if token is not None:
            return Span(token.start, token.end + 1)
        end = self.tokens[-1].end + 1 if self.tokens else len(self.source)
        return Span(end, end)

    def word(self) -> str:
        """Return the next token in capitals if it is a word or a sign, else nothing."""
        token = self.token
        return "" if token is None or token.token_type in _NO_WORDS else token.text.upper()

    def accept(self, *words: str) -> bool:
        """Read these words if they all come next."""
        start = self.index
        for word in words:
            if self.word() != word:
                self.index = start
                return False
            self.index += 1
        return True

    def expect(self, *words: str) -> None:
        """Read these words, which must come next."""
        for word in words:
            if not self.accept(word):
                self.fail(f"{_in_quotes(word)} was expected here")

    def name(self, what: str, *, reserved: bool = False) -> str:
        """Read a name, quoted or not; with `reserved` it may be any word."""
        token = self.token
        in_quotes = token is not None and token.token_type == TokenType.IDENTIFIER
        if token is None or not (in_quotes or self._plain_name(reserved=reserved)):
            hint = ""
            if self.word() in RESERVED:
                hint = f'Write it in double quotes: "{self.word().lower()}".'
            article = "an" if what[0] in "aeiou" else "a"
            self.fail(f"the name of {article} {what} was expected here", hint=hint)
        found = token.text if in_quotes else self.source[token.start : token.end + 1]
        self.mark(what, found, span=self.span)
        self.index += 1
        return found

    def names(self, what: str) -> tuple[str, ...]:
        """Read names in round brackets, separated by commas."""
        return self.wrapped(lambda: self.name(what))

    def wrapped(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """Read items in round brackets, separated by commas; at least one."""
        self.expect("(")
        found = self.listed(item)
        self.expect(")")
        return found

    def listed(self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """Read items separated by commas; at least one."""
        found = [item()]
        while self.accept(","):
            found.append(item())
        return tuple(found)

    def text(self, what: str) -> str:
        """Read a text in single quotes."""
        token = self.token
        if token is None or token.token_type != TokenType.STRING:
            self.fail(f"{what} was expected here, in single quotes")
        self.index += 1
        return token.text

    def integer(self, what: str) -> int:
        """Read a whole number of at least 1; digits may be grouped as in 10,000."""
        first = self.index
        digits = self._digits()
        while digits and self.word() == "," and self._group_follows():
            self.index += 1
            digits += self._digits()
        if not digits.isdecimal() or int(digits) < 1:
            span = self._span_since(first) if digits else self.span
            self.fail(f"{what} must be a whole number of at least 1", code="CQL014", span=span)
        return int(digits)

    def unit(self) -> int:
        """Read a unit of time, in microseconds; without one, a microsecond."""
        first = self.index
        unit = self._unit()
        return self._micros(f"1 {unit}", first) if unit else 1

    def duration(self, what: str, *, ticks: bool = False) -> int:
        """Read a duration in microseconds: `10 minutes`, `1 h 30 min`, `INTERVAL '2 seconds'`.

        A unit may also stand behind the text: `INTERVAL '2' SECOND`. With `ticks` a number without
        a unit counts microseconds.
        """
        first = self.index
        self.accept("INTERVAL")
        token = self.token
        if token is not None and token.token_type == TokenType.STRING:
            self.index += 1
            text = token.text
            return self._micros(f"{text} {self._unit()}" if _is_number(text) else text, first)
        terms = []
        while (number := self._digits()) and (unit := self._unit()):
            terms.append(f"{number} {unit}")
        if number and not terms and ticks and number.isdecimal():
            return int(number)
        if not terms or number:
            if self.word() == ":":
                self.fail(f"{what} takes no parameter here", hint=CONSTANT, code="CQL013")
            example = f'Write a number and a unit, such as "{print_duration(10_000_000)}".'
            span = self._span_since(first) if self.index > first else self.span
            self.fail(f"{what} must be a duration", span=span, hint=example, code="CQL013")
        return self._micros(" ".join(terms), first)

    def fail(
        self, message: str, *, span: Span | None = None, hint: str = "", code: str = "CQL070"
    ) -> NoReturn:
        """Refuse what comes next."""
        raise LanguageError(
            message, source=self.source, span=span or self.span, hint=hint, code=code
        )

    def finish(self) -> None:
        """Require that nothing is left."""
        if self.token is not None:
            self.fail(f"{_in_quotes(quoted(self.source, self.span))} was not expected here")

    def _plain_name(self, *, reserved: bool = False) -> bool:
        word = self.word()
        free = reserved or word not in RESERVED
        return bool(word) and free and all(map(_in_name, word))

    def _digits(self) -> str:
        token = self.token
        if token is None or token.token_type != TokenType.NUMBER:
            return ""
        self.index += 1
        return token.text

    def _group_follows(self) -> bool:
        comma, *rest = self.tokens[self.index : self.index + 2]
        touching = self.last.end + 1 == comma.start
        return touching and any(
            each.token_type == TokenType.NUMBER
            and len(each.text) == 3
            and comma.end + 1 == each.start
            for each in rest
        )

    def _unit(self) -> str:
        token = self.token
        if token is None or not self._plain_name() or self.word() in _AFTER_DURATION:
            return ""
        self.index += 1
        return token.text

    def _micros(self, text: str, first: int) -> int:
        try:
            return to_micros(text)
        except PlanError as cause:
            raise LanguageError(
                cause.message,
                source=self.source,
                span=self._span_since(first),
                code="CQL013",
                detail=cause.detail,
                hint=cause.hint,
            ) from cause

    def _span_since(self, first: int) -> Span:
        return Span(self.tokens[first].start, self.last.end + 1)


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdecimal()


def _in_quotes(word: str) -> str:
    return f'"{word}"'


def _in_name(character: str) -> bool:
    return character in "_$" or character.isalnum()
