"""Produce requests of the plain form that arrived together: one write for each partition.

Invariants: the batches of a partition are judged and appended in the order of their requests; every request
gets the answer that it would have got alone; none is answered before all of them are as durable as asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server import refusals
from semel.server.broker import Broker
from semel.server.handlers.compressing import (
    Waiting,
    append_in_line,
    has_records_to_name,
    join_line,
    must_wait,
)
from semel.server.handlers.produce import NO_OUTCOME, check_batch, find_partition
from semel.server.outcome import AfterSync, Answer, Compressing
from semel.server.storage.outcome import AppendOutcome, Incoming
from semel.server.storage.partition import Partition
from semel.wire import produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer, encode_response_header, frame_of
from semel.wire.plain_produce import PlainForm
from semel.wire.produce import ProducedPartition

# A request's form, its correlation id and its records in place, as ``wire.plain_produce.decode`` gives them.
Plain: TypeAlias = tuple[PlainForm, int, memoryview]

_PRODUCE: Final = int(ApiKey.PRODUCE)


class Produced:
    """What becomes of one request."""

    __slots__ = ("correlation_id", "form", "outcome", "partition", "waiting")

    def __init__(self, form: PlainForm, correlation_id: int) -> None:
        self.form = form
        self.correlation_id = correlation_id
        self.partition: Partition | None = None  # that it was given to
        self.waiting: Waiting | None = None  # its place in the line, if it has one
        self.outcome: AppendOutcome = NO_OUTCOME


class _Share:
    """What goes to one partition, and for whom."""

    __slots__ = ("incoming", "produced")

    def __init__(self) -> None:
        self.incoming: list[Incoming] = []
        self.produced: list[Produced] = []


def may_wait(broker: Broker, form: PlainForm) -> bool:
    """Whether batches may have to be compressed again first: then only those of one connection go together."""
    found = find_partition(broker, form.partition)
    return not isinstance(found, AppendOutcome) and found.config.looks_into_records


def handle_all(
    broker: Broker, arrived: Sequence[Plain], now_ms: int
) -> tuple[Answer | AfterSync | Compressing, int]:
    """Append the first of one connection's requests, as many as one outcome serves; that, and how many."""
    produced = append_all(broker, arrived, now_ms, in_line=True)
    if not produced:
        return _go_in_line(broker, arrived, now_ms)
    return conclude(broker, produced), len(produced)


def append_all(
    broker: Broker, arrived: Iterable[Plain], now_ms: int, *, in_line: bool = False
) -> list[Produced]:
    """Judge and append them: one write for each partition. With ``in_line`` those in front of the first that must be
    compressed again; without, none is.
    """
    all_produced: list[Produced] = []
    shares: dict[Partition, _Share] = {}
    form: PlainForm | None = None
    found: Partition | AppendOutcome = NO_OUTCOME
    for its_form, correlation_id, records in arrived:
        if its_form is not form:  # mostly they are all alike
            form = its_form
            found = find_partition(broker, form.partition)
        produced = Produced(form, correlation_id)
        if isinstance(found, AppendOutcome):
            produced.outcome = found
            all_produced.append(produced)
            continue
        header = check_batch(form.version, records)
        if not isinstance(header, BatchHeader):
            produced.outcome = header
            all_produced.append(produced)
            continue
        if in_line and must_wait(found, header):
            break
        all_produced.append(produced)
        share = shares.get(found)
        if share is None:
            share = shares[found] = _Share()
        produced.partition = found
        share.incoming.append(Incoming(records, (header,)))
        share.produced.append(produced)
    for partition, share in shares.items():
        outcomes = partition.append_all(share.incoming, now_ms)
        for produced, one, outcome in zip(share.produced, share.incoming, outcomes, strict=True):
            produced.outcome = outcome
            if outcome.error_code and has_records_to_name(outcome, produced.form.version):
                _give_place(broker, produced, partition, one.batches, one.headers[0], now_ms)
        _note_readable(broker, partition, share.produced)
    _count(broker, [one for one in all_produced if one.waiting is None])
    return all_produced


def _count(broker: Broker, done: Sequence[Produced]) -> None:
    """In the server's metrics: requests that are appended or refused, of all connections at once."""
    if done:
        broker.counters.count_produced(_PRODUCE, [(one.form.version, one.outcome) for one in done])


def _give_place(
    broker: Broker,
    produced: Produced,
    partition: Partition,
    records: memoryview,
    header: BatchHeader,
    now_ms: int,
) -> None:
    place = join_line(broker, partition, records, header, now_ms)
    if isinstance(place, Waiting):
        produced.waiting = place
    else:
        produced.outcome = place


def conclude(broker: Broker, all_produced: Sequence[Produced]) -> Answer | AfterSync | Compressing:
    """All that need not go into the line is appended or refused: the answer, one part for each request, and what it
    has to wait for.
    """
    in_line = [one for one in all_produced if one.waiting is not None]
    if not in_line:
        return _concluded(broker, all_produced)
    line = [one.waiting for one in in_line if one.waiting is not None]

    async def compress_and_append(clock: Callable[[], int]) -> Answer | AfterSync:
        await append_in_line(broker, line, clock)
        for produced, one in zip(in_line, line, strict=True):
            produced.outcome = one.outcome or produced.outcome
        _count(broker, in_line)
        for partition in {one.partition for one in line}:
            _note_readable(broker, partition, [one for one in in_line if one.partition is partition])
        return _concluded(broker, all_produced)

    held_bytes = sum(one.header.size_bytes for one in line)
    return Compressing(line[0].partition.name.topic, compress_and_append, held_bytes)


def _concluded(broker: Broker, all_produced: Sequence[Produced]) -> Answer | AfterSync:
    partitions: dict[Partition, None] = {}
    dirty: dict[Partition, None] = {}
    for one in all_produced:
        partition = one.partition
        if partition is not None:
            partitions[partition] = None
            if one.outcome.sync_offset > partition.high_watermark:
                dirty[partition] = None
    if dirty:
        return AfterSync(tuple(dirty), lambda: _answer(broker, all_produced))
    behind = [partition for partition in partitions if partition.wants_sync]
    answer = _answer(broker, all_produced)
    return AfterSync(behind, None, answer) if behind else answer


def _go_in_line(
    broker: Broker, arrived: Sequence[Plain], now_ms: int
) -> tuple[Answer | AfterSync | Compressing, int]:
    """The first of the requests must be looked into: with those behind it for the same partition."""
    first = arrived[0][0]
    found = find_partition(broker, first.partition)
    assert isinstance(found, Partition)
    all_produced: list[Produced] = []
    for form, correlation_id, records in arrived:
        if form is not first:
            break
        produced = Produced(form, correlation_id)
        all_produced.append(produced)
        header = check_batch(form.version, records)
        if isinstance(header, BatchHeader):
            produced.partition = found
            _give_place(broker, produced, found, records, header, now_ms)
        else:
            produced.outcome = header
    _count(broker, [one for one in all_produced if one.waiting is None])
    return conclude(broker, all_produced), len(all_produced)


def _note_readable(broker: Broker, partition: Partition, appended: Iterable[Produced]) -> None:
    """Tell who waits for rows, unless a sync comes first, which tells them."""
    high_watermark = partition.high_watermark
    has_new = False
    for one in appended:
        if one.outcome.sync_offset > high_watermark:
            return
        has_new |= one.outcome.error_code is ErrorCode.NONE
    if has_new:
        broker.note_readable(partition.name)


def _answer(broker: Broker, all_produced: Sequence[Produced]) -> Answer:
    """By now what could be synced is."""
    parts: list[Buffer] = []
    for one in all_produced:
        code, base_offset, log_append_time_ms, log_start_offset, sync_offset, *_ = one.outcome
        partition = one.partition
        if partition is not None and sync_offset > partition.high_watermark:
            reason = partition.offline_reason
            broker.note_storage_error(partition, reason)
            parts += _refusal(one, AppendOutcome(ErrorCode.KAFKA_STORAGE_ERROR, error_message=reason))
        elif code:
            if code is ErrorCode.KAFKA_STORAGE_ERROR:
                broker.note_storage_error(partition, one.outcome.error_message)
            parts += _refusal(one, one.outcome)
        else:
            success = one.form.encode_success
            parts.append(success(one.correlation_id, base_offset, log_append_time_ms, log_start_offset))
    return Answer(parts, is_framed=True)


def _refusal(produced: Produced, outcome: AppendOutcome) -> list[Buffer]:
    version = produced.form.version
    topic, number = produced.form.partition
    refusals.note(_PRODUCE, outcome.error_code, topic, number)
    result = ProducedPartition(
        topic,
        number,
        outcome.error_code,
        outcome.base_offset,
        outcome.log_append_time_ms,
        outcome.log_start_offset,
        outcome.error_message,
        outcome.record_errors,
    )
    head = encode_response_header(_PRODUCE, version, produced.correlation_id)
    return frame_of(head, produce.encode_response(version, [result]))
