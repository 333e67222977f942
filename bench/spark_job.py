"""The worker that is a Spark driver: ``python -m bench.spark_job FORMAT BOOTSTRAP SETTINGS-AS-JSON``.

``FORMAT`` is "semel", or "kafka" for Spark's own connector. Each job answers with its figure; a job's topics
exist already.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from datetime import datetime
from typing import Any

from pyspark.sql import Observation, functions

from bench import worker
from semel.spark import session

MASTER = "local[2]"
PARTITIONS = 4
ROWS_PER_MICRO_BATCH = 1_000_000


class Jobs:
    """The works of the section, by name."""

    def __init__(self, data_format: str, bootstrap: str, settings: dict[str, str]) -> None:
        quiet = {"spark.log.level": "ERROR", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        self._spark = session("bench", MASTER, quiet | settings)
        self._format, self._bootstrap = data_format, bootstrap

    def do(self, work: str, **arguments: Any) -> float:
        return float(getattr(self, work)(**arguments))

    def write(self, topic: str, rows: int) -> float:
        """Rows made by Spark itself, as one batch write; M rows/s."""
        numbers = self._spark.range(0, rows, 1, PARTITIONS).selectExpr(
            "lpad(CAST(id % 100000000 AS STRING), 8, '0') AS key", "repeat(CHAR(97 + id % 26), 100) AS value"
        )
        started_s = time.perf_counter()
        self._sink(numbers.write.format(self._format), topic).mode("append").save()
        return rows / (time.perf_counter() - started_s) / 1e6

    def read(self, topic: str, rows: int) -> float:
        """The whole topic, all columns, into Spark's sink that drops rows; M rows/s."""
        seen = Observation()
        started_s = time.perf_counter()
        read = self._source(self._spark.read, topic).observe(seen, functions.count("value").alias("rows"))
        read.write.format("noop").mode("overwrite").save()
        took_s = time.perf_counter() - started_s
        if seen.get["rows"] != rows:
            raise RuntimeError(f"{seen.get['rows']} rows were read instead of {rows}")
        return rows / took_s / 1e6

    def copy(self, source: str, target: str, checkpoint: str, rows: int) -> float:
        """One streaming query in micro-batches of a million rows; M rows/s over its micro-batches."""
        progress = self._stream(source, target, checkpoint, ROWS_PER_MICRO_BATCH)
        took_ms = sum(int(each["durationMs"]["triggerExecution"]) for each in progress)
        return rows / took_ms / 1e3

    def tiny(self, source: str, target: str, checkpoint: str, batches: int) -> float:
        """Micro-batches of one row a partition: the median of the times from one to the next, in ms.

        The first five are left out: workers start in them.
        """
        progress = self._stream(source, target, checkpoint, PARTITIONS)
        starts = [datetime.fromisoformat(each["timestamp"]).timestamp() for each in progress]
        steps = [1e3 * (after - before) for before, after in itertools.pairwise(starts[5:])]
        if len(progress) < batches:
            raise RuntimeError(f"{len(progress)} micro-batches instead of {batches}")
        return statistics.median(steps)

    def _stream(self, source: str, target: str, checkpoint: str, rows_per_batch: int) -> list[Any]:
        """What Spark says of each micro-batch that had rows.

        They are known by their offsets: with the connector, Spark 4.3 may count no input rows.
        """
        reader = self._spark.readStream.option("maxOffsetsPerTrigger", rows_per_batch)
        rows = self._source(reader, source).select("key", "value")
        writer = self._sink(rows.writeStream.format(self._format), target)
        if self._format == "semel":
            writer = writer.option("sinkId", target)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start()
        query.awaitTermination()
        progress = [json.loads(each.json) for each in query.recentProgress]
        worked = [each for each in progress if any(map(_moved_on, each["sources"]))]
        if not worked:
            raise RuntimeError(f"no micro-batch had rows: {progress}")
        return worked

    def _source(self, reader: Any, topic: str) -> Any:
        reader = reader.format(self._format).option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def _sink(self, writer: Any, topic: str) -> Any:
        return writer.option("kafka.bootstrap.servers", self._bootstrap).option("topic", topic)


def _moved_on(source: dict[str, Any]) -> bool:
    return bool(source["startOffset"] != source["endOffset"])


def main() -> None:
    data_format, bootstrap, settings = sys.argv[1:]
    worker.serve(Jobs(data_format, bootstrap, json.loads(settings)).do)


if __name__ == "__main__":
    main()
