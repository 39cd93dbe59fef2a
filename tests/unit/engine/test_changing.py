"""Settings that change between epochs: which, to what, and that answers do not notice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import millrace
from millrace.engine.changing import CHANGEABLE, changed, listed
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.errors import PlanError
from millrace.state.memory_root import MemoryRoot
from millrace.time import HOUR, SECOND

TRADES = "symbol text, price double, ts timestamp"


def test_what_is_spelt_is_read_back() -> None:
    settings = Settings()

    spelt = {each["name"]: each["value"] for each in listed(settings)}

    assert changed(settings, spelt) == settings
    assert set(spelt) == set(CHANGEABLE)


def test_several_change_together() -> None:
    after = changed(Settings(), {"target": "250 ms", "rows": 5000, "merging": "off", "shards": "4"})

    assert (after.target, after.rows, after.merging, after.shards) == (SECOND // 4, 5000, False, 4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("target", "0 s", 'setting "target" cannot be "0 s"'),
        ("spread", "often", 'setting "spread" cannot be "often"'),
        ("shards", "0", 'setting "shards" cannot be "0"'),
        ("shards", "2000000", 'setting "shards" cannot be'),
        ("rows", "many", 'setting "rows" cannot be "many"'),
        ("merging", "maybe", 'setting "merging" cannot be "maybe"'),
        ("access", "guess", 'setting "access" cannot be "guess"'),
        ("trigger", "soon", '"soon" is not a duration'),
        ("merge_at_start", "on", 'setting "merge_at_start" cannot change at run time'),
        ("tarket", "1 s", 'setting "tarket" does not exist'),
    ],
)
def test_what_does_not_fit_is_refused_in_words(name: str, value: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        changed(Settings(), {name: value})


def rows(second: int) -> list[dict[str, object]]:
    at = datetime.fromtimestamp(second, UTC)
    return [{"symbol": f"S{each}", "price": float(each), "ts": at} for each in range(4)]


def test_answers_do_not_notice_that_settings_change_between_epochs() -> None:
    changes: list[dict[str, object]] = [
        {"shards": 3, "spread": "always"},
        {"merging": False, "access": "rank"},
        {"spread": "never", "shards": 1},
        {"merging": True, "access": "auto", "target": "100 ms"},
    ]
    answers = []
    for changing in (False, True):
        with millrace.Session(MemoryRoot(), threads=False) as session:
            session.stream("trades", millrace.Feed(TRADES), time="ts")
            counts = "SELECT symbol, count(*) AS n FROM trades [RANGE 5 SECONDS] GROUP BY symbol"
            queries = [session.query(counts), session.query("SELECT * FROM trades WHERE price > 1")]
            run = session.start()
            assert isinstance(run, LocalRun)
            for second in range(12):
                if changing:
                    session.change_settings(changes[second % len(changes)])
                run.feed(trades=rows(second))
            answers.append([each.results().to_pylist() for each in queries])

    assert answers[0] == answers[1]
    assert all(answers[0])


def test_retention_changes_with_the_next_epoch_and_survives_the_declaration() -> None:
    root = MemoryRoot()
    with millrace.Session(root, threads=False) as session:
        session.stream("trades", millrace.Feed(TRADES), time="ts", retain="1 hour")
        run = session.start()
        assert isinstance(run, LocalRun)
        for second in range(10):
            run.feed(trades=rows(second))
        assert session.history("trades").num_rows == 40

        session.retain("trades", "4 seconds")

        assert session.history("trades").num_rows == 20  # from 5 to 9: the mark is 9
    with millrace.Session(root, threads=False) as session:
        session.stream("trades", millrace.Feed(TRADES), time="ts", retain="1 hour")
        assert session.streams["trades"].retain == 4 * SECOND
        assert session.streams["trades"].as_declared.retain == HOUR


def test_a_stream_without_history_keeps_one_from_when_it_is_told_to() -> None:
    root = MemoryRoot()
    with millrace.Session(root, threads=False) as session:
        session.stream("trades", millrace.Feed(TRADES), time="ts")
        run = session.start()
        assert isinstance(run, LocalRun)
        run.feed(trades=rows(0))

        session.retain("trades", "1 hour")
        run.feed(trades=rows(1))

        assert session.history("trades").num_rows == 4
        past = session.query("SELECT * FROM trades", name="past", history="1 hour")
        run.feed(trades=rows(2))
        run.feed(trades=rows(3))
        assert past.results().num_rows == 12
    with millrace.Session(root, threads=False) as session:
        session.stream("trades", millrace.Feed(TRADES), time="ts")
        assert session.streams["trades"].retain == HOUR
        assert session.streams["trades"].as_declared.retain is None
