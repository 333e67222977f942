"""DescribeProducers, and WriteTxnMarkers as the fence: who writes to a partition, and who no longer may.

A marker of a higher epoch is appended as a control batch and shuts all lower epochs out; one of the current
epoch has nothing to do and succeeds; one of a lower epoch is refused (INVALID_PRODUCER_EPOCH). The answer
waits for the disk: a fence that a power cut could take back is none. There are no transactions yet, so a
marker ends none, and only ABORT markers are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from semel.errors import ErrorCode
from semel.record.batch import decode_header
from semel.record.control import encode_abort_marker
from semel.server.handlers.offsets import find_partition
from semel.server.handlers.schema import FieldsAfterSync, partitions_once
from semel.server.outcome import Call
from semel.server.storage.partition import Partition
from semel.wire.messages import Fields

if TYPE_CHECKING:
    from semel.server.broker import Broker


def handle_describe(broker: Broker, call: Call, request: Any) -> Fields | FieldsAfterSync:
    """What the logs know now; told once it is durable, for whoever asks takes "stored" as an acknowledgement."""
    asked = partitions_once(request.topics, partitions="partition_indexes", number=None)
    described = {
        (name, number): _describe(broker, name, number) for name, numbers in asked for number in numbers
    }
    found = {key: find_partition(broker, *key) for key in described}
    logs = {key: log for key, log in found.items() if isinstance(log, Partition)}
    waits_for = {key: log.log_end_offset for key, log in logs.items()}

    def finish() -> Fields:
        for key, log in logs.items():
            if log.high_watermark < waits_for[key]:
                described[key] = _not_described(
                    key[1], ErrorCode.KAFKA_STORAGE_ERROR, str(log.offline_reason)
                )
        return {
            "topics": [
                {
                    "name": name,
                    "partitions": [described[name, number] for number in numbers],
                }
                for name, numbers in asked
            ]
        }

    dirty = [log for key, log in logs.items() if log.high_watermark < waits_for[key]]
    return FieldsAfterSync(dirty, finish) if dirty else finish()


def _not_described(number: int, code: ErrorCode, reason: str) -> Fields:
    return {
        "partition_index": number,
        "error_code": code,
        "error_message": reason,
        "active_producers": [],
    }


def _describe(broker: Broker, topic: str, number: int) -> Fields:
    found = find_partition(broker, topic, number)
    if isinstance(found, ErrorCode):
        return _not_described(number, found, f"{topic}-{number}: {found.name}")
    return {
        "partition_index": number,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": entry.producer_epoch,
                "last_sequence": entry.last_sequence,
                "last_timestamp": entry.last_timestamp_ms,
                "coordinator_epoch": entry.coordinator_epoch,
                "current_txn_start_offset": -1,
            }
            for producer_id, entry in found.producers()
        ],
    }


def handle_markers(broker: Broker, call: Call, request: Any) -> FieldsAfterSync:
    """Append what has to be appended; the partitions of one marker stay together in the answer."""
    pending: list[tuple[int, str, int, Partition | None, ErrorCode, int]] = []
    for marker in request.markers:
        for topic in marker.topics:
            for number in topic.partition_indexes:
                partition, code, sync_offset = _fence(broker, call, marker, topic.name, number)
                pending.append((marker.producer_id, topic.name, number, partition, code, sync_offset))
    dirty = [partition for *_, partition, _, _ in pending if partition is not None]

    def finish() -> Fields:
        answers: dict[int, dict[str, list[Fields]]] = {}
        for producer_id, topic, number, partition, code, sync_offset in pending:
            if partition is not None:
                broker.note_readable(partition.name)
                if partition.high_watermark < sync_offset:
                    code = ErrorCode.KAFKA_STORAGE_ERROR
            result = {"partition_index": number, "error_code": code}
            answers.setdefault(producer_id, {}).setdefault(topic, []).append(result)
        return {"markers": [_marker_fields(producer_id, topics) for producer_id, topics in answers.items()]}

    return FieldsAfterSync(dirty, finish)


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
    batch = encode_abort_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, call.now_ms
    )
    outcome = found.append_marker(batch, decode_header(batch), call.now_ms)
    broker.counters.count_marker(outcome)
    return found, outcome.error_code, outcome.sync_offset
