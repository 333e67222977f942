"""A driver of its own, to be killed: copies a topic until all is there. Slow on purpose when asked to be.

``python copying_driver.py BOOTSTRAP SOURCE SINK CHECKPOINT SECONDS_A_BATCH``
"""

from __future__ import annotations

import sys
import time

from semel.spark import session


def main() -> None:
    bootstrap, source, sink, checkpoint, seconds = sys.argv[1:]
    pause_s = float(seconds)

    def slowly(batches):
        for batch in batches:
            yield batch
            time.sleep(pause_s)

    spark = session("copy", "local[2]", {"spark.sql.execution.arrow.maxRecordsPerBatch": "50"})
    frame = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
    )
    query = (
        frame.mapInArrow(slowly, "value binary")
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("sinkId", "copied")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
