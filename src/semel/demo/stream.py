"""The pipeline, a child of the demo: ``python -m semel.demo.stream``; its driver is killed in mid-batch.

Parse, join with the airlines (broadcast), enrich, write: no shuffle, so that rows stay in order. It reads
what is there and ends; started again on the same checkpoint and sink id it continues.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa

from semel.demo.data import airlines

# A driver that lives for seconds never earns back what the optimising compiler costs on two processors.
_SHORT_LIVED_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SCHEMA: Final = (
    "time_hour string, carrier string, tailnum string, origin string, dest string, "
    "flight int, dep_delay int, arr_delay int, air_time int, distance int"
)


def stream(
    bootstrap: str,
    input_topic: str,
    output_topic: str,
    *,
    sink_id: str,
    checkpoint: str,
    rows_per_batch: int,
    scratch: Path,
) -> list[dict[str, object]]:
    """Run until all that is there has been written; what each micro-batch did.

    ``scratch`` takes the temporary files, which a killed Spark leaves behind.
    """
    from pyspark.sql import functions as F

    from semel.spark.session import session

    # local[2,4]: a task that loses the server is tried again, as it is on a cluster.
    conf = {
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={scratch}" {_SHORT_LIVED_JVM}',
    }
    spark = session("semel-demo", "local[2,4]", conf)
    carriers, airline_names = zip(*airlines(), strict=True)
    # As an Arrow table it is part of the plan: a list would be a job of its own.
    names = spark.createDataFrame(pa.table({"carrier": carriers, "airline": airline_names}))
    flight = F.from_json(F.col("value").cast("string"), _SCHEMA)
    query = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(rows_per_batch))
        .load()
        .select("key", flight.alias("flight"))
        .select("key", "flight.*")
        .join(F.broadcast(names), "carrier", "left")
        .withColumn("late", F.col("arr_delay") > 15)
        .withColumn("miles_per_hour", F.round(F.col("distance") / (F.col("air_time") / 60), 1))
        .select(
            "key",
            F.to_json(
                F.struct(
                    "time_hour",
                    "carrier",
                    "flight",
                    "airline",
                    "origin",
                    "dest",
                    "arr_delay",
                    "late",
                    "miles_per_hour",
                )
            ).alias("value"),
        )
        .writeStream.format("semel")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", output_topic)
        .option("sinkId", sink_id)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [
        {"batch_id": item["batchId"], "rows": item["numInputRows"]}
        for item in map(json.loads, (progress.json for progress in query.recentProgress))
    ]
    spark.stop()
    return batches


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "input", "output", "sink-id", "checkpoint"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rows-per-batch", type=int, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    options = parser.parse_args()
    options.scratch.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(options.scratch)
    batches = stream(
        options.bootstrap,
        options.input,
        options.output,
        sink_id=options.sink_id,
        checkpoint=options.checkpoint,
        rows_per_batch=options.rows_per_batch,
        scratch=options.scratch,
    )
    sys.stdout.write(json.dumps({"batches": batches}) + "\n")


if __name__ == "__main__":
    main()
