"""Programs of their own, as a user starts them: which Python Spark's workers are, and what it says meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(330)]

COPY = """
import sys
bootstrap, source, sink = sys.argv[1:]
{session}
(
    spark.read.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", source)
    .load()
    .select("value")
    .mapInArrow(lambda batches: batches, "value binary")
    .write.format("semel")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", sink)
    .option("kafka.linger.ms", "5")
    .mode("append")
    .save()
)
"""
PLAIN = COPY.format(
    session="""
from pyspark.sql import SparkSession
import semel.spark
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
semel.spark.register(spark)
"""
)
OURS = COPY.format(session="from semel.spark import session\nspark = session(master='local[1]')")


@pytest.fixture
def copied(log, tmp_path):
    """``copied(program, **environment)``: what it printed, once its copy of three rows has been compared."""

    def run(program: str, **environment: str) -> str:
        source, sink = log.topic("in"), log.topic("out")
        log.write(source, [b"a", b"b", b"c"])
        as_users_have_it = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        script = tmp_path / "job.py"
        script.write_text(program)
        done = subprocess.run(
            [sys.executable, script, log.bootstrap, source, sink],
            env={**as_users_have_it, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert log.values(sink) == [b"a", b"b", b"c"]
        return done.stderr

    return run


def test_a_venv_that_is_not_activated(copied, tmp_path, monkeypatch):
    """The PATH's python3 has neither PySpark nor semel; `venv/bin/python job.py` has."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    copied(PLAIN, PATH=f"{folder}:/usr/bin:/bin")


def test_the_session_registers_nothing_that_spark_finds_by_itself(copied):
    said = copied(OURS)
    assert "statically registered" not in said
    assert "option kafka.linger.ms is ignored: " in said  # by a worker, and it is seen


STREAM = """
import sys
import pyspark
from semel.spark import session
assert pyspark.__version__.startswith("4.2."), pyspark.__version__
bootstrap, source, sink = sys.argv[1:]
for _ in range(2):
    (
        session(master="local[1]").readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "2")
        .load()
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .options(topic=sink, sinkId=sink, checkpointLocation=sys.argv[0] + ".checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
"""


def test_the_oldest_pyspark_that_will_do(copied, older_pyspark):
    copied(STREAM, PYTHONPATH=str(older_pyspark))
