"""Language tests themselves: how files are read, and that a wrong answer is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.index import boxes
from millrace.kernels.arrays import Ints
from millrace.operators.relational import windows as relational_windows
from millrace.operators.relational.timed import Timed
from millrace.plan.relations import Window
from millrace.schema import type_named
from millrace.testing.slt import Instant, SltError, Statement, parse, tokens_of
from millrace.testing.slt_constants import constants_of
from millrace.testing.slt_inprocess import InProcessDriver
from millrace.testing.slt_report import Report, bless
from millrace.testing.slt_runner import Runner
from millrace.testing.slt_values import read_value, write_value
from millrace.testing.slt_ways import DEFAULT, WAYS, Way
from millrace.testing.strategies import TYPES, values

SMALL = """\
# a comment
stream s (a text, i int)
query low: SELECT a FROM s
    WHERE i < 3 OR i > 8
at 0  s  x 1 | 'y z' 5
----  low + x
"""


def report_of(text: str, way: Way = DEFAULT) -> Report:
    driver = InProcessDriver(way)
    with way.applied():
        found = Runner(parse(text, Path("small.slt")), way, driver).run()
    driver.close()
    return found


def test_a_file_is_statements_and_instants() -> None:
    stream, query, instant = parse(SMALL).steps

    assert isinstance(stream, Statement)
    assert (stream.word, stream.name, stream.text) == ("stream", "s", "a text, i int")
    assert isinstance(query, Statement)
    assert " ".join(query.text.split()) == "SELECT a FROM s WHERE i < 3 OR i > 8"
    assert isinstance(instant, Instant)
    assert [row.tokens for _, rows in instant.rows for row in rows] == [("x", "1"), ("'y z'", "5")]
    assert instant.expected[0].rows == (("+", ("x",)),)
    assert (instant.line, instant.first, instant.stop) == (5, 6, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sream s (a int)", 'small.slt:1: "sream" is none of at, end, stream'),
        ("\n  query q: SELECT", "small.slt:2: the line is indented and continues nothing"),
        ("stream s", "small.slt:1: this is not how a stream is written"),
        ("stream s (a int)\nat 0 s 1", "small.slt:2: what is expected of the instant is missing"),
        ("stream s (a int)\nat 0 s 1 2\n----", "small.slt:2: a row has 2 values for 1 columns"),
        ("stream s (a int)\nat 0 s x\n----", "small.slt:2: x is no int32"),
        ("stream s (a int)\nat 0 t 1\n----", 'small.slt:2: stream "t" is not declared'),
        ("stream s (a int)\nat 0 s 'x\n----", "small.slt:2: a quote is not closed"),
        ("stream s (a int)\nat 0 s 1\n---- q + 1", 'small.slt:2: query "q" does not exist'),
        ("stream s (a int)\nat 0 s 1\n---- q", "small.slt:3: an answer is written"),
    ],
)
def test_a_file_that_is_written_otherwise_is_refused_with_the_place(
    text: str, message: str
) -> None:
    with pytest.raises(SltError) as refused:
        report_of(text)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "----  low + y",
            "small.slt:5: [plain] at 0, low:\n    - + y    the file says so\n    + + x",
        ),
        ("----", "    + + x    found"),
        ("----  low + x | + x", "    - + x    the file says so"),
        ("----  low ~ x", "    - ~ x    the file says so"),
    ],
)
def test_what_is_expected_and_not_found_is_told_and_blessed(wrong: str, message: str) -> None:
    text = SMALL.replace("----  low + x", wrong)

    report = report_of(text)

    assert not report.problems
    assert message in "\n".join(report.open_to_doubt)
    assert bless(parse(text), report) == SMALL


HELD = """\
stream s (a text)
query held: SELECT a FROM s [RANGE 5 SECONDS]
query later: SELECT a FROM s [ROWS 1]
at 1  s  x
at 3  s  y
end 20
----  held  1: + x | 3: + y | 6+: - x | 8+: - y
----  later 1: + x | 3: + y | - x
"""


def test_answers_of_other_queries_have_their_instants() -> None:
    report = report_of(HELD)

    assert not report.problems + report.open_to_doubt
    assert bless(parse(HELD), report) == HELD


def test_instants_and_signs_need_not_be_repeated() -> None:
    terse = HELD.replace("1: + x | 3: + y | 6+: - x | 8+: - y", "1: x | 3: y | 6+: - x | 8+: y")

    report = report_of(terse)

    assert not report.problems + report.open_to_doubt
    assert bless(parse(terse), report) == HELD


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("1: + x | 3: + y | 6+: - x | 9+: - y", "    + 8+: - y    found"),
        ("1: + x | 3: + y | 6: - x | 8+: - y", "    - 6: - x    the file says so"),
        ("1: + x | 3: + y | 6+: - x", "    + 8+: - y    found"),
        ("1: + x | 3: + y | 6+: + x | 8+: - y", "    - 6+: + x    the file says so"),
    ],
)
def test_a_wrong_instant_or_sign_is_noticed(wrong: str, message: str) -> None:
    report = report_of(HELD.replace("1: + x | 3: + y | 6+: - x | 8+: - y", wrong))

    assert not report.problems
    assert message in "\n".join(report.open_to_doubt)


def test_what_is_not_complete_is_not_told() -> None:
    report = report_of(HELD.replace("end 20", "end 7"))

    assert "    - 8+: - y    the file says so" in "\n".join(report.open_to_doubt)


def test_the_definition_sees_what_the_file_does_not() -> None:
    """A range that forgets its last instant; blessing must not hide it."""
    right = relational_windows.by_time

    def broken(window: Window, rows: pa.RecordBatch, times: Ints) -> Timed:
        timed = right(window, rows, times)
        return Timed(timed.rows, timed.starts, timed.ends - 1, timed.weights)

    with patch("millrace.operators.relational.rowwise.by_time", broken):
        report = report_of(HELD)

    assert any("- 6+: - x    the oracle says so" in each for each in report.problems)


def test_a_refusal_may_say_its_code_and_place() -> None:
    text = "stream s (a int)\nquery q: SELECT b FROM s [ROWS 1]\nerror: CQL002 at 1:8 column"

    assert not report_of(text).open_to_doubt
    assert report_of(text.replace("1:8", "1:9")).open_to_doubt


def test_a_refusal_is_compared_and_blessed() -> None:
    text = "stream s (a int)\nquery q: SELECT b FROM s\nerror: no such thing"

    report = report_of(text)

    assert "was refused otherwise: column" in report.open_to_doubt[0]
    assert bless(parse(text), report).endswith('error: column "b" does not exist in stream "s"')
    assert "was not refused" in report_of(text.replace("SELECT b", "SELECT a")).problems[0]
    assert "was refused: column" in report_of(text.replace("error:", "#")).problems[0]


def test_the_oracle_sees_what_the_file_does_not() -> None:
    """An index whose boxes end too early finds too little; blessing must not hide it."""

    def broken(held: boxes.Interval) -> boxes.Interval:
        return held[0], np.minimum(held[1], held[0])

    with patch.object(boxes, "_above", broken), patch.object(boxes, "_below", broken):
        report = report_of(SMALL.replace("x 1", "x 9"))

    assert any("the oracle says so" in each for each in report.problems)


@given(st.data())
def test_values_are_read_as_they_are_written(data: st.DataObject) -> None:
    arrow = type_named(data.draw(st.sampled_from(TYPES)))
    value = data.draw(st.none() | values(arrow))

    written = write_value(value)

    again = read_value(written, arrow)
    assert tokens_of(f"before {written} behind") == ("before", written, "behind")
    assert repr(pa.array([again], arrow).to_pylist()) == repr(pa.array([value], arrow).to_pylist())


def test_constants_are_rows_of_parameters() -> None:
    table = constants_of("(1, 'it''s (1)', [a b]), (NaN, x, [])", {
        "low": "double", "tag": "text", "some": "text[]"})  # fmt: skip

    rows: list[dict[str, Any]] = table.to_pylist()

    assert [each["tag"] for each in rows] == ["it's (1)", "x"]
    assert [each["some"] for each in rows] == [["a", "b"], []]
    with pytest.raises(ValueError, match="not how a row of constants is written"):
        constants_of("1, 2", {})


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_every_way_gives_the_same(way: Way) -> None:
    report = report_of(SMALL, way)

    assert not report.problems
    assert not report.open_to_doubt
