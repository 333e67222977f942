"""Produce: append each partition's batch, answer when it is as durable as asked.

acks=-1 and acks=1 wait for the high watermark (in durable mode: an fdatasync that started after the append); rows in
a transaction do not: it is its commit that waits for them (:mod:`semel.server.transaction_coordinator`).
With one replica both are the same in Kafka, too: there what the leader wrote is visible at once, here it is once
it is synced, and whoever was told of a row may look for it. acks=0 waits for nothing; a sync follows. A batch's fate
is one of the verdicts of ``core/producer_state/verdict.py``; a bad partition does not spoil the others. Batches that
are to be compressed again go into a line first (:mod:`semel.server.handlers.compressing`), and their answer waits.

The request's ``timeout_ms`` bounds nothing here: it limits the wait for other replicas, and there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from semel.core.log.admission import AppendOrigin
from semel.errors import CorruptRecordBatch, ErrorCode
from semel.record.batch import LOG_OVERHEAD_BYTES, BatchHeader, Compression, validate_batch
from semel.server import refusals
from semel.server.broker import Broker
from semel.server.handlers.compressing import (
    Waiting,
    append_in_line,
    has_records_to_name,
    join_line,
    must_wait,
)
from semel.server.handlers.transactional import is_still_open, origin_of, refusal_of_write, registers
from semel.server.outcome import AfterSync, Answer, Call, Compressing, Disconnect, Outcome
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.types import TopicIdPartition, TopicPartition
from semel.wire import produce
from semel.wire.frames import Buffer
from semel.wire.produce import ProducedPartition, ProducePartition

_NO_ACKS: Final = 0
_MAGIC_AT: Final = 16
_ZSTD_FROM: Final = 7  # an older client could not read it back (KIP-110)
NO_OUTCOME: Final = AppendOutcome(ErrorCode.NONE)  # until its partition has said


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    request = produce.decode_request(call.api_version, body)
    fates = [_Fate(item.topic, item.partition) for item in request.partitions]
    line: list[Waiting] = []
    for item, fate in zip(request.partitions, fates, strict=True):
        if request.acks not in (-1, 0, 1):
            reason = f"acks={request.acks} is none of -1, 0, 1"
            fate.outcome = AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS, error_message=reason)
            continue
        _append(broker, call, request.transactional_id, item, fate, line)
    if not line:
        return _conclude(broker, call, request.acks, fates)
    acks = request.acks  # the request itself holds the records

    async def compress_and_append(clock: Callable[[], int]) -> Answer | AfterSync | Disconnect:
        await append_in_line(broker, line, clock)
        for fate in fates:
            if fate.waiting is not None and fate.waiting.outcome is not None:
                fate.outcome = fate.waiting.outcome
        return _conclude(broker, call, acks, fates)

    held_bytes = sum(one.header.size_bytes for one in line)
    return Compressing(line[0].partition.name.topic, compress_and_append, held_bytes)


class _Fate:
    """What becomes of one partition's batch."""

    __slots__ = ("number", "origin", "outcome", "partition", "topic", "waiting")

    def __init__(self, topic: str | UUID, number: int) -> None:
        self.topic = topic
        self.number = number
        self.partition: Partition | None = None  # that it was given to
        self.origin = AppendOrigin.CLIENT
        self.waiting: Waiting | None = None  # its place in the line, if it had to go there
        self.outcome: AppendOutcome = NO_OUTCOME


def _conclude(
    broker: Broker, call: Call, acks: int, fates: Sequence[_Fate]
) -> Answer | AfterSync | Disconnect:
    """All is appended or refused: the answer, and what it has to wait for."""
    results: list[ProducedPartition] = []
    waiting: list[tuple[ProducedPartition, Partition, int]] = []
    behind: list[Partition] = []
    later: list[Partition] = []
    for fate in fates:
        partition, outcome = fate.partition, fate.outcome
        if outcome.error_code is not ErrorCode.INVALID_REQUIRED_ACKS:
            broker.counters.count_append(outcome)
        if outcome.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
            broker.note_storage_error(partition, outcome.error_message)
        result = ProducedPartition(
            fate.topic,
            fate.number,
            outcome.error_code,
            outcome.base_offset,
            outcome.log_append_time_ms,
            outcome.log_start_offset,
            outcome.error_message,
            outcome.record_errors,
        )
        results.append(result)
        if outcome.error_code:
            refusals.note(call.api_key, outcome.error_code, fate.topic, fate.number)
        is_appended = outcome.error_code is ErrorCode.NONE
        if is_appended and registers(fate.origin, call.api_version):
            states = broker.transactions.log.partition
            if states.high_watermark < states.log_end_offset:
                waiting.append((result, states, states.log_end_offset))
        if partition is not None and outcome.sync_offset > partition.high_watermark:
            if is_appended and fate.origin is AppendOrigin.TRANSACTION:
                (behind if partition.wants_sync else later).append(partition)
                partition.note_acknowledged(outcome.sync_offset)
            else:
                waiting.append((result, partition, outcome.sync_offset))
        elif partition is not None and is_appended:
            broker.note_readable(partition.name)
            if partition.wants_sync:
                behind.append(partition)

    version = call.api_version
    failed = next((result for result in results if result.error_code != ErrorCode.NONE), None)
    dirty = [partition for _, partition, _ in waiting]
    if acks == _NO_ACKS and failed is not None:
        # The client reads no answer; Kafka tells it by closing, too, so that it fetches metadata anew.
        why = f"produce with acks=0 failed: {ErrorCode.of(failed.error_code).name}"
        return Disconnect(why, behind=dirty + behind + later)
    if acks != _NO_ACKS and dirty:

        def finish() -> Answer:
            for result, partition, sync_offset in waiting:
                if partition.high_watermark < sync_offset:
                    result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    result.base_offset = -1
                    result.error_message = partition.offline_reason
                    broker.note_storage_error(partition, partition.offline_reason)
            return Answer((produce.encode_response(version, results),))

        return AfterSync(dirty, finish, later=behind + later)
    answer = None if acks == _NO_ACKS else Answer((produce.encode_response(version, results),))
    dirty += behind
    if dirty or later or answer is None:
        return AfterSync(dirty, None, answer, later)
    return answer


