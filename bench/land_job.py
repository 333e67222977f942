"""The worker of section ``land``: ``python -m bench.land_job SIDE BOOTSTRAP SETTINGS-AS-JSON``.

``SIDE`` is "kafka" for a query of Spark's over its connector into its Parquet sink, else ``semel land`` in this
process. A job reads a whole topic into a table that is not there yet, and answers M rows/s.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench import worker
from bench.flow_queries import COLUMNS

MASTER = "local[2]"
ROWS_PER_COMMIT = 1_000_000


class Query:
    """Spark's side: micro-batches of as many rows as semel commits at once."""

    def __init__(self, bootstrap: str, settings: dict[str, str]) -> None:
        from semel.spark import session

        quiet = {"spark.log.level": "ERROR", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        self._spark, self._bootstrap = session("bench-land", MASTER, quiet | settings), bootstrap

    def do(self, work: str, topic: str, table: str, rows: int) -> float:
        """Over its micro-batches, without the query's start."""
        from pyspark.sql import functions

        read = self._spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        read = read.option("subscribe", topic).option("startingOffsets", "earliest")
        frame: Any = read.option("maxOffsetsPerTrigger", ROWS_PER_COMMIT).load()
        record = ["topic", "partition", "offset", "timestamp", "key"]
        if work == "json":
            parsed = functions.from_json(functions.col("value").cast("string"), COLUMNS).alias("value")
            frame = frame.select(*record, parsed).select("value.*", *record)
        else:
            frame = frame.select(*record, "value")
        query = (
            frame.writeStream.format("parquet")
            .option("path", table)
            .option("checkpointLocation", f"{table}-checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [json.loads(each.json) for each in query.recentProgress]
        return rows / sum(int(each["durationMs"]["triggerExecution"]) for each in progress) / 1e3


class Landed:
    """semel's side."""

    def __init__(self, bootstrap: str, table_format: str) -> None:
        self._bootstrap, self._format = bootstrap, table_format

    def do(self, work: str, topic: str, table: str, rows: int) -> float:
        """From the start of the job to its end: the fence and the making of the table are in it."""
        from semel.client.blocking import Cluster
        from semel.core.land.bounds import CommitBounds
        from semel.land.formats import TableFormat, ValueFormat
        from semel.land.job import Job, run_job
        from semel.land.run import LandPlan

        job = Job(
            name="bench",
            table=Path(table),
            plan=LandPlan(topics=[topic], bounds=CommitBounds(rows=ROWS_PER_COMMIT), until_end=True),
            table_format=TableFormat(self._format),
            value_format=ValueFormat.JSON if work == "json" else ValueFormat.RAW,
            schema=COLUMNS if work == "json" else None,
        )
        started_s = time.perf_counter()
        with Cluster(self._bootstrap) as cluster:
            run_job(job, cluster)
        return rows / (time.perf_counter() - started_s) / 1e6


def main() -> None:
    side, bootstrap, settings = sys.argv[1:]
    hand = Query(bootstrap, json.loads(settings)) if side == "kafka" else Landed(bootstrap, side)
    worker.serve(hand.do)


if __name__ == "__main__":
    main()
