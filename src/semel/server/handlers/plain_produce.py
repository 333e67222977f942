"""Produce requests of the plain form that arrived together: one write for each partition, one answer for all.

Invariants: the batches of a partition are judged and appended in the order of their requests; every request
gets the answer that it would have got alone; none is answered before all of them are as durable as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.errors import ErrorCode
from semel.server.handlers.produce import check
from semel.server.outcome import AfterSync, Answer
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.wire import produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer, encode_response_header, frame_of
from semel.wire.plain_produce import PlainProduce, encode_success
from semel.wire.produce import ProducedPartition

if TYPE_CHECKING:
    from semel.server.broker import Broker

_PRODUCE: Final = int(ApiKey.PRODUCE)


class _Share:
    """What goes to one partition, and the places of the requests that it is from."""

    __slots__ = ("incoming", "slots")

    def __init__(self) -> None:
        self.incoming: list[Incoming] = []
        self.slots: list[int] = []


def handle_all(
    broker: Broker, arrived: Sequence[tuple[PlainProduce, memoryview]], now_ms: int
) -> Answer | AfterSync:
    """Append everything; one outcome for all the requests."""
    shares: dict[Partition, _Share] = {}
    fates: list[tuple[PlainProduce, Partition | None, AppendOutcome]] = []
    for slot, (request, records) in enumerate(arrived):
        checked = check(broker, request.version, request.topic, request.partition, records)
        if isinstance(checked, AppendOutcome):
            fates.append((request, None, checked))
            continue
        partition, incoming = checked
        share = shares.get(partition)
        if share is None:
            share = shares[partition] = _Share()
        share.incoming.append(incoming)
        share.slots.append(slot)
        fates.append((request, partition, _PENDING))
    dirty: list[Partition] = []
    for partition, share in shares.items():
        is_dirty = has_new = False
        outcomes = partition.append_all(share.incoming, now_ms)
        high_watermark = partition.high_watermark
        for slot, outcome in zip(share.slots, outcomes, strict=True):
            fates[slot] = (fates[slot][0], partition, outcome)
            if outcome.sync_offset > high_watermark:
                is_dirty = True
            elif outcome.error_code is ErrorCode.NONE:
                has_new = True
        if is_dirty:
            dirty.append(partition)
        elif has_new:
            broker.note_readable(partition.name)
    for request, _, outcome in fates:
        broker.counters.requests[_PRODUCE, request.version] += 1
        broker.counters.count_append(outcome)
    if dirty:
        return AfterSync(dirty, lambda: _answer(fates))
    return _answer(fates)


def _answer(fates: Sequence[tuple[PlainProduce, Partition | None, AppendOutcome]]) -> Answer:
    """By now what could be synced is."""
    parts: list[Buffer] = []
    for request, partition, outcome in fates:
        if partition is not None and outcome.sync_offset > partition.high_watermark:
            outcome = AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=partition.offline_reason)
        if outcome.error_code:
            parts += _refusal(request, outcome)
        else:
            _, base_offset, log_append_time_ms, log_start_offset, *_ = outcome
            parts.append(encode_success(request, base_offset, log_append_time_ms, log_start_offset))
    return Answer(parts, is_framed=True)


def _refusal(request: PlainProduce, outcome: AppendOutcome) -> list[Buffer]:
    result = ProducedPartition(
        request.topic,
        request.partition,
        outcome.error_code,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        outcome.error_message,
    )
    head = encode_response_header(_PRODUCE, request.version, request.correlation_id)
    return frame_of(head, produce.encode_response(request.version, [result]))


_PENDING: Final = AppendOutcome(ErrorCode.NONE)  # until its partition has said
