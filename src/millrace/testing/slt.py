"""Language tests: `.slt` files of statements, rows at instants, and the answers they must give.

    # a comment
    stream trades (symbol text, price double) delay 2 seconds
    query cheap: SELECT symbol FROM trades WHERE price < 20
    query dear into alerts: SELECT symbol
        FROM trades WHERE price > :limit
    error: parameter
    template above(low double): SELECT symbol, price FROM trades WHERE price > :low
    insert above (10), (20)
    table limits (symbol text, most double)
    put limits ACME 10 | BOLT 20
    view named: SELECT symbol, most FROM limits WHERE most > 5

    at 0  trades  ACME 12 | 'two words' NULL | BOLT 25 @-5
    ----  cheap   + ACME
    ----  above#1 + ACME 12 | ~ BOLT 25

    pause cheap
    delete above #2
    at 1  trades  CRUX 15
    ----

    query held: SELECT symbol FROM trades [RANGE 5 SECONDS]
    at 2  trades  ACME 12
    at 4  trades  BOLT 25
    end 20
    ----  held    2: + ACME | 4: BOLT | 7+: - ACME | 9+: BOLT

`put` and `take` say which rows of a table come and go: what a query has told stays as it was, and
from the first instant on about which it has told nothing it sees the change.

A statement goes on where the next line is indented. `error:` after a statement says that it is
refused, with a message that holds the text; one that begins with `CQL002 at 1:8` with that code,
and there. An instant is one or more `at` lines and what follows them: for each query `+` before a
row in time, `~` before a late one, `!` and a text if it failed; `----` alone means that nobody
answers, and so does the next instant. Order does not matter within an instant.

A query that is more than a selection answers when time has passed, so each of its answers says at
which instant, and these lines may stand behind any of them: `+` before a row that comes, `-` before
one that goes. The instant and the sign are those before if they are missing; `7+` is a microsecond
after 7, `7++` two. A selection may be written like this too. `end 20` lets time go on to 20 in all
streams, by a row of NULLs that is as late as the delay lets it be: whatever is before 20 is
complete then.

A stream has two columns more than it says: `at`, the time of the instant (`@` at the end of a row
gives it another one, `@NULL` none), and `nth`, which counts the rows of the file. The queries of a
template are `name#1`, `name#2` and so on, in the order in which they were inserted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias

TIME, PLACE = "at", "nth"
"""The columns that every stream of a language test has."""

_RULE = "----"
_WORDS = (
    "stream", "table", "view", "query", "template", "insert", "update", "delete", "put", "take",
    "pause", "resume", "drop",
)  # fmt: skip
_STREAM = re.compile(r"(?P<name>\w+)\s*\((?P<text>.*)\)\s*(?:delay\s+(?P<more>.+))?", re.DOTALL)
_QUERY = re.compile(r"(?P<name>\w+)(?:\s+into\s+(?P<more>\w+))?\s*:\s*(?P<text>.*)", re.DOTALL)
_TEMPLATE = re.compile(r"(?P<name>\w+)\s*\((?P<more>.*?)\)\s*:\s*(?P<text>.*)", re.DOTALL)
_CHANGE = re.compile(r"(?P<name>\w+)\s*(?P<text>.*)", re.DOTALL)
_AT = re.compile(r"at\s+(-?[\d.]+)(?:\s+(\w+)(?:\s+(.*))?)?", re.DOTALL)
_END = re.compile(r"end\s+(-?[\d.]+)")
_ANSWER = re.compile(r"(\w+(?:#\d+)?)\s*((?:[+~!]|-?[\d.]+\+*:).*)", re.DOTALL)
_SIGNED = re.compile(r"\s*(?:(-?[\d.]+\+*):)?\s*(?:([+~]|-(?=\s)))?\s*(.*)", re.DOTALL)
_TOKEN = re.compile(r"\s*([xe]?'(?:[^']|'')*'|[^\s|()']+)")

Tokens: TypeAlias = tuple[str, ...]


class SltError(Exception):
    """A file that is not written as it should be."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A change of what is declared or asked, and the message if it is to be refused.

    `more` is the delay of a stream, the feed of a query, the parameters of a template.
    """

    line: int
    word: str
    name: str
    text: str = ""
    more: str = ""
    error: str | None = None
    error_line: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it is written; `time` replaces that of its instant."""

    tokens: Tokens
    time: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What one query is to answer: signs and rows, or the text of a failure.

    A sign has the instant before it where the file says one: `7+: -`.
    """

    name: str
    rows: tuple[tuple[str, Tokens], ...] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Instant:
    """Rows that arrive together, and the answers; these stand in the lines `[first, stop)`.

    At one that `ends` time goes on in all streams.
    """

    line: int
    time: str
    rows: tuple[tuple[str, tuple[Row, ...]], ...]
    expected: tuple[Expected, ...]
    first: int
    stop: int
    ends: bool = False


Step: TypeAlias = Statement | Instant


@dataclass(slots=True)
class Script:
    """A file, read."""

    path: Path
    lines: list[str]
    steps: list[Step] = field(default_factory=list)

    def fail(self, line: int, message: str) -> NoReturn:
        """Raise, with the place."""
        shown = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        raise SltError(f"{self.path}:{line}: {message}\n    {shown}")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line and the indented lines that continue it; `[first, stop)` counts from 1."""

    first: int
    stop: int
    text: str


