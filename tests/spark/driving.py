"""A driver and its tasks in this process, step by step, by the same functions that Spark calls."""

from __future__ import annotations

import pyarrow as pa

from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.task import Attempted, TaskReport, may_write
from semel.spark.commit import decide_batch
from semel.spark.options import SinkOptions
from semel.spark.refusing import allow
from semel.spark.runs import plan_batch
from semel.spark.task_write import TaskWrite
from semel.types import TopicPartition

SOURCE = TopicPartition("in", 0)


class Driver:
    """Of one sink; whoever makes it gives it a connection of its own, and so caches of its own."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def plan(self):
        return plan_batch(self.options, self.options.connection.client_id)

    def task(self, ticket, first: int, end: int, sent: int | None = None):
        """The task of offsets ``first`` to ``end``; only the first ``sent`` rows, if that is said."""
        source_range = SourceRange(SOURCE, first, end)
        writer = source_range.writer
        if allow(may_write(ticket, source_range, "q")) is Verdict.SKIP:
            return Attempted(TaskReport(writer, source_range, -1, 0, skipped=True), False)
        values = pa.array(numbers(first, end if sent is None else first + sent))
        batches = [
            pa.record_batch({"value": values.slice(0, 3)}),
            pa.record_batch({"value": values.slice(3)}),
        ]
        task = TaskWrite(self.options, ticket, writer, source_range, 1, 0, "q")
        return Attempted(task.run(batch for batch in batches if batch.num_rows), task.duplicates)

    def decide(self, ticket, attempted, batch_id: int):
        return decide_batch(self.options, ticket, [attempted], "q", batch_id)

    def micro_batch(self, first: int, end: int, batch_id: int) -> None:
        """A whole one, without any trouble."""
        ticket = self.plan()
        self.decide(ticket, self.task(ticket, first, end), batch_id)


def numbers(first: int, end: int) -> list[bytes]:
    """The rows of offsets ``first`` to ``end``."""
    return [b"%04d" % number for number in range(first, end)]
