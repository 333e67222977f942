"""Produce requests of the plain form that arrived together: one write for each partition, one answer for all.

Invariants: the batches of a partition are judged and appended in the order of their requests; every request
gets the answer that it would have got alone; none is answered before all of them are as durable as asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server.handlers.produce import check_batch, find_partition
from semel.server.outcome import AfterSync, Answer
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.wire import produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer, encode_response_header, frame_of
from semel.wire.plain_produce import PlainForm
from semel.wire.produce import ProducedPartition

if TYPE_CHECKING:
    from semel.server.broker import Broker

_PRODUCE: Final = int(ApiKey.PRODUCE)


class _Fate:
    """What became of one request."""

    __slots__ = ("correlation_id", "form", "outcome", "partition")

    def __init__(self, form: PlainForm, correlation_id: int) -> None:
        self.form = form
        self.correlation_id = correlation_id
        self.partition: Partition | None = None
        self.outcome: AppendOutcome = _PENDING


class _Share:
    """What goes to one partition, and whose fate that is."""

    __slots__ = ("fates", "incoming")

    def __init__(self) -> None:
        self.incoming: list[Incoming] = []
        self.fates: list[_Fate] = []


def handle_all(
    broker: Broker, arrived: Sequence[tuple[PlainForm, int, memoryview]], now_ms: int
) -> Answer | AfterSync:
    """Append everything; one outcome for all the requests."""
    fates: list[_Fate] = []
    shares: dict[Partition, _Share] = {}
    form: PlainForm | None = None
    found: Partition | AppendOutcome = _PENDING
    for its_form, correlation_id, records in arrived:
        if its_form is not form:  # mostly they are all alike
            form = its_form
            found = find_partition(broker, form.partition)
        fate = _Fate(form, correlation_id)
        fates.append(fate)
        if isinstance(found, AppendOutcome):
            fate.outcome = found
            continue
        header = check_batch(form.version, records)
        if not isinstance(header, BatchHeader):
            fate.outcome = header
            continue
        share = shares.get(found)
        if share is None:
            share = shares[found] = _Share()
        fate.partition = found
        share.incoming.append(Incoming(records, (header,)))
        share.fates.append(fate)
    dirty = [partition for partition, share in shares.items() if _append(broker, partition, share, now_ms)]
    broker.counters.count_produced(_PRODUCE, [(fate.form.version, fate.outcome) for fate in fates])
    if dirty:
        return AfterSync(dirty, lambda: _answer(broker, fates))
    behind = [partition for partition in shares if partition.wants_sync]
    answer = _answer(broker, fates)
    return AfterSync(behind, None, answer) if behind else answer


def _append(broker: Broker, partition: Partition, share: _Share, now_ms: int) -> bool:
    """Append a partition's share; whether a sync must come before the answer."""
    outcomes = partition.append_all(share.incoming, now_ms)
    high_watermark = partition.high_watermark
    is_dirty = has_new = False
    for fate, outcome in zip(share.fates, outcomes, strict=True):
        fate.outcome = outcome
        if outcome.sync_offset > high_watermark:
            is_dirty = True
        elif outcome.error_code is ErrorCode.NONE:
            has_new = True
    if has_new and not is_dirty:
        broker.note_readable(partition.name)
    return is_dirty


def _answer(broker: Broker, fates: Sequence[_Fate]) -> Answer:
    """By now what could be synced is."""
    parts: list[Buffer] = []
    for fate in fates:
        code, base_offset, log_append_time_ms, log_start_offset, sync_offset, *_ = fate.outcome
        partition = fate.partition
        if partition is not None and sync_offset > partition.high_watermark:
            reason = partition.offline_reason
            broker.note_storage_error(partition, reason)
            parts += _refusal(fate, AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=reason))
        elif code:
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                broker.note_storage_error(partition, fate.outcome.error_message)
            parts += _refusal(fate, fate.outcome)
        else:
            success = fate.form.encode_success
            parts.append(success(fate.correlation_id, base_offset, log_append_time_ms, log_start_offset))
    return Answer(parts, is_framed=True)


def _refusal(fate: _Fate, outcome: AppendOutcome) -> list[Buffer]:
    version = fate.form.version
    topic, number = fate.form.partition
    result = ProducedPartition(
        topic,
        number,
        outcome.error_code,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        outcome.error_message,
    )
    head = encode_response_header(_PRODUCE, version, fate.correlation_id)
    return frame_of(head, produce.encode_response(version, [result]))


_PENDING: Final = AppendOutcome(ErrorCode.NONE)  # until its partition has said
