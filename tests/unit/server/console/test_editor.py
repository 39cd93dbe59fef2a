"""Where an error is: from the line and the column that it names to characters of the text."""

from __future__ import annotations

import pytest

from millrace.errors import PlanError
from millrace.server.console.editor import WORDS, excerpt, place_of

TEXT = "SELECT prise\nFROM trades"


class PlacedError(PlanError):
    def __init__(self, line: int, column: int) -> None:
        super().__init__("somewhere")
        self.position = {"line": line, "column": column}


def test_the_word_at_the_place_is_meant() -> None:
    first, stop = place_of(PlacedError(2, 6), TEXT) or (0, 0)

    assert TEXT[first:stop] == "trades"
    assert excerpt(TEXT, (first, stop)) == "2 | FROM trades\n  |      ^^^^^^"


@pytest.mark.parametrize("place", [(3, 1), (0, 1), (2, 40)])
def test_a_place_that_is_not_in_the_text_is_none(place: tuple[int, int]) -> None:
    assert place_of(PlacedError(*place), TEXT) is None


def test_an_error_without_a_place_has_none() -> None:
    assert place_of(PlanError("somehow"), TEXT) is None


def test_words_of_cql_are_found_but_not_in_quotes() -> None:
    text = "ISTREAM(SELECT 'a slide''s [now]', a[1] FROM s [RANGE 1 MINUTE SLIDE 2 SECONDS])"

    found = [each["word"] or each["window"] for each in WORDS.finditer(text)]

    assert [each for each in found if each] == ["ISTREAM", "[RANGE 1 MINUTE SLIDE 2 SECONDS]"]