def _append(
    broker: Broker,
    call: Call,
    transactional_id: str | None,
    item: ProducePartition,
    fate: _Fate,
    line: list[Waiting],
) -> None:
    """Append it, or give it its place in the line: as one before it in the request has, too."""
    partition = find_partition(broker, _name_of(item))
    if isinstance(partition, AppendOutcome):
        fate.outcome = partition
        return
    header = check_batch(call.api_version, item.records)
    if isinstance(header, AppendOutcome):
        fate.outcome = header
        return
    assert item.records is not None
    refused = refusal_of_write(
        broker, call.api_version, transactional_id, header, partition.name, call.now_ms
    )
    if refused is not None:
        fate.outcome = refused
        return
    fate.partition = partition
    origin = fate.origin = origin_of(transactional_id, header)
    if not line and not must_wait(partition, header):
        fate.outcome = partition.append_all([Incoming(item.records, (header,), origin)], call.now_ms)[0]
        if not has_records_to_name(fate.outcome, call.api_version):
            return
    still_vouched_for = None
    if transactional_id is not None and origin is AppendOrigin.TRANSACTION:
        still_vouched_for = partial(
            is_still_open, broker, call.api_version, transactional_id, header, partition.name
        )
    place = join_line(broker, partition, item.records, header, call.now_ms, origin, still_vouched_for)
    if isinstance(place, Waiting):
        fate.waiting = place
        line.append(place)
    else:
        fate.outcome = place


def _name_of(item: ProducePartition) -> TopicPartition | TopicIdPartition:
    topic = item.topic
    if isinstance(topic, UUID):
        return TopicIdPartition(topic, item.partition)
    return TopicPartition(topic, item.partition)


def find_partition(broker: Broker, name: TopicPartition | TopicIdPartition) -> Partition | AppendOutcome:
    """The partition, or why a client cannot write to it."""
    if isinstance(name, TopicIdPartition):
        known = broker.storage.topics.by_id(name.topic_id)
        if known is None:
            reason = f"there is no topic of the id {name.topic_id}"
            return AppendOutcome(ErrorCode.UNKNOWN_TOPIC_ID, error_message=reason)
        name = TopicPartition(known.name, name.partition)
    partition = broker.storage.find(name)
    if partition is None:
        reason = f"there is no partition {name}"
        return AppendOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=reason)
    if broker.is_internal(name.topic):
        return AppendOutcome(
            ErrorCode.INVALID_TOPIC, error_message=f"topic {name.topic!r} is the server's own"
        )
    return partition


def check_batch(api_version: int, records: memoryview | None) -> BatchHeader | AppendOutcome:
    """The header of the one batch in ``records``, or why it cannot be appended."""
    if not records:
        return AppendOutcome(ErrorCode.INVALID_RECORD, error_message="no record batch")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] < 2:
        reason = "message formats older than 2 are not supported"
        return AppendOutcome(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, error_message=reason)
    try:
        header = validate_batch(records)
    except CorruptRecordBatch as error:
        return AppendOutcome(ErrorCode.CORRUPT_MESSAGE, error_message=str(error))
    if header.batch_length + LOG_OVERHEAD_BYTES != len(records):
        reason = "a produce request carries exactly one record batch for each partition"
        return AppendOutcome(ErrorCode.INVALID_RECORD, error_message=reason)
    if api_version < _ZSTD_FROM and header.compression is Compression.ZSTD:
        reason = f"zstd needs Produce version {_ZSTD_FROM}"
        return AppendOutcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, error_message=reason)
    return header
