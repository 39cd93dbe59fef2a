"""What PSoup's paper says of the order and the shape of its figures, judged by what was measured.

A claim is a ratio that must be at least 1, or a factor within which two lines must stay. Absolute
times are those of another century. That P is faster than C unshared (Figure 9) is not judged: the
journal's version of the paper shows the two crossing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import geometric_mean

from bench.report import Figure

Lines = Mapping[str, Mapping[int, float]]
ByCount = Mapping[int, Lines]

FROM = 1 << 14
"""The window from which on a call costs more than to be called."""
ALIKE = 4.0
"""P and C are "about the same" in the paper where its Table 2 has them apart by up to 3.7."""


def at_least_one(case: str, ratio: float, note: str) -> Figure:
    """Require that something is at least as large as what it is divided by."""
    return Figure(case, ratio, "at least", 1, "x", note)


def worst_is_nomat(case: str, found: ByCount, window: int) -> Figure:
    """NoMat takes longest, whatever the number of predicates."""
    ratios = {
        count: each["none"][window] / max(each["lazy"][window], each["eager"][window])
        for count, each in found.items()
    }
    told = ", ".join(f"{count}: {ratio:.1f} x" for count, ratio in ratios.items())
    note = f"by the slower of P and C, by number of predicates: {told}"
    return at_least_one(f"{case}: NoMat slowest, {window:,} rows", min(ratios.values()), note)


def nomat_rises(case: str, found: ByCount) -> Figure:
    """NoMat takes the longer, the larger the window is."""
    steps = [
        each["none"][larger] / each["none"][smaller]
        for each in found.values()
        for smaller, larger in pairwise(sorted(each["none"]))
        if smaller >= FROM
    ]
    return at_least_one(f"{case}: NoMat rises with the window", min(steps), "the least step")


def figure_7a(found: ByCount, paper: int, largest: int) -> list[Figure]:
    """NoMat is worst, P slower than C."""
    slower = geometric_mean(each["lazy"][paper] / each["eager"][paper] for each in found.values())
    return [
        *(worst_is_nomat("Figure 7a", found, window) for window in (paper, largest)),
        nomat_rises("Figure 7a", found),
        at_least_one("Figure 7a: P slower than C", slower, "the geometric mean of all predicates"),
    ]


def figure_7b(found: ByCount, paper: int) -> list[Figure]:
    """NoMat is far worse, P and C about the same."""
    ratios = [each["lazy"][paper] / each["eager"][paper] for each in found.values()]
    apart = max(max(each, 1 / each) for each in ratios)
    return [
        worst_is_nomat("Figure 7b", found, paper),
        nomat_rises("Figure 7b", found),
        Figure("Figure 7b: P and C alike", apart, "at most", ALIKE, "x", "furthest apart"),
    ]


def table_2(found: ByCount, window: int) -> list[Figure]:
    """NoMat is worst, and takes longer with more predicates; P and C take less."""
    few, many = min(found), max(found)
    changes = {
        "NoMat rises": found[many]["none"][window] / found[few]["none"][window],
        "P falls": found[few]["lazy"][window] / found[many]["lazy"][window],
        "C falls": found[few]["eager"][window] / found[many]["eager"][window],
    }
    note = f"from {few} to {many} predicates"
    return [worst_is_nomat("Table 2", found, window)] + [
        at_least_one(f"Table 2: {what} with predicates", ratio, note)
        for what, ratio in changes.items()
    ]


def figure_8(lines: Lines) -> list[Figure]:
    """To join when asked is worse than to keep answers, and gets worse with the windows."""
    asked, kept = lines["NoMat"], lines["PSoup-C"]
    small, large = min(asked), max(asked)
    return [
        at_least_one("Figure 8: NoMat slowest", asked[large] / kept[large], f"{large:,} rows"),
        at_least_one("Figure 8: NoMat rises with the windows", asked[large] / asked[small],
                     f"from {small:,} to {large:,} rows"),
    ]  # fmt: skip


def figure_9(lines: Lines) -> list[Figure]:
    """P with a shared index takes rows fastest; the index helps the more, the more queries."""
    best, alone = lines["PSoup-P, index shared"], lines["PSoup-P, index unshared"]
    few, many = min(best), max(best)
    others = {name: each[many] for name, each in lines.items() if each is not best}
    second = max(others, key=lambda name: others[name])
    grown = (best[many] / alone[many]) / (best[few] / alone[few])
    return [
        at_least_one("Figure 9: P shared fastest", best[many] / others[second],
                     f"by {second}, {many:,} queries"),
        at_least_one("Figure 9: the index helps more with queries", grown,
                     f"from {few:,} to {many:,} queries"),
    ]  # fmt: skip
