"""A query at least once: Spark's own Kafka connector reads ``clicks`` and writes ``dirty``, with lineage.

``python -m tests.flow.doubling_job BOOTSTRAP JARS CHECKPOINT ROWS_MAX``
"""

from __future__ import annotations

import sys

from semel.spark import lineage, session


def main() -> None:
    bootstrap, jars, checkpoint, rows_max = sys.argv[1:]
    quiet = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR", "spark.ui.enabled": "false"}
    spark = session("doubling", "local[2]", {"spark.jars": jars, **quiet})
    clicks = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    clicks = clicks.option("subscribe", "clicks").option("startingOffsets", "earliest")
    rows = clicks.option("maxOffsetsPerTrigger", rows_max).load()
    words = rows.selectExpr(
        "topic", "partition", "offset", "posexplode(split(CAST(value AS STRING), ' ')) AS (at, word)"
    )
    made = words.select(
        words.word.cast("binary").alias("key"),
        words.word.cast("binary").alias("value"),
        lineage(bootstrap, "clicks", index=words["at"]).alias("headers"),
    )
    writer = made.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", "dirty").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
