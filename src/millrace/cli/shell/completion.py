"""What may come next: commands, names of the kind that fits, columns, functions, keywords.

It looks at the words before the cursor and knows no grammar; what it offers first is what stands
most often there. Names behind FROM and the like come from the server, queries by a search in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from millrace.cli.shell.commands import COMMANDS
from millrace.cli.shell.names import Names, shown
from millrace.lang.highlighting import FUNCTIONS, KEYWORDS, TYPES, UNITS

_WORD = re.compile(r'"[^"]*|[\w$]+$')
_BEFORE = re.compile(r"(\w+)\W*$")
_KINDS = {
    "FROM": ("stream", "table", "template", "query"),
    "JOIN": ("stream", "table"),
    "INTO": ("table", "template"),
    "UPDATE": ("table", "template"),
    "STREAM": ("stream",),
    "TABLE": ("table",),
    "TEMPLATE": ("template",),
    "QUERY": ("query",),
    "SUBSCRIBE": ("query",),
    "FOR": ("query",),
}
_WINDOW = re.compile(r"\[[^\]]*$")
_WINDOW_WORDS = ("RANGE", "ROWS", "NOW", "PARTITION", "BY", "SLIDE", "UNBOUNDED", *sorted(UNITS))


class ShellCompleter(Completer):
    """Offers what may come next."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        """Yield what fits what is typed so far."""
        text = document.text_before_cursor
        if text.lstrip().startswith("\\"):
            yield from self._commands(text.lstrip())
            return
        found = _WORD.search(text)
        word = found[0] if found else ""
        before = text[: len(text) - len(word)]
        yield from self._next(before, word.strip('"'), len(word))

    def _commands(self, line: str) -> Iterator[Completion]:
        word, blank, part = line[1:].partition(" ")
        if not blank:
            for name, each in COMMANDS.items():
                if name.startswith(word):
                    yield Completion(name, -len(word), f"\\{name}", each.summary)
        elif word == "d":
            yield from self._named(("stream", "table", "template", "query"), part, len(part))
        elif word == "dq":
            yield from self._named(("query",), part, len(part))

    def _next(self, before: str, word: str, width: int) -> Iterator[Completion]:
        if _WINDOW.search(before):
            yield from _words(_WINDOW_WORDS, word, width, "window")
            return
        last = _BEFORE.search(before)
        kinds = _KINDS.get(last[1].upper()) if last and before[last.end(1) :].isspace() else None
        if kinds:
            yield from self._named(kinds, word, width)
            return
        yield from self._columns(before, word, width)
        if word:
            yield from _words(sorted(FUNCTIONS), word, width, "function")
            yield from _words(sorted(KEYWORDS), word, width, "")
            yield from _words(sorted(TYPES), word, width, "type")

    def _named(self, kinds: Iterable[str], word: str, width: int) -> Iterator[Completion]:
        for kind in kinds:
            names = (
                self._names.queries(word) if kind == "query"
                else self._names.known.kinds.get(kind, ())
            )  # fmt: skip
            for name in names:
                if name.casefold().startswith(word.casefold()):
                    yield Completion(shown(name), -width, name, kind)

    def _columns(self, before: str, word: str, width: int) -> Iterator[Completion]:
        """Offer the columns of what the text names, or of everything if it names nothing yet."""
        known = self._names.known.columns
        said = {each.casefold() for each in re.findall(r"\w+", before)}
        meant = [name for name in known if name.casefold() in said] or list(known)
        seen = set[str]()
        for name in meant:
            for column in known[name]:
                fits = column.casefold().startswith(word.casefold())
                if fits and column not in seen and (word or len(meant) < 3):
                    seen.add(column)
                    yield Completion(shown(column), -width, column, f"column of {name}")


def _words(words: Iterable[str], word: str, width: int, kind: str) -> Iterator[Completion]:
    """Offer words of the language, in capitals unless they are being typed small."""
    small = word.islower()
    for each in words:
        if each.casefold().startswith(word.casefold()):
            yield Completion(each.lower() if small else each, -width, each, kind)