def read_script(path: Path) -> Script:
    """Read a file."""
    return parse(path.read_text(encoding="utf-8"), path)


def parse(text: str, path: Path = Path("text")) -> Script:
    """Read the text of a file."""
    script = Script(path, text.split("\n"))
    pieces = _pieces(script)
    at = 0
    while at < len(pieces):
        at = _step(script, pieces, at)
    return script


def tokens_of(text: str) -> Tokens | None:
    """Split a row into its values; None if a quote is not closed."""
    found, at = [], 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        found.append(token[1])
        at = token.end()
    return tuple(found)


def _pieces(script: Script) -> list[_Piece]:
    pieces: list[_Piece] = []
    for number, line in enumerate(script.lines, 1):
        plain = line.rstrip()
        if not plain.strip() or plain.lstrip().startswith("#"):
            continue
        if not plain[0].isspace():
            pieces.append(_Piece(number, number + 1, plain))
        elif pieces and pieces[-1].stop == number:
            pieces[-1] = _Piece(pieces[-1].first, number + 1, f"{pieces[-1].text}\n{plain}")
        else:
            script.fail(number, "the line is indented and continues nothing")
    return pieces


def _step(script: Script, pieces: list[_Piece], at: int) -> int:
    """Read one step; return where the next one begins."""
    word, _, rest = pieces[at].text.partition(" ")
    if word in ("at", "end"):
        return _instant(script, pieces, at)
    if word not in _WORDS:
        script.fail(pieces[at].first, f'"{word}" is none of at, end, {", ".join(_WORDS)}')
    error, error_line, following = None, 0, at + 1
    if following < len(pieces) and pieces[following].text.startswith("error:"):
        error_line = pieces[following].first
        error = pieces[following].text.removeprefix("error:").strip()
        following += 1
    script.steps.append(_statement(script, pieces[at], word, rest.strip(), error, error_line))
    return following


def _statement(
    script: Script, piece: _Piece, word: str, rest: str, error: str | None, error_line: int
) -> Statement:
    patterns = {
        "stream": _STREAM, "table": _STREAM, "query": _QUERY, "view": _QUERY, "template": _TEMPLATE,
    }  # fmt: skip
    found = patterns.get(word, _CHANGE).fullmatch(rest)
    if found is None:
        script.fail(piece.first, f"this is not how a {word} is written")
    parts = found.groupdict(default="")
    return Statement(piece.first, word, **parts, error=error, error_line=error_line)


def _instant(script: Script, pieces: list[_Piece], at: int) -> int:
    line, rows = pieces[at].first, []
    ends = pieces[at].text.startswith("end ")
    found = (_END if ends else _AT).fullmatch(pieces[at].text)
    if found is None:
        script.fail(line, "an instant is written: at 5 stream row | row, the last one: end 20")
    time = found[1]
    while found is not None and found[1] == time:
        if not ends and found[2]:
            rows.append((found[2], rows_of(script, pieces[at].first, found[3] or "")))
        at += 1
        more = not ends and at < len(pieces) and pieces[at].text.startswith("at ")
        found = _AT.fullmatch(pieces[at].text) if more else None
        if more and found is None:
            script.fail(pieces[at].first, "an instant is written: at 5 stream row | row")
    first = stop = pieces[at - 1].stop
    following = "" if at == len(pieces) else pieces[at].text
    if not following.startswith((_RULE, "at ", "end ")):
        script.fail(line, "what is expected of the instant is missing; ---- expects nothing")
    expected = []
    while at < len(pieces) and pieces[at].text.startswith(_RULE):
        stop = pieces[at].stop
        told = pieces[at].text.removeprefix(_RULE).strip()
        if told:
            expected.append(_expected(script, pieces[at].first, told))
        at += 1
    script.steps.append(Instant(line, time, tuple(rows), tuple(expected), first, stop, ends))
    return at


def rows_of(script: Script, line: int, text: str) -> tuple[Row, ...]:
    """Read rows that stand between bars."""
    rows = []
    for each in _parts(text):
        tokens = tokens_of(each)
        if tokens is None:
            script.fail(line, f"a quote is not closed in {each.strip()!r}")
        time = tokens[-1][1:] if tokens and tokens[-1].startswith("@") else None
        rows.append(Row(tokens if time is None else tokens[:-1], time))
    return tuple(rows)


def _expected(script: Script, line: int, text: str) -> Expected:
    found = _ANSWER.fullmatch(text)
    if found is None:
        script.fail(line, "an answer is written: ---- query + row | ~ row, or ---- query ! text")
    name, answer = found.groups()
    if answer.startswith("!"):
        return Expected(name, failure=answer[1:].strip())
    rows, time, sign = [], "", "+"
    for each in _parts(answer):
        signed = _SIGNED.fullmatch(each)
        assert signed is not None, "every text may be without a sign"
        time, sign = signed[1] or time, signed[2] or sign
        tokens = tokens_of(signed[3])
        if tokens is None:
            script.fail(line, f"a quote is not closed in {signed[3].strip()!r}")
        rows.append((f"{time}: {sign}" if time else sign, tokens))
    return Expected(name, tuple(rows))


def _parts(text: str) -> list[str]:
    """Split at the bars that stand in no quotes."""
    parts, quoted = [""], False
    for character in text:
        quoted ^= character == "'"
        if character == "|" and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts
