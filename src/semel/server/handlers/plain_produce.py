"""Produce requests of the plain form that arrived together: one write for each partition, one answer for all.

Invariants: the batches of a partition are judged and appended in the order of their requests; every request
gets the answer that it would have got alone; none is answered before all of them are as durable as asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server.broker import Broker
from semel.server.handlers.compressing import Waiting, append_in_line, join_line, must_wait
from semel.server.handlers.produce import NO_OUTCOME, check_batch, find_partition
from semel.server.outcome import AfterSync, Answer, Compressing
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.wire import produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer, encode_response_header, frame_of
from semel.wire.plain_produce import PlainForm
from semel.wire.produce import ProducedPartition

_PRODUCE: Final = int(ApiKey.PRODUCE)


class _Fate:
    """What became of one request."""

    __slots__ = ("correlation_id", "form", "outcome", "partition")

    def __init__(self, form: PlainForm, correlation_id: int) -> None:
        self.form = form
        self.correlation_id = correlation_id
        self.partition: Partition | None = None
        self.outcome: AppendOutcome = NO_OUTCOME


class _Share:
    """What goes to one partition, and whose fate that is."""

    __slots__ = ("fates", "incoming")

    def __init__(self) -> None:
        self.incoming: list[Incoming] = []
        self.fates: list[_Fate] = []


def handle_all(
    broker: Broker, arrived: Sequence[tuple[PlainForm, int, memoryview]], now_ms: int
) -> tuple[Answer | AfterSync | Compressing, int]:
    """Append the first of the requests, as many as one outcome serves; that, and how many."""
    fates: list[_Fate] = []
    shares: dict[Partition, _Share] = {}
    form: PlainForm | None = None
    found: Partition | AppendOutcome = NO_OUTCOME
    may_wait = False
    for its_form, correlation_id, records in arrived:
        if its_form is not form:  # mostly they are all alike
            form = its_form
            found = find_partition(broker, form.partition)
            may_wait = not isinstance(found, AppendOutcome) and found.config.compression is not None
        fate = _Fate(form, correlation_id)
        if isinstance(found, AppendOutcome):
            fate.outcome = found
            fates.append(fate)
            continue
        header = check_batch(form.version, records)
        if not isinstance(header, BatchHeader):
            fate.outcome = header
            fates.append(fate)
            continue
        if may_wait and must_wait(found, header):
            if not fates:
                return _go_in_line(broker, arrived, now_ms)
            break
        fates.append(fate)
        share = shares.get(found)
        if share is None:
            share = shares[found] = _Share()
        fate.partition = found
        share.incoming.append(Incoming(records, (header,)))
        share.fates.append(fate)
    dirty = []
    for partition, share in shares.items():
        outcomes = partition.append_all(share.incoming, now_ms)
        for fate, outcome in zip(share.fates, outcomes, strict=True):
            fate.outcome = outcome
        if _is_dirty(broker, partition, share.fates):
            dirty.append(partition)
    return _conclude(broker, fates, dirty, shares), len(fates)


def _go_in_line(
    broker: Broker, arrived: Sequence[tuple[PlainForm, int, memoryview]], now_ms: int
) -> tuple[Answer | AfterSync | Compressing, int]:
    """The first of the requests must be compressed again: with those behind it for the same partition."""
    first = arrived[0][0]
    found = find_partition(broker, first.partition)
    assert isinstance(found, Partition)
    fates: list[_Fate] = []
    line: list[Waiting] = []
    its_fates: list[_Fate] = []
    for form, correlation_id, records in arrived:
        if form is not first:
            break
        fate = _Fate(form, correlation_id)
        fates.append(fate)
        header = check_batch(form.version, records)
        if not isinstance(header, BatchHeader):
            fate.outcome = header
            continue
        fate.partition = found
        place = join_line(broker, found, records, header, now_ms)
        if isinstance(place, Waiting):
            line.append(place)
            its_fates.append(fate)
        else:
            fate.outcome = place

    if not line:
        return _conclude(broker, fates, [], [found]), len(fates)

    async def compress_and_append(clock: Callable[[], int]) -> Answer | AfterSync:
        await append_in_line(broker, line, clock)
        for one, fate in zip(line, its_fates, strict=True):
            fate.outcome = one.outcome or fate.outcome
        dirty = [found] if _is_dirty(broker, found, its_fates) else []
        return _conclude(broker, fates, dirty, [found])

    return Compressing(compress_and_append, sum(one.header.size_bytes for one in line)), len(fates)


def _conclude(
    broker: Broker, fates: Sequence[_Fate], dirty: Sequence[Partition], partitions: Iterable[Partition]
) -> Answer | AfterSync:
    """All is appended or refused: the answer, and what it has to wait for."""
    broker.counters.count_produced(_PRODUCE, [(fate.form.version, fate.outcome) for fate in fates])
    if dirty:
        return AfterSync(dirty, lambda: _answer(broker, fates))
    behind = [partition for partition in partitions if partition.wants_sync]
    answer = _answer(broker, fates)
    return AfterSync(behind, None, answer) if behind else answer


def _is_dirty(broker: Broker, partition: Partition, fates: Iterable[_Fate]) -> bool:
    """Whether a sync must come before the answer to what was just appended to a partition."""
    high_watermark = partition.high_watermark
    is_dirty = has_new = False
    for fate in fates:
        outcome = fate.outcome
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
