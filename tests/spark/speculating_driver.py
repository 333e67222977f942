"""A driver whose first task is so slow that Spark starts a second copy of it.

``python speculating_driver.py BOOTSTRAP SOURCE SINK CHECKPOINT``: source partition 0's first attempt sleeps
between its rows; Spark speculates on a cluster of two local executors only, not in ``local`` mode.
"""

from __future__ import annotations

import sys
import time

from semel.spark import session

SLOW_S = 20


def main() -> None:
    bootstrap, source, sink, checkpoint = sys.argv[1:]

    def slowly(batches):
        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            yield batch
            if task.partitionId() == 0 and task.attemptNumber() == 0:
                time.sleep(SLOW_S)

    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.executor.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.log.level": "ERROR",
    }
    spark = session("speculating", "local-cluster[2,1,768]", settings)
    frame = spark.readStream.format("semel").option("kafka.bootstrap.servers", bootstrap)
    rows = frame.options(subscribe=source, startingOffsets="earliest").load().select("value")
    writer = rows.mapInArrow(slowly, "value binary").writeStream.format("semel")
    writer = writer.option("kafka.bootstrap.servers", bootstrap)
    writer = writer.options(topic=sink, sinkId="speculated", checkpointLocation=checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
