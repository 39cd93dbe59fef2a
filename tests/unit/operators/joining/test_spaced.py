"""Codes of texts that have room for others, against the order of the texts themselves."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millrace.operators.codes import NULL_CODE
from millrace.operators.joining.spaced import SpacedTexts

TEXTS = st.text("abß", max_size=4)


def binary(texts: list[str | None]) -> pa.Array:
    return pa.array(texts, pa.string()).cast(pa.binary())


@given(st.lists(TEXTS), st.lists(st.lists(TEXTS, max_size=5), max_size=4), st.lists(TEXTS))
def test_codes_are_in_the_order_of_texts_whenever_constants_came(
    first: list[str], later: list[list[str]], others: list[str]
) -> None:
    spaced = SpacedTexts.of(binary([*first]))
    constants = [*first]
    for some in later:
        before = spaced(binary([*constants])).tolist()
        more = spaced.holding(binary([*some, None]))
        assert more is not None
        assert more(binary([*constants])).tolist() == before
        spaced, constants = more, [*constants, *some]

    coded = zip(constants, spaced(binary([*constants])).tolist(), strict=True)
    values = [*others, *constants]
    for constant, code in coded:
        for value, mine in zip(values, spaced(pa.array(values, pa.string())).tolist(), strict=True):
            assert (mine < code, mine > code) == (
                value.encode() < constant.encode(),
                value.encode() > constant.encode(),
            )


def test_null_has_no_place_among_texts() -> None:
    assert SpacedTexts.of(binary(["b"]))(binary([None, "b"])).tolist()[0] == NULL_CODE


def test_where_a_gap_is_full_there_is_no_room() -> None:
    spaced: SpacedTexts | None = SpacedTexts.of(binary(["a", "c"]))
    n_put = 0
    while spaced is not None:
        n_put += 1
        spaced = spaced.holding(binary(["b" * n_put]))

    assert n_put > 50
