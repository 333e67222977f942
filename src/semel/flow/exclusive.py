"""A flow of one stage that makes one row of each, without a decision log: the output says how far it has come.

Each input partition has an identity of its own, which writes into the output partition of the same number, and nobody
else does. At a start the identity is taken with a raised epoch, fenced, and its data rows in the output are counted:
so many rows of the input are done. What that rests on is said in :mod:`semel.core.flow.exclusive`. Beside it:

* The identity's name has the input topic's id. One that is made anew has another identity, whose first start finds
  rows of somebody else in the output, and stops: by name it would go on in the middle of other rows.
* Rows of anybody else in the output stop it as well. They may be its own, under an id that the brokers have forgotten
  with its name, and counted as none.
* A row that cannot be read, or that a step fails at, stops it: laid aside, it would be missing in the count. What came
  before is stored, and the mended flow goes on there.

The planner never picks this: see docs/patterns/exclusive-producer.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from semel.client.blocking import Cluster
from semel.client.unreadable import tables_of
from semel.core.dead_letter import WHY_HEADER
from semel.core.flow.chain import DECODE
from semel.core.flow.exclusive import InputPartition, NotExclusive, WhyNot, continues, first_gap
from semel.core.flow.pieces import Entry, Piece
from semel.core.sink.own_topics import OWN_TOPIC_CONFIGS
from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    ErrorCode,
    PlanNotSupported,
    SinkFenced,
    StepFailed,
    UnreadableBatch,
)
from semel.flow.here import in_turns
from semel.flow.plan import Plan, Stage, StageKind
from semel.flow.rows_in import cut_at_offsets, piece_of
from semel.flow.task import chain_of
from semel.record.columnar import encode_columns
from semel.sequence import advance
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.reading import headers_in, read_range
from semel.spark.sink_log import (
    APPEND_TIMEOUT_MS,
    RETRY_PAUSE_MS,
    cleanup_policy,
    create_topic,
    produce_until_answered,
    topic_partition_count,
)
from semel.spark.takeover import fence_writers
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition
from semel.wording import counted

ROWS_MAX: Final = 100_000  # of one turn of a partition
START_OFFSET: Final = 0  # an input is gone through from its first row
_UNREADABLE: Final = (
    "its rows would be missing where rows are counted. Run the flow with a decision log, or over a copy of the topic "
    "that leaves the batch out"
)
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


@dataclass(frozen=True, slots=True)
class Written:
    """What one turn of a partition did."""

    partition: int
    row_count: int
    offset: int  # of the input, where it goes on


def run_exclusive(
    plan: Plan,
    bootstrap: str,
    *,
    until_idle: bool = False,
    stop: threading.Event | None = None,
    told: Callable[[Written], None] = lambda written: None,
) -> None:
    """Run a flow of maps until ``stop`` is set, or with ``until_idle`` to the end of what its input has now.

    ``ConfigError`` for a flow that it is not for; nothing was made or written then. ``PlanNotSupported`` where the
    topics are not what can be counted by, ``SinkFenced`` where another copy was started: what is stored stays.
    """
    stage = check_is_exclusive(plan)
    connection = Connection(bootstrap, f"semel-flow-{plan.flow}")
    count = _made_output(connect(connection), stage)
    partitions = [ExclusivePartition(stage, connection, number) for number in range(count)]
    if until_idle:
        for each in partitions:
            each.fix_target()
    in_turns([each.step for each in partitions], stop or threading.Event(), told, until_idle=until_idle)


def check_is_exclusive(plan: Plan) -> Stage:
    """The one stage of a flow from one topic to one, which keeps the records' keys."""
    if len(plan.stages) != 1:
        raise _not_for(plan, f"it has {len(plan.stages)} stages")
    (stage,) = plan.stages
    if stage.is_stateful:
        raise _not_for(plan, "it has a merge log")
    if stage.kind is StageKind.FRAME:
        raise _not_for(plan, "it has steps of Spark's")
    if stage.output.key:
        raise _not_for(plan, "it gives its rows another key, by which they lie in other partitions")
    refused = continues(InputPartition(stage.inputs[0].topic, 0, 0, 0), {}, 1, stage.steps)
    if isinstance(refused, NotExclusive):
        raise _not_for(plan, refused.evidence)
    return stage


