"""What running a `.slt` file has brought to light, and a file written anew by it.

With `bless`, what a file expects is written as it was found. Whoever does so checks before that
the oracle agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from millrace.testing.slt import Instant, Script, Statement
from millrace.testing.slt_plans import when
from millrace.testing.slt_values import write_row
from millrace.testing.slt_world import Answer

FOREVER = Decimal("Infinity")
Answers = dict[str, list[Answer]]
"""What each query answers, by its name in the file."""


@dataclass(slots=True)
class Report:
    """What is wrong, in words, and what was found.

    Of the problems those are `open_to_doubt` that only the author of the file sees.
    """

    problems: list[str] = field(default_factory=list)
    open_to_doubt: list[str] = field(default_factory=list)
    found: list[tuple[Instant, Answers]] = field(default_factory=list)
    refused: list[tuple[Statement, str]] = field(default_factory=list)


def bless(script: Script, report: Report) -> str:
    """Return the text of a file with what was found in place of what it expected."""
    lines = list(script.lines)
    places: list[tuple[int, int, list[str]]] = [
        (instant.first, instant.stop, _blessed(found, bare=instant.first == instant.stop))
        for instant, found in report.found
    ]
    places += [
        (step.error_line, step.error_line + 1, [f"error: {message}"])
        for step, message in report.refused
        if step.error_line
    ]
    for first, stop, new in sorted(places, reverse=True):
        lines[first - 1 : stop - 1] = new
    return "\n".join(lines)


def _blessed(found: Answers, *, bare: bool) -> list[str]:
    """Write answers; where nothing was written and nothing is to be, nothing."""
    width = max((len(name) for name in found), default=0)
    lines = []
    for name in sorted(found):
        ordered = sorted(found[name], key=lambda each: (when(each), _shown(each)))
        lines.append(f"----  {name:<{width}} {' | '.join(_terse(ordered))}")
    return lines or ([] if bare else ["----"])


def _terse(answers: Sequence[Answer]) -> list[str]:
    """Write answers one after another; an instant stands before the first of it."""
    shown, before = [], ""
    for each in answers:
        time = each[0].rpartition(": ")[0]
        text = _shown(each)
        shown.append(text.removeprefix(f"{time}: ") if time and time == before else text)
        before = time
    return shown


def _shown(answer: Answer) -> str:
    sign, values = answer
    return f"! {values[0]}" if sign == "!" else f"{sign} {write_row(values)}"


def parted(
    answers: Answers, timed: Container[str], end: Decimal = FOREVER
) -> tuple[Answers, Answers]:
    """Part answers that are told without instants from the `timed` ones, before the end."""
    plain: Answers = {}
    late: Answers = {}
    for name, some in answers.items():
        if name not in timed:
            plain[name] = [(each[0].rpartition(": ")[2], each[1]) for each in some]
        else:
            late[name] = [each for each in some if each[0] == "!" or when(each)[0] < end]
    return plain, late


def in_short(parts: Sequence[Answers]) -> Answers:
    """Put answers together; of a query that fails only that, since before it told what came first.

    How much that was depends on when it was told.
    """
    whole = union(parts)
    failures = {name: [each for each in some if each[0] == "!"] for name, some in whole.items()}
    return {name: failures[name] or some for name, some in whole.items()}


def union(parts: Sequence[Answers]) -> Answers:
    """Put the answers to several instants together."""
    whole: Answers = {}
    for part in parts:
        for name, answers in part.items():
            whole.setdefault(name, []).extend(answers)
    return whole


def differing(found: list[Answer], told: list[Answer]) -> tuple[list[str], list[str]]:
    """Return what is missing and what is too much; a failure need only hold the text."""
    failed = [str(each[1][0]) for each in found if each[0] == "!"]
    expected = [str(each[1][0]) for each in told if each[0] == "!"]
    if len(failed) == len(expected) and all(
        text in message for text, message in zip(expected, failed, strict=True)
    ):
        found = [each for each in found if each[0] != "!"]
        told = [each for each in told if each[0] != "!"]
    there, wanted = Counter(map(_shown, found)), Counter(map(_shown, told))
    return sorted((wanted - there).elements()), sorted((there - wanted).elements())
