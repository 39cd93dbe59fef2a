"""The home that Spark is started from."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from millrace.spark.spark_home import spark_home

pytestmark = pytest.mark.spark

PACKAGE = Path(pyspark.__file__).parent


def test_a_home_has_the_jars_but_not_the_archive_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    home = spark_home()

    assert (home / "jars").resolve() == PACKAGE / "jars"
    assert not (home / "python").exists()
    assert spark_home() == home


def test_where_no_home_can_be_made_the_package_is_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert spark_home() == PACKAGE


def test_workers_import_the_package_that_is_installed(spark: SparkSession) -> None:
    def where(_: object) -> list[str]:
        import pyspark.worker  # noqa: PLC0415

        return [str(pyspark.worker.__file__)]

    found = spark.sparkContext.parallelize([1], 1).mapPartitions(where).collect()

    assert [Path(each).parent for each in found] == [PACKAGE]