class ExclusivePartition:
    """One input partition, and the identity that writes what it gives."""

    def __init__(self, stage: Stage, connection: Connection, number: int) -> None:
        self._stage, self._cluster = stage, connect(connection)
        self._source = TopicPartition(stage.inputs[0].topic, number)
        self._output = TopicPartition(stage.output.topic, number)
        self._topic_id = str(self._cluster.topic(self._source.topic).topic_id)
        self._grant: ProducerGrant | None = None
        self._sequence = 0
        self._offset = START_OFFSET
        self._target: int | None = None

    @property
    def identity(self) -> str:
        """The name under which its rows are written."""
        return f"semel.exclusive.{self._stage.sink_id}/{self._topic_id}/{self._source.partition}"

    def fix_target(self) -> None:
        """From now on it ends at what its input has now, however fast that grows."""
        self._target = self._end(self._source, LATEST_TIMESTAMP)

    def step(self) -> Written | None:
        """The next rows, ``None`` where there are none."""
        if self._grant is None:
            self._grant = self._begun()
        latest = self._end(self._source, LATEST_TIMESTAMP)
        target = latest if self._target is None else min(latest, self._target)
        end = min(target, self._offset + ROWS_MAX)
        if end <= self._offset:
            return None
        before = self._offset
        for table in cut_at_offsets(self._rows(self._input(end), before, end)):
            self._write(self._made(table))
            self._offset += table.num_rows
        return Written(self._source.partition, end - before, end)

    def _made(self, table: pa.Table) -> Piece:
        """What the steps make of these rows: as many."""
        entry, read = Entry(), piece_of(self._stage.inputs[0], 0, table, self._source)
        pieces = chain_of(self._stage).start().process([read], entry)
        for side in entry.side:
            row = 0 if side.offsets is None else int(side.offsets[0] - table.column("offset")[0].as_py())
            why = {pair["key"]: pair["value"] for pair in side.headers[0].as_py()}[WHY_HEADER].decode()
            raise StepFailed(DECODE, read.place(row), f"{why}. It would be missing where rows are counted")
        (piece,) = pieces
        return piece

    def _write(self, piece: Piece) -> None:
        """One request at a time: on Apache Kafka a repeated one is a duplicate only as long as it is the newest."""
        grant = self._grant
        assert grant is not None
        batches = encode_columns(
            piece.keys if self._stage.output.key == () else None,
            piece.values(),
            this_process().clock.now_ms(),
            producer_id=grant.producer_id,
            producer_epoch=grant.producer_epoch,
            base_sequence=self._sequence,
        )
        for batch in batches:
            answer = produce_until_answered(self._cluster, {self._output: batch})[self._output]
            code = ErrorCode.of(answer.error_code)
            if code in _FENCED:
                raise SinkFenced(
                    f"another copy of {self.identity!r} was started, and has taken {self._output} over. What this one "
                    f"has stored stays, and the other goes on behind it"
                )
            if code is not ErrorCode.NONE and code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                raise BrokerError(
                    code, f"writing to {self._output} (start it again: it counts what is stored)"
                )
        self._sequence = advance(self._sequence, len(piece))

    # -- where it goes on --------------------------------------------------------------------------------------

    def _begun(self) -> ProducerGrant:
        for topic in (self._source.topic, self._output.topic):
            if "compact" in cleanup_policy(self._cluster, topic):
                compacted = f"{topic} is compacted: rows are taken out of it, so that they cannot be counted"
                self._stop_at(NotExclusive(WhyNot.GAPS, compacted))
        grant = self._cluster.init_producer_id(transactional_id=self.identity)
        fence_writers(
            self._cluster, self.identity, {(grant.producer_id, grant.producer_epoch): [self._output]}
        )
        stored = self._stored(grant)
        read = self._input(self._end(self._source, LATEST_TIMESTAMP))
        found = continues(read, {self._output.partition: stored}, 1, self._stage.steps)
        if isinstance(found, NotExclusive):
            raise _refused(found)
        for _ in self._rows(read, found.unproven.start, found.unproven.stop):
            pass  # each offset that is passed over is a row, as it was when the row that was made of it was written
        self._offset = found.offset
        return grant

    def _input(self, end: int) -> InputPartition:
        start = self._end(self._source, EARLIEST_TIMESTAMP)
        return InputPartition(str(self._source), START_OFFSET, start, end)

    def _stored(self, grant: ProducerGrant) -> int:
        """The data rows of the identity in front of its fence: no older copy comes in behind that."""
        start = self._end(self._output, EARLIEST_TIMESTAMP)
        if start > 0:
            gone = f"{self._output} begins at offset {start}: rows that were trimmed there cannot be counted"
            self._stop_at(NotExclusive(WhyNot.TRIMMED, gone))
        clock = this_process().clock
        deadline_ms, position, stored = clock.elapsed_ms() + APPEND_TIMEOUT_MS, start, 0
        while True:
            end = self._end(self._output, LATEST_TIMESTAMP)
            for header in headers_in(self._cluster, self._output, position, end):
                if not header.is_control:
                    if header.producer_id != grant.producer_id:
                        self._stop_at(self._others(header.base_offset))
                    stored += header.record_count
                elif ProducerGrant(header.producer_id, header.producer_epoch) == grant:
                    return stored
            position = end
            if clock.elapsed_ms() > deadline_ms:
                raise ConnectionLost(f"{self._output} does not show the fence that is stored there")
            clock.pause(RETRY_PAUSE_MS)

    def _others(self, offset: int) -> NotExclusive:
        return NotExclusive(
            WhyNot.OTHER_INPUT,
            f"{self._output} has rows of another producer, the first at offset {offset}: somebody else's, those of "
            f"another input, or its own under an id that the brokers have forgotten. Which of the input's rows are "
            f"done cannot be known",
        )

    def _rows(self, read: InputPartition, start: int, end: int) -> Iterator[pa.Table]:
        """The input's rows; stops at the first offset that is none."""
        expected = start
        for batches in read_range(self._cluster, self._source, start, end, topic_id=self._topic_id):
            for table in tables_of(self._source, [batch for batch, _ in batches], start, end):
                if isinstance(table, UnreadableBatch):
                    raise table.with_way_on(_UNREADABLE)
                self._stop_at(first_gap(read, expected, np.asarray(table.column("offset"))))
                expected += table.num_rows
                yield table
        self._stop_at(first_gap(read, expected, np.array([end])) if expected < end else None)

    # -- what is asked of the cluster, and what stops it -------------------------------------------------------

    def _end(self, tp: TopicPartition, which: int) -> int:
        return self._cluster.list_offsets({tp: which})[tp].offset

    @staticmethod
    def _stop_at(refused: NotExclusive | None) -> None:
        if refused is not None:
            raise _refused(refused)


def _refused(refused: NotExclusive) -> PlanNotSupported:
    return PlanNotSupported(
        f"{refused.why.value}: {refused.evidence}. What was written before stays, and nothing came behind it. Run the "
        f"flow without exclusive producers, into a topic of its own"
    )


def _made_output(cluster: Cluster, stage: Stage) -> int:
    """The number of partitions, which input and output have in common."""
    source, output = stage.inputs[0].topic, stage.output.topic
    count = topic_partition_count(cluster, source)
    if count is None:
        raise ConfigError(
            f"flow {stage.flow!r} reads topic {source!r}, and there is none. Nothing was written"
        )
    found = topic_partition_count(cluster, output)
    if found is None:
        create_topic(cluster, output, count, OWN_TOPIC_CONFIGS)
    elif found != count:
        raise ConfigError(
            f"topic {source!r} has {counted(count, 'partition')} and {output!r} {found}, and the rows of each go to "
            f"the one of its number. Nothing was written"
        )
    return count


def _not_for(plan: Plan, why: str) -> ConfigError:
    return ConfigError(
        f"flow {plan.flow!r} cannot be run by exclusive producers, which make one row of each row of a topic: {why}. "
        f"Nothing was made or written. Run it as other flows are"
    )
