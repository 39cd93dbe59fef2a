"""Access clauses: a row that fulfils the condition holds a needle, judged by plain Python."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.index.text.needles import SHORTEST, Needle, NeedlePlan, access_clause, needles_of
from millrace.plan.expressions import (
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Not,
    Parameter,
    Scalar,
)

Row = dict[str, str | None]
Values = dict[int, Scalar | tuple[Scalar, ...]]

WORDS = ["disk", "Disk", "full", "di", "k", "isk fu", "", "é", "straße", "d%k", "d_sk%", "%sk%fu%"]
REGEXES = ["dis+k", "(disk|full)", "fu.l", "(?i)DISK", "k?", "[df]i"]
A, B = Column("a"), Column("b")
PARAMETERS: Values = {
    0: "%disk%",
    1: "full",
    2: ("disk", "full", None),
    3: "k",
    4: "fu(l|n)",
    5: None,
}
COLUMNS = st.sampled_from([A, B])
TEXTS = st.sampled_from(WORDS).map(Literal) | st.sampled_from(
    [Parameter(0, "text"), Parameter(1, "text"), Parameter(3, "text"), Parameter(5, "text")]
)
PATTERNS = st.sampled_from(REGEXES).map(Literal) | st.just(Parameter(4, "text"))
OPTIONS = st.lists(TEXTS | st.just(Literal(None)), min_size=1, max_size=3).map(tuple)
CALLS = st.sampled_from(["contains", "starts_with", "ends_with"])
LEAVES = st.one_of(
    st.builds(Like, COLUMNS, TEXTS, st.none(), st.booleans()),
    st.builds(Matches, COLUMNS, PATTERNS, st.booleans()),
    st.builds(Compare, st.sampled_from(["=", "<>", "<"]), COLUMNS, TEXTS),
    st.builds(Compare, st.just("="), TEXTS, COLUMNS),
    st.builds(In, COLUMNS, OPTIONS | st.just((Parameter(2, "text", many=True),))),
    st.builds(Call, CALLS, st.tuples(COLUMNS, TEXTS)),
    st.builds(IsNull, COLUMNS),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Both, inner, inner), st.builds(Either, inner, inner), st.builds(Not, inner)
    ),
    max_leaves=8,
)
CELLS = st.none() | st.lists(
    st.sampled_from(["disk", "DI\u017fK", "full", " ", "k", "é", "di"])
).map("".join)
ROWS = st.lists(st.fixed_dictionaries({"a": CELLS, "b": CELLS}), max_size=10)


def one_like(text: str, pattern: str, *, ignore_case: bool) -> bool:
    spelt = {"%": ".*", "_": "."}
    regex = "".join(spelt.get(each, re.escape(each)) for each in pattern)
    return re.fullmatch(regex, text, re.DOTALL | re.IGNORECASE * ignore_case) is not None


def value(node: Expression, row: Row) -> Scalar | tuple[Scalar, ...]:
    match node:
        case Column(name):
            return row[name]
        case Literal(constant):
            return constant
        case Parameter(number):
            return PARAMETERS[number]
        case _:
            return truth(node, row)


def options(node: In, row: Row) -> list[Scalar]:
    given = [value(option, row) for option in node.options]
    return [each for one in given for each in (one if isinstance(one, tuple) else (one,))]


def truth(node: Expression, row: Row) -> bool | None:
    """What a condition means, in three-valued logic."""
    match node:
        case Both(left, right):
            sides = truth(left, row), truth(right, row)
            return False if False in sides else None if None in sides else True
        case Either(left, right):
            sides = truth(left, row), truth(right, row)
            return True if True in sides else None if None in sides else False
        case Not(operand):
            inner = truth(operand, row)
            return None if inner is None else not inner
        case IsNull(operand):
            return value(operand, row) is None
        case In(operand, _):
            text, known = value(operand, row), options(node, row)
            if text is None:
                return None
            return True if text in known else None if None in known else False
        case (
            Like(left, right)
            | Matches(left, right)
            | Compare(_, left, right)
            | Call(_, (left, right))
        ):
            text, pattern = value(left, row), value(right, row)
            if not isinstance(text, str) or not isinstance(pattern, str):
                return None
            return holds(node, text, pattern)
        case _:
            pytest.fail(f"no such test is drawn here: {node}")


def holds(node: Expression, text: str, pattern: str) -> bool:
    match node:
        case Like(ignore_case=ignore_case):
            return one_like(text, pattern, ignore_case=ignore_case)
        case Matches(ignore_case=ignore_case):
            return re.search(pattern, text, re.IGNORECASE * ignore_case) is not None
        case Compare(operator):
            return {"=": text == pattern, "<>": text != pattern, "<": text < pattern}[operator]
        case Call("contains"):
            return pattern in text
        case Call("starts_with"):
            return text.startswith(pattern)
        case _:
            return text.endswith(pattern)


def stands(needle: Needle, row: Row) -> bool:
    text = row[needle.column]
    if text is None:
        return False
    if needle.ignore_case:
        text = text.lower().replace("\u017f", "s")
    tests = {
        "contains": needle.text in text,
        "prefix": text.startswith(needle.text),
        "suffix": text.endswith(needle.text),
        "equals": text == needle.text,
    }
    return tests[needle.kind]


@given(CONDITIONS, ROWS)
@example(Like(A, Literal("DISK"), None, True), [{"a": "DI\u017fK", "b": None}])
@example(Either(Like(A, Literal("%disk%")), Compare("=", A, Literal("k"))), [{"a": "k", "b": None}])
@example(Not(Like(A, Literal("%disk%"))), [{"a": "full", "b": None}])
def test_a_row_that_fulfils_the_condition_holds_a_needle(
    condition: Expression, rows: list[Row]
) -> None:
    plans = access_clause(condition)
    if plans is None:
        return
    needles: list[Needle] = []
    for plan in plans:
        some = needles_of(plan, value(plan.pattern, {}))
        if some is None:  # this query of the family goes without
            assert isinstance(plan.pattern, Parameter)
            return
        needles += some

    assert all(len(needle.text.encode()) >= SHORTEST for needle in needles)
    for row in rows:
        assert truth(condition, row) is not True or any(stands(each, row) for each in needles)


LONG, SHORT = Like(A, Literal("%disk full%")), Compare("=", A, Literal("full"))


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (Both(SHORT, LONG), [["disk full"]]),
        (Both(Both(IsNull(B), LONG), Not(SHORT)), [["disk full"]]),
        (Either(SHORT, LONG), [["full"], ["disk full"]]),
        (Either(SHORT, Both(LONG, IsNull(B))), [["full"], ["disk full"]]),
        (Both(SHORT, Either(LONG, Compare("=", B, Literal("no")))), [["full"]]),
        (In(A, (Literal("full"), Literal(None), Literal("disk"))), [["full"], ["disk"]]),
        (Matches(A, Literal("quota (soft|hard)")), [["quota hard", "quota soft"]]),
        (Like(A, Literal("%Straße%"), None, True), [["stra"]]),
        (Call("starts_with", (A, Literal("ab"))), [["ab"]]),
    ],
)
def test_the_clause_with_the_longest_shortest_needle(
    condition: Expression, texts: list[list[str]]
) -> None:
    plans = access_clause(condition) or ()

    found = [needles_of(plan, value(plan.pattern, {})) or () for plan in plans]
    assert [[needle.text for needle in needles] for needles in found] == texts


@pytest.mark.parametrize(
    "condition",
    [
        Not(LONG),
        IsNull(A),
        Either(LONG, IsNull(A)),
        Compare("<>", A, Literal("full")),
        Compare("=", A, Literal("k")),
        Compare("=", A, B),
        Compare("=", A, Literal(5)),
        Compare("=", A, Parameter(0, "bigint")),
        Compare("=", A, Literal(None)),
        Like(A, Literal("%a%b%")),
        Like(Call("lower", (A,)), Literal("%disk%")),
        In(A, (Literal(None),)),
        Matches(A, Literal("disk|")),
        Literal(value=True),
    ],
)
def test_what_gives_no_needles(condition: Expression) -> None:
    assert access_clause(condition) is None


def test_a_parameter_is_taken_before_a_constant_that_all_queries_share() -> None:
    like = Like(B, Parameter(0, "text"), "!", True)

    assert access_clause(Both(LONG, like)) == (
        NeedlePlan("b", Parameter(0, "text"), "like", ignore_case=True, escape="!"),
    )


def test_each_query_of_a_family_has_needles_of_its_own() -> None:
    like, among = (
        NeedlePlan("a", Parameter(0, "text"), "like"),
        NeedlePlan("a", Parameter(1, "text", many=True), "equals"),
    )

    assert needles_of(like, "disk%") == (Needle("a", "disk", "prefix"),)
    assert needles_of(like, "%k%") is None
    assert needles_of(like, None) == ()
    assert needles_of(among, {"disk", None}) == (Needle("a", "disk", "equals"),)
    assert needles_of(among, {"disk", "k"}) is None


def test_a_deep_condition_is_no_trouble() -> None:
    condition: Expression = LONG
    for number in range(5_000):
        condition = Either(condition, Compare("=", A, Literal(f"word {number}")))

    assert len(access_clause(condition) or ()) == 5_001


def test_a_needle_that_ignores_case_is_lower_case_ascii() -> None:
    with pytest.raises(PlanError, match='needle "Disk" is not lower-case ASCII'):
        Needle("a", "Disk", ignore_case=True)
