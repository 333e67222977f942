"""The worker that runs flows, or queries over Spark's connector: ``python -m bench.flow_job SIDE BOOTSTRAP SETTINGS``.

``SIDE`` is "semel", or "kafka" for the connector. Each job answers with its figure; the users' topics exist already.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import worker
from bench.flow_queries import Asked, flow_of, query_of
from bench.spark_job import MASTER, PARTITIONS, ROWS_PER_MICRO_BATCH
from semel import Consumer, TopicPartition
from semel.core.sink.ranges import SourceRange
from semel.flow.on_spark import FlowOnSpark
from semel.flow.plan import Stage
from semel.flow.stage_ranges import Cuts, ranges_of
from semel.flow.stage_state import TaskState, changelog_of
from semel.flow.task import sink_options
from semel.flow.topics import made_topics
from semel.spark import session
from semel.spark.offsets import EARLIEST, from_json, ids_from_json
from semel.spark.options import Connection, Position, SourceOptions
from semel.spark.planning import ReadRange
from semel.spark.process import connect
from semel.spark.resuming import resume
from semel.spark.runs import plan_batch
from semel.spark.stream_ranges import tables

FIRST_ROW_TIMEOUT_S = 240.0


class Side:
    """What both sides can be asked."""

    def __init__(self, bootstrap: str, settings: dict[str, str]) -> None:
        quiet = {"spark.log.level": "ERROR", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
        self.spark: SparkSession = session("bench", MASTER, quiet | settings)
        self.bootstrap = bootstrap

    def do(self, job: str, asked: dict[str, Any], **more: Any) -> float:
        return float(getattr(self, job)(Asked(**asked), **more))

    def first_row(self, asked: Asked, ends: list[int]) -> float:
        """Start, and go on until a row stands behind ``ends`` in the target; when, by the clock of all processes."""
        (target,) = asked.targets
        with Consumer(self.bootstrap) as consumer:
            consumer.assign({TopicPartition(target, number): end for number, end in enumerate(ends)})
            self.start(asked)
            give_up_s = time.monotonic() + FIRST_ROW_TIMEOUT_S
            while time.monotonic() < give_up_s:
                if consumer.poll(0.2, 1):
                    return time.monotonic()
        raise RuntimeError(f"no row in {FIRST_ROW_TIMEOUT_S:.0f} s")

    def start(self, asked: Asked) -> None:
        raise NotImplementedError


class Flows(Side):
    """semel's."""

    def run(self, asked: Asked, rows: int) -> float:
        """To the end of the topics; M rows/s over the micro-batches of all stages, which run one after the other."""
        running = self._flow(asked)
        running.run_to_the_end()
        return rows / sum(map(_worked_ms, running.queries.values())) / 1e3

    def start(self, asked: Asked) -> None:
        self._flow(asked).start()

    def _flow(self, asked: Asked) -> FlowOnSpark:
        plan = flow_of(asked).plan()
        return FlowOnSpark(plan, self.bootstrap, self.spark, store=Path(asked.folder))

    # --- a large state ----------------------------------------------------------------------------------------

    def restore(self, asked: Asked, keys: int) -> float:
        """The state of the count, anew in an empty folder, partition by partition in this process; M keys/s."""
        shutil.rmtree(asked.folder, ignore_errors=True)
        stage, ranges, ticket = self._decided(asked)
        found = 0
        started_s = time.perf_counter()
        for each in ranges:
            with TaskState(stage, self._connection, ticket, each, Path(asked.folder)) as state:
                found += state.load().meta.key_count
        took_s = time.perf_counter() - started_s
        if found != keys:
            raise RuntimeError(f"{found} keys were restored instead of {keys}")
        return keys / took_s / 1e6

    def read_changelog(self, asked: Asked, keys: int) -> float:
        """The same part of the changelog, read as semel's source reads; M keys/s, too."""
        stage, ranges, ticket = self._decided(asked)
        read = 0
        started_s = time.perf_counter()
        for each in ranges:
            changelog = changelog_of(stage, each.source.partition)
            start = ticket.states[each.writer].changelog_from
            end = ticket.scan_from(each.writer, changelog)
            options = SourceOptions(self._connection, (changelog.topic,), start=Position(default=EARLIEST))
            planned = ReadRange(SourceRange(changelog, start, end), start, end)
            read += sum(table.num_rows for table in tables(options, planned))
        took_s = time.perf_counter() - started_s
        if read < keys:
            raise RuntimeError(f"{read} messages for {keys} keys")
        return keys / took_s / 1e6

    def _decided(self, asked: Asked) -> tuple[Stage, list[SourceRange], Any]:
        """The stage with state, what its next tasks would begin with, and their ticket."""
        self._connection = Connection(self.bootstrap, "bench")
        plan = made_topics(connect(self._connection), flow_of(asked).plan())
        (stage,) = (stage for stage in plan.stages if stage.has_state)
        resumed = resume(self._connection, stage.sink_id)
        begun = ranges_of(stage, self._connection, Cuts(), resumed).initial()
        ids = ids_from_json(begun)
        ranges = [
            SourceRange(tp, end, end + 1, topic_id=ids[tp.topic], from_topic_id=ids[tp.topic])
            for tp, end in from_json(begun).items()
        ]
        options = sink_options(stage, self._connection, resumed.sink_epoch)
        return stage, ranges, plan_batch(options, f"bench:{uuid.uuid4()}")


class Queries(Side):
    """Those over Spark's Kafka connector."""

    def run(self, asked: Asked, rows: int) -> float:
        """To the end of the topics; M rows/s over the micro-batches."""
        query = self._written(asked).trigger(availableNow=True).start()
        query.awaitTermination()
        return rows / _worked_ms(query) / 1e3

    def start(self, asked: Asked) -> None:
        self._written(asked).trigger(processingTime="0 seconds").start()

    def _written(self, asked: Asked) -> Any:
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("subscribe", ",".join(asked.sources)).option("startingOffsets", "earliest")
        frame, mode = query_of(asked.work, reader.option("maxOffsetsPerTrigger", ROWS_PER_MICRO_BATCH).load())
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        return (
            writer.option("topic", asked.targets[0])
            .option("checkpointLocation", asked.folder)
            .outputMode(mode)
        )


def _worked_ms(query: Any) -> int:
    """What the micro-batches with rows took; known by their offsets, as the connector's rows may not be counted."""
    progress = [json.loads(each.json) for each in query.recentProgress]
    worked = [
        each for each in progress if any(of["startOffset"] != of["endOffset"] for of in each["sources"])
    ]
    if not worked:
        raise RuntimeError(f"no micro-batch had rows: {progress}")
    return sum(int(each["durationMs"]["triggerExecution"]) for each in worked)


def main() -> None:
    side, bootstrap, settings = sys.argv[1:]
    # A state store for each of Spark's 200 partitions would be the connector's whole time.
    few = {"spark.sql.shuffle.partitions": str(PARTITIONS)}
    worker.serve({"semel": Flows, "kafka": Queries}[side](bootstrap, few | json.loads(settings)).do)


if __name__ == "__main__":
    main()
