"""What stays in a worker of Spark's is left out of the garbage collection that follows each piece of work."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from semel.spark import register
from semel.spark.worker_heap import freeze_heap

AS_DAEMON = """
import gc, sys
from importlib.machinery import ModuleSpec
from semel.spark.worker_heap import freeze_heap

sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
counts = []
for _ in range(2):
    stays = [[] for _ in range(1000)]
    freeze_heap()
    counts.append(gc.get_freeze_count())
print(*counts)
"""


def freeze_counts(main_module: str) -> list[int]:
    command = [sys.executable, "-c", AS_DAEMON, main_module]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [int(count) for count in answer.stdout.split()]


def test_once_in_a_process_and_only_in_a_fork_of_the_daemon():
    first, second = freeze_counts("pyspark.daemon")
    assert first > 1000
    assert second <= first  # what came later is collected as ever
    assert freeze_counts("pytest") == [0, 0]
    freeze_heap()
    assert gc.get_freeze_count() == 0


@pytest.mark.spark
@pytest.mark.slow
def test_in_the_workers_that_have_read(spark, log, source):
    register(
        spark
    )  # a format that Spark has found by itself has workers of its own, apart from those of functions
    topic = log.topic("t", 4)
    for partition in range(4):
        log.write(topic, [b"a", b"b"], partition=partition)
    assert source(topic).count() == 8

    def freeze_count(batches):
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.record_batch({"count": pa.array([gc.get_freeze_count()])})

    # The pool hands its idle workers out in turn: so many tasks come to each of them.
    tasks = spark.range(0, 64, 1, 64).mapInArrow(freeze_count, "count long").collect()
    assert max(row["count"] for row in tasks) > 10_000
