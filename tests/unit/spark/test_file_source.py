"""The descriptor source while its directory is there, away, and back."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from millrace.connectors.files import Files
from millrace.spark.file_source import FileReader
from millrace.spark.outages import Outages


def reader(tmp_path: Path, data: Path) -> FileReader:
    return FileReader(
        {
            "root": str(tmp_path / "root"),
            "stream": "my trades",
            "listing": "millrace_trades_1",
            "source": json.dumps(Files(str(data)).to_json()),
            "pace": str(tmp_path / "pace.json"),
            "tasks": "2",
        }
    )


def test_a_directory_that_is_away_offers_nothing_new_and_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, limit, outages = tmp_path / "data", ReadAllAvailable(), Outages(tmp_path)
    data.mkdir()
    (data / "a.ndjson").write_text("{}")
    source = reader(tmp_path, data)
    first = source.latestOffset(source.initialOffset(), limit)
    away = data.rename(tmp_path / "away")
    (away / "b.ndjson").write_text("{}")

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert source.latestOffset(first, limit) == first == {"splits": 1}
            outages.look()
        during = dict(outages.now)
        away.rename(data)
        after = source.latestOffset(first, limit)
        outages.look()

    assert during["my trades"].tries == 3
    assert f'directory "{data}" cannot be listed: The system says' in during["my trades"].message
    assert after == {"splits": 2}
    assert (outages.now, outages.n_begun) == ({}, 1)
    begin, end = [each.getMessage() for each in caplog.records]
    assert begin.startswith('stream "my trades" waits: directory')
    assert end.startswith('stream "my trades" goes on')


def test_a_directory_that_is_away_at_the_start_is_no_failure(tmp_path: Path) -> None:
    source = reader(tmp_path, tmp_path / "nowhere")

    assert source.latestOffset({"splits": 0}, ReadAllAvailable()) == {"splits": 0}


def test_a_file_that_is_written_again_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "a.ndjson"
    path.write_text("{}")
    source, outages = reader(tmp_path, path.parent), Outages(tmp_path)
    first = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    path.write_text("{}{}")

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            source.latestOffset(first, ReadAllAvailable())
            outages.look()

    told = f'file "{path}" changed after it was listed, and what is new in it is not read'
    assert [each.getMessage() for each in caplog.records] == [told]
