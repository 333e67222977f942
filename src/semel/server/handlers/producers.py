"""DescribeProducers, and WriteTxnMarkers as the fence: who writes to a partition, and who no longer may.

A marker of a higher epoch is appended as a control batch and shuts all lower epochs out; one of the current
epoch ends the producer's transaction if one is open here, else it has nothing to do and succeeds; one of a lower
epoch is refused (INVALID_PRODUCER_EPOCH). A partition of a transaction that the coordinator has under way takes none
(INVALID_TXN_STATE): it would end the transaction there alone. The answer waits for the disk: a fence that a power
cut could take back is none. Only ABORT markers are taken: a COMMIT is the coordinator's alone, and it does not come
over the wire.

Producers that are many are described in its turn, like a change, some of them at a time: others are served between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.row import ROW_BYTES
from semel.core.producer_state.rows import entries_in, pieces
from semel.errors import ErrorCode
from semel.record.control import encode_abort_marker
from semel.server.broker import Broker
from semel.server.handlers.offsets import find_partition
from semel.server.handlers.schema import partitions_once
from semel.server.operation import InTurn, Synced
from semel.server.outcome import Answer, Call, Operation, Outcome
from semel.server.storage.aside import aside
from semel.server.storage.outcome import from_coordinator
from semel.server.storage.partition import Partition
from semel.types import ProducerDescription, TopicPartition, is_leased
from semel.wire import describe_producers, messages
from semel.wire.api import ApiKey
from semel.wire.describe_producers import (
    DescribedPartition,
    EncodedPartition,
    encode_producers,
)
from semel.wire.frames import Buffer
from semel.wire.messages import Fields

_AT_ONCE_MAX: Final = 250  # producers: two or three milliseconds


def handle_describe(broker: Broker, call: Call, body: Buffer) -> Outcome:
    """What the logs know now; told once it is durable, for whoever asks takes "stored" as an acknowledgement."""
    request = messages.decode_request(ApiKey.DESCRIBE_PRODUCERS, call.api_version, body)
    asked = partitions_once(request.topics, partitions="partition_indexes", number=None)
    found = {
        (tp := TopicPartition(topic, number)): find_partition(broker, *tp)
        for topic, numbers in asked
        for number in numbers
    }
    logs = {tp: log for tp, log in found.items() if isinstance(log, Partition)}
    if sum(log.producer_count for log in logs.values()) > _AT_ONCE_MAX:
        return Operation(_describe_in_turn(broker, found))
    described = {
        tp: _refused(tp, log) if isinstance(log, ErrorCode) else _described(broker, tp, log.producers())
        for tp, log in found.items()
    }
    waits_for = {tp: log.log_end_offset for tp, log in logs.items()}

    def answer() -> Answer:
        return Answer((describe_producers.encode_response(described.values()),))

    async def answer_once_durable(dirty: Mapping[TopicPartition, Partition]) -> Answer:
        await Synced(tuple(dirty.values()))
        described.update(
            {tp: _failed(tp, log) for tp, log in dirty.items() if log.high_watermark < waits_for[tp]}
        )
        return answer()

    dirty = {tp: log for tp, log in logs.items() if log.high_watermark < waits_for[tp]}
    return Operation(answer_once_durable(dirty)) if dirty else answer()


async def _describe_in_turn(broker: Broker, found: Mapping[TopicPartition, Partition | ErrorCode]) -> Answer:
    return await InTurn(lambda: _describe_many(broker, found))


async def _describe_many(broker: Broker, found: Mapping[TopicPartition, Partition | ErrorCode]) -> Answer:
    described: list[DescribedPartition | EncodedPartition] = []
    for tp, log in found.items():
        if isinstance(log, ErrorCode):
            described.append(_refused(tp, log))
            continue
        frozen, waits_for = log.freeze_producers(), log.log_end_offset
        parts = []
        for rows in pieces(await aside(frozen.in_order), _AT_ONCE_MAX * ROW_BYTES):
            parts.append(encode_producers(_each(broker, entries_in(rows))))
            await aside(_nothing)
        described.append(EncodedPartition(tp, len(frozen), parts))
        if log.high_watermark < waits_for:
            await aside(log.sync)
            broker.note_readable(tp)
        if log.high_watermark < waits_for:
            described[-1] = _failed(tp, log)
    return Answer((await aside(describe_producers.encode_response, described),))


def _nothing() -> None:
    """Done aside, it gives others their turn on the event loop."""


def _described(
    broker: Broker, tp: TopicPartition, producers: Iterable[tuple[int, ProducerEntry]]
) -> DescribedPartition:
    return DescribedPartition(tp, ErrorCode.NONE, None, list(_each(broker, producers)))


def _refused(tp: TopicPartition, code: ErrorCode) -> DescribedPartition:
    return DescribedPartition(tp, code, f"{tp}: {code.name}", ())


def _failed(tp: TopicPartition, log: Partition) -> DescribedPartition:
    return DescribedPartition(tp, ErrorCode.KAFKA_STORAGE_ERROR, str(log.offline_reason), ())


def _each(broker: Broker, producers: Iterable[tuple[int, ProducerEntry]]) -> Iterator[ProducerDescription]:
    lease_remaining_ms = broker.storage.producer_ids.lease_remaining_ms
    for producer_id, entry in producers:
        yield ProducerDescription(
            producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
            lease_remaining_ms(producer_id) if is_leased(producer_id) else None,
        )


async def handle_markers(broker: Broker, call: Call, request: Any) -> Fields:
    """Append what has to be appended; the partitions of one marker stay together in the answer."""
    pending: list[tuple[int, str, int, Partition | None, ErrorCode, int]] = []
    for marker in request.markers:
        for topic in marker.topics:
            for number in topic.partition_indexes:
                partition, code, sync_offset = _fence(broker, call, marker, topic.name, number)
                pending.append((marker.producer_id, topic.name, number, partition, code, sync_offset))
    await Synced([partition for *_, partition, _, _ in pending if partition is not None])
    answers: dict[int, dict[str, list[Fields]]] = {}
    for producer_id, topic, number, partition, code, sync_offset in pending:
        if partition is not None:
            broker.note_readable(partition.name)
            if partition.high_watermark < sync_offset:
                code = ErrorCode.KAFKA_STORAGE_ERROR
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                broker.note_storage_error(partition, partition.offline_reason or partition.no_room)
        result = {"partition_index": number, "error_code": code}
        answers.setdefault(producer_id, {}).setdefault(topic, []).append(result)
    return {"markers": [_marker_fields(producer_id, topics) for producer_id, topics in answers.items()]}


def _marker_fields(producer_id: int, topics: dict[str, list[Fields]]) -> Fields:
    partitions: Sequence[Fields] = [
        {"name": name, "partitions": partitions} for name, partitions in topics.items()
    ]
    return {"producer_id": producer_id, "topics": partitions}


def _fence(
    broker: Broker, call: Call, marker: Any, topic: str, number: int
) -> tuple[Partition | None, ErrorCode, int]:
    found = find_partition(broker, topic, number)
    if isinstance(found, ErrorCode):
        return None, found, 0
    if broker.is_internal(topic):
        return None, ErrorCode.INVALID_TOPIC, 0
    if marker.transaction_result or marker.producer_id < 0 or marker.producer_epoch < 0:
        return None, ErrorCode.INVALID_REQUEST, 0
    if broker.transactions.transactions.is_under_way(marker.producer_id, found.name):
        return None, ErrorCode.INVALID_TXN_STATE, 0
    batch = encode_abort_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, call.now_ms
    )
    (outcome,) = found.append_all([from_coordinator(batch)], call.now_ms)
    broker.counters.count_marker(outcome)
    return found, outcome.error_code, outcome.sync_offset
