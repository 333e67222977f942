"""Fetch: whole batches up to where a reader may read, at once or when there is enough of them.

There are no fetch sessions: session id 0 tells every client to name all its partitions each time (KIP-227). A request
that ends a session, or begins one, names them all, whatever its id is.
The first partition that has anything gives at least one batch, whatever the limits say, so that no reader
gets stuck before a large one (KIP-74).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from semel.core.log.leader_epochs import UNDEFINED_OFFSET
from semel.core.log.watermarks import FetchIsolation
from semel.errors import ErrorCode
from semel.server import refusals
from semel.server.broker import Broker
from semel.server.operation import Synced
from semel.server.outcome import Answer, Call, Delayed, Operation, Outcome
from semel.server.storage.outcome import OffsetOutOfRange, Slice
from semel.server.storage.partition import Partition
from semel.types import NO_LEADER_EPOCH, TopicPartition
from semel.wire import fetch
from semel.wire.api import ApiKey
from semel.wire.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchResponse
from semel.wire.frames import Buffer, MalformedMessage

_WAIT_MS_MAX: Final = 300_000


@dataclass(slots=True)
class _Found:
    """What one look at all the partitions gave; nothing has been read from disk yet."""

    answers: list[tuple[FetchedPartition, Slice | None]]
    size_bytes: int = 0
    is_told: bool = False  # something that is no record, and does not wait for more of them


def handle(broker: Broker, call: Call, body: Buffer) -> Outcome:
    request = fetch.decode_request(call.api_version, body)
    version = call.api_version
    if not request.is_full:
        response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return Answer(fetch.encode_response(version, response))
    if len(request.partitions) > broker.settings.partitions_max:
        raise MalformedMessage(f"a fetch of {len(request.partitions)} partitions, more than there can be")
    names = [_name_of(broker, item.topic) for item in request.partitions]

    def attempt(final: bool) -> Answer | None:
        # What may be held changes while the fetch waits.
        bytes_max = min(request.max_bytes, broker.settings.fetch_max_bytes, call.answer_bytes_max())
        found = _look(broker, request, names, bytes_max)
        if not final and not found.is_told and found.size_bytes < min(request.min_bytes, bytes_max):
            return None
        return Answer(fetch.encode_response(version, FetchResponse(_read(broker, found))))

    waits = request.max_wait_ms > 0 and bool(request.partitions)
    if not waits and request.isolation_level != fetch.READ_COMMITTED:
        unseen = _acknowledged_and_unseen(broker, request, names)
        if unseen and not _look(broker, request, names, request.max_bytes).size_bytes:

            async def fetch_what_is_acknowledged() -> Answer:
                await Synced(unseen)
                answer = attempt(True)
                assert answer is not None
                return answer

            return Operation(fetch_what_is_acknowledged())
    answer = attempt(not waits)
    if answer is not None:
        return answer
    waited_for = [
        TopicPartition(name, item.partition)
        for name, item in zip(names, request.partitions, strict=True)
        if name is not None
    ]
    return Delayed(waited_for, min(request.max_wait_ms, _WAIT_MS_MAX), attempt)


def _acknowledged_and_unseen(
    broker: Broker, request: FetchRequest, names: Sequence[str | None]
) -> list[Partition]:
    """Where rows were acknowledged that are seen only after a sync: who does not wait for rows waits for that."""
    return [
        partition
        for name, item in zip(names, request.partitions, strict=True)
        if name is not None
        and (partition := broker.storage.partition(name, item.partition)) is not None
        and partition.owes_sight
    ]


def isolation_of(isolation_level: int) -> FetchIsolation:
    """Up to where a consumer of this level reads."""
    committed = isolation_level == fetch.READ_COMMITTED
    return FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK


def _name_of(broker: Broker, topic: str | UUID) -> str | None:
    if isinstance(topic, str):
        return topic
    known = broker.storage.topics.by_id(topic)
    return None if known is None else known.name


def _look(broker: Broker, request: FetchRequest, names: list[str | None], bytes_max: int) -> _Found:
    found, isolation = _Found([]), isolation_of(request.isolation_level)
    for name, item in zip(names, request.partitions, strict=True):
        limit = min(item.partition_max_bytes, bytes_max - found.size_bytes)
        answer, piece = _look_at(broker, name, item, limit, isolation, at_least_one=found.size_bytes == 0)
        found.answers.append((answer, piece))
        if answer.error_code:
            refusals.note(ApiKey.FETCH, answer.error_code, name or item.topic, item.partition)
        found.is_told |= answer.error_code != ErrorCode.NONE or answer.diverging_epoch is not None
        found.size_bytes += 0 if piece is None else piece.length
    return found


def _look_at(
    broker: Broker,
    name: str | None,
    item: FetchPartition,
    limit_bytes: int,
    isolation: FetchIsolation,
    *,
    at_least_one: bool,
) -> tuple[FetchedPartition, Slice | None]:
    def refused(code: ErrorCode) -> tuple[FetchedPartition, None]:
        return FetchedPartition(item.topic, item.partition, code, -1), None

    if name is None:
        return refused(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = broker.storage.partition(name, item.partition)
    if partition is None:
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not partition.is_online:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    asked_epoch, leader_epoch = item.current_leader_epoch, partition.leader_epoch
    if asked_epoch not in (NO_LEADER_EPOCH, leader_epoch):
        older = asked_epoch < leader_epoch
        return refused(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
    try:
        piece = partition.read(item.fetch_offset, max(limit_bytes, 0), isolation, at_least_one=at_least_one)
    except OSError:
        return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    answer = FetchedPartition(
        item.topic,
        item.partition,
        ErrorCode.NONE,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log_start_offset,
    )
    parted = partition.parts_from(item.last_fetched_epoch, item.fetch_offset)
    is_deleted = item.fetch_offset < partition.log_start_offset
    if parted is not None and parted.start_offset != UNDEFINED_OFFSET and not is_deleted:
        answer.diverging_epoch = parted
        return answer, None
    if parted is not None or isinstance(piece, OffsetOutOfRange):
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return answer, None
    if isolation is FetchIsolation.TXN_COMMITTED:
        try:
            answer.aborted = partition.aborted_in(item.fetch_offset, piece)
        except OSError:
            return refused(ErrorCode.KAFKA_STORAGE_ERROR)
    return answer, piece


def _read(broker: Broker, found: _Found) -> list[FetchedPartition]:
    for answer, piece in found.answers:
        if piece is None or piece.length == 0:
            continue
        try:
            answer.records = piece.read()
        except OSError:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            answer.records = None
        else:
            broker.counters.fetched_bytes += piece.length
    return [answer for answer, _ in found.answers]
