"""The `.slt` files again on Spark: those of some directories together in one streaming query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millrace.testing.slt_spark import Stage, run_together
from millrace.testing.slt_ways import SPARK_WAYS, SparkWay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
pytestmark = pytest.mark.spark


@pytest.mark.parametrize("way", SPARK_WAYS, ids=[way.name for way in SPARK_WAYS])
def test_files_say_what_happens_on_spark(
    way: SparkWay, spark: SparkSession, tmp_path: Path
) -> None:
    paths = way.files(HERE)
    assert len(paths) >= 6

    stage = Stage(tmp_path, spark, way)
    try:
        problems = run_together(paths, stage, way)
    finally:
        stage.close()

    assert not problems, "\n".join(problems)
