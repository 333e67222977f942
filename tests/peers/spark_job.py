"""The Spark programs of the peers' tests, each in a process (and JVM) of its own.

``python -m tests.peers.spark_job connector BOOTSTRAP JARS CHECKPOINT``: Spark's own Kafka connector writes,
reads and copies. ``… semel BOOTSTRAP MASTER CHECKPOINT [OUTPUT_BOOTSTRAP]``: our source reads, our sink
copies. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from semel.spark import session

ROWS = 5_000


def copy(spark: Any, connector: str, bootstrap: str, output: str, checkpoint: str, **sink: str) -> None:
    """One streaming query from topic ``in`` to topic ``out``, to the end of what is there."""
    source = spark.readStream.format(connector).option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", "in").option("startingOffsets", "earliest").load()
    writer = rows.select("key", "value").writeStream.format(connector).option("topic", "out")
    writer = writer.option("kafka.bootstrap.servers", output).options(**sink)
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def summary(spark: Any, connector: str, bootstrap: str, topic: str) -> list[int]:
    """Rows, distinct values, and the sum of the values, as a batch read sees them."""
    reader = spark.read.format(connector).option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("subscribe", topic).load()
    numbers = rows.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition", "offset")
    return list(numbers.selectExpr("count(n)", "count(DISTINCT n)", "sum(n)").first())


def main() -> None:
    kind, bootstrap, *rest = sys.argv[1:]
    quiet = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    if kind == "connector":
        jars, checkpoint = rest
        spark = session("connector", "local[2]", {"spark.jars": jars, **quiet})
        numbers = spark.range(ROWS).selectExpr("CAST(id % 97 AS STRING) key", "CAST(id AS STRING) value")
        writer = numbers.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        writer.option("topic", "in").save()
        copy(spark, "kafka", bootstrap, bootstrap, checkpoint)
        found = {topic: summary(spark, "kafka", bootstrap, topic) for topic in ("in", "out")}
    else:
        master, checkpoint, *elsewhere = rest
        output = elsewhere[0] if elsewhere else bootstrap
        cluster = {"spark.cores.max": "2", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
        ready = {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}
        conf = quiet if master.startswith("local") else {**quiet, **cluster, **ready}
        spark = session("semel", master, conf)
        copy(spark, "semel", bootstrap, output, checkpoint, sinkId="peers")
        found = {
            "in": summary(spark, "semel", bootstrap, "in"),
            "out": summary(spark, "semel", output, "out"),
        }
    json.dump(found, sys.stdout)
    spark.stop()


if __name__ == "__main__":
    main()
