"""What running a `.slt` file has brought to light, and a file written anew by it.

With `bless`, what a file expects is written as it was found. Whoever does so checks before that
the oracle agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from millrace.testing.slt import Instant, Script, Statement
from millrace.testing.slt_values import write_row
from millrace.testing.slt_world import Answer

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
        (instant.first, instant.stop, _blessed(found)) for instant, found in report.found
    ]
    places += [
        (step.error_line, step.error_line + 1, [f"error: {message}"])
        for step, message in report.refused
        if step.error_line
    ]
    for first, stop, new in sorted(places, reverse=True):
        lines[first - 1 : stop - 1] = new
    return "\n".join(lines)


def _blessed(found: Answers) -> list[str]:
    width = max((len(name) for name in found), default=0)
    lines = []
    for name in sorted(found):
        shown = " | ".join(sorted(_shown(each) for each in found[name]))
        lines.append(f"----  {name:<{width}} {shown}")
    return lines or ["----"]


def _shown(answer: Answer) -> str:
    sign, values = answer
    return f"! {values[0]}" if sign == "!" else f"{sign} {write_row(values)}"


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
