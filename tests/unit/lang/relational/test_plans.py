"""Each text is a plan, held in plans.txt; and so is the text with its defaults written out.

Rewrite the file with `BLESS=1 pytest tests/unit/lang/relational/test_plans.py`, and read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from millrace.lang.errors import LanguageError
from millrace.lang.relational.bound import BoundRelation
from millrace.plan.outline import outline
from millrace.plan.relation_types import Declared, relation_schema
from millrace.plan.relations import Relation, StreamOf

Bind = Callable[[str], BoundRelation]

FILE = Path(__file__).parent / "plans.txt"


def cases() -> list[tuple[str, str]]:
    lines = FILE.read_text(encoding="utf-8").split("\n")
    return [(text, plan.strip()) for text, plan in pairwise(lines) if plan.startswith("    ")]


@pytest.mark.skipif(bool(os.environ.get("BLESS")), reason="the file is rewritten")
@pytest.mark.parametrize(("text", "plan"), cases())
def test_a_query_is_the_plan_that_it_means(text: str, plan: str, bind: Bind) -> None:
    assert outline(bind(text).plan) == plan


@pytest.mark.parametrize(("text", "plan"), cases())
def test_the_expanded_query_is_the_same_plan(text: str, plan: str, bind: Bind) -> None:
    bound = bind(text)

    again = bind(bound.expanded)

    assert again.plan == bound.plan
    assert again.expanded == bound.expanded


@pytest.mark.parametrize(("text", "plan"), cases())
def test_only_what_grows_becomes_a_stream_by_itself(text: str, plan: str, bind: Bind) -> None:
    bound = bind(text)

    outermost = text.partition("FROM")[0].upper()
    told = any(word in outermost for word in ("ISTREAM", "DSTREAM", "RSTREAM"))
    assert told or isinstance(bound.plan, StreamOf) == bound.monotonic


@pytest.mark.parametrize(("text", "plan"), cases())
def test_the_columns_are_those_that_the_plan_has(
    text: str, plan: str, bind: Bind, declared: Declared
) -> None:
    bound = bind(text)

    try:
        found = columns(bound.plan, declared)
    except AssertionError:
        pytest.skip("the plan has an operator without a type yet")
    assert found == [(each.name, each.type) for each in bound.schema]


def columns(plan: Relation | StreamOf, declared: Declared) -> list[tuple[str, pa.DataType]]:
    relation = plan.relation if isinstance(plan, StreamOf) else plan
    return [(each.name, each.type) for each in relation_schema(relation, declared)]


@pytest.mark.parametrize(("text", "plan"), cases())
def test_a_part_of_a_query_is_a_query_or_is_refused_in_words(
    text: str, plan: str, bind: Bind
) -> None:
    words = text.split(" ")
    for left_out in range(0, len(words), 2):
        shorter = " ".join(words[:left_out] + words[left_out + 1 :])
        refusal = refused(shorter, bind)
        if refusal is not None:
            assert refusal.source == shorter
            assert 0 <= refusal.span.first <= refusal.span.stop <= len(shorter)
            assert "#" not in refusal.message


def refused(text: str, bind: Bind) -> LanguageError | None:
    try:
        bind(text)
    except LanguageError as refusal:
        return refusal
    return None


@pytest.mark.skipif(not os.environ.get("BLESS"), reason="only rewrites the file")
def test_bless(bind: Bind) -> None:
    plans = {text: outline(bind(text).plan) for text, _ in cases()}
    lines = FILE.read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if not line.startswith("    ")]
    blocks = [f"{line}\n    {plans[line]}" if line in plans else line for line in kept]
    FILE.write_text("\n".join(blocks), encoding="utf-8")
