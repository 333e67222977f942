"""The program that the driver loop kills: a streaming query that copies one topic to another, exactly once.

``python -m tests.loops.driver BOOTSTRAP CHECKPOINT until-killed|available-now``
"""

from __future__ import annotations

import sys

from semel.spark import session

INPUT = "input"
OUTPUT = "output"
SINK_ID = "loop"
ROWS_PER_TRIGGER = 2_000


def main() -> None:
    bootstrap, checkpoint, mode = sys.argv[1:]
    spark = session(master="local[2]")
    source = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", INPUT)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_PER_TRIGGER))
        .load()
    )
    writer = (
        source.select("key", "value")
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", OUTPUT)
        .option("sinkId", SINK_ID)
        .option("checkpointLocation", checkpoint)
    )
    if mode == "available-now":
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    sys.stdout.write("running\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main()
