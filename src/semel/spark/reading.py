"""Reading a range of a partition, whole batches at a time; rows of aborted transactions are left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final
from uuid import UUID

from semel.client.blocking import Cluster
from semel.client.model import Fetched
from semel.client.unreadable import check_progress, sound_part
from semel.errors import (
    BrokerError,
    ConnectionLost,
    CorruptRecordBatch,
    DataLoss,
    ErrorCode,
    UnknownTopic,
    UnreadableBatch,
)
from semel.record.batch import BatchHeader, scan_batches
from semel.spark.options import POLL_TIMEOUT_MS, Isolation
from semel.spark.process import this_process
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, NO_LEADER_EPOCH, TopicPartition

_WAIT_MS: Final = 500
_RETRY_PAUSE_MS: Final = 50
_EPOCH_PATIENCE_MS: Final = 10_000
_EPOCH_PAUSE_MS: Final = 500
_FETCH_BYTES_MAX: Final = 32 * 2**20
_ENDS: Final = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
_OTHER_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
_LOG: Final = logging.getLogger("semel.spark")

Batch = tuple[memoryview, BatchHeader]


def read_range(
    cluster: Cluster,
    source: TopicPartition,
    from_offset: int,
    end_offset: int,
    *,
    isolation: Isolation = "read_committed",
    partition_bytes_max: int = 8 * 2**20,
    fail_on_data_loss: bool = True,
    poll_timeout_ms: int = POLL_TIMEOUT_MS,
    topic_id: str | None = None,
    last_leader_epoch: int = NO_LEADER_EPOCH,
    past_damage: Callable[[UnreadableBatch], int] | None = None,
) -> Iterator[list[Batch]]:
    """The batches that hold offsets ``from_offset`` to ``end_offset`` (exclusive), fetch by fetch.

    The next fetch is under way while the caller works on an answer: two answers are held at most. The first
    and the last batch may hold offsets outside of the range. Raises :class:`DataLoss` when the range's
    beginning has gone meanwhile, or its topic: with ``topic_id``, rows of another topic of that name never come. With
    ``last_leader_epoch``, under which the log had all that is in front of the range, so it is where the log has lost
    its end since, and grew.

    What lies in front of a damaged batch comes before its :class:`UnreadableBatch`. ``past_damage`` is asked in its
    place where that was read twice, and says where to go on.
    """
    topic_ids = None if topic_id is None else {source.topic: UUID(topic_id)}

    def ask() -> Future[dict[TopicPartition, Fetched]]:
        return cluster.begin_fetch(
            {source: position},
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES_MAX,
            partition_max_bytes=partition_bytes_max,
            isolation=isolation,
            topic_ids=topic_ids,
            last_epochs={source: last_leader_epoch},
        )

    clock = this_process().clock
    position = from_offset
    deadline_ms = clock.elapsed_ms() + poll_timeout_ms
    epoch_deadline_ms = clock.elapsed_ms() + min(_EPOCH_PATIENCE_MS, poll_timeout_ms)
    ahead: Future[dict[TopicPartition, Fetched]] | None = None
    damaged_at = -1
    try:
        while position < end_offset:
            asked, ahead = ahead or ask(), None
            try:
                fetched = asked.result()[source]
            except ConnectionLost:
                if clock.elapsed_ms() > deadline_ms:
                    raise
                continue
            code = fetched.error_code
            common_end = fetched.common_end
            if common_end is not None:
                last_leader_epoch = NO_LEADER_EPOCH
                if common_end < position:
                    if fail_on_data_loss:
                        raise lost_end(source, common_end, position)
                    warn_lost_end(source, common_end, position)
                continue
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and last_leader_epoch != NO_LEADER_EPOCH:
                if not _holds(cluster, source, position):
                    last_leader_epoch = NO_LEADER_EPOCH  # it is the offset that is not there
                elif clock.elapsed_ms() <= epoch_deadline_ms:
                    clock.pause(_EPOCH_PAUSE_MS)  # a leader of before may be late to hear of its end
                    cluster.metadata([source.topic])
                elif fail_on_data_loss:
                    raise unknown_epoch(source, position, last_leader_epoch)
                else:
                    warn_lost_end(source, position, position)
                    last_leader_epoch = NO_LEADER_EPOCH
                continue
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                position = _after_loss(cluster, source, position, end_offset, fail_on_data_loss)
                continue
            if code in _OTHER_TOPIC and not _is_there(cluster, source, topic_id):
                if fail_on_data_loss:
                    raise another_topic(source, position, end_offset)
                warn_made_anew(source.topic)
                return
            if code is ErrorCode.NONE:
                try:
                    batches = whole_batches(source, fetched, position)
                except UnreadableBatch as damage:
                    if past_damage is None:
                        raise
                    if damaged_at == position:
                        position = max(position, past_damage(damage))
                    else:
                        damaged_at = position
                    continue
                if batches:
                    position = offset_behind(source, batches, position)
                    if last_leader_epoch != NO_LEADER_EPOCH:
                        last_leader_epoch = batches[-1][1].partition_leader_epoch
                    if position < end_offset:
                        ahead = ask()
                    yield (
                        committed_part(batches, fetched.aborted or ())
                        if isolation == "read_committed"
                        else batches
                    )
                    deadline_ms = clock.elapsed_ms() + poll_timeout_ms
                    continue
            elif not code.retriable:
                raise BrokerError(code, f"fetching {source} from offset {position}")
            else:
                clock.pause(_RETRY_PAUSE_MS)  # the partition is moving: give its new leader a moment
            if clock.elapsed_ms() > deadline_ms:
                raise ConnectionLost(
                    f"nothing of {source} came from offset {position} in {poll_timeout_ms} ms"
                )
    finally:
        if ahead is not None:
            ahead.cancel()  # the caller has had enough


def headers_in(
    cluster: Cluster,
    source: TopicPartition,
    from_offset: int,
    end_offset: int,
    *,
    partition_bytes_max: int = 8 * 2**20,
    fail_on_data_loss: bool = True,
    poll_timeout_ms: int = POLL_TIMEOUT_MS,
    topic_id: str | None = None,
) -> Iterator[BatchHeader]:
    """Of the batches of :func:`read_range`, committed or not."""
    for batches in read_range(
        cluster,
        source,
        from_offset,
        end_offset,
        isolation="read_uncommitted",
        partition_bytes_max=partition_bytes_max,
        fail_on_data_loss=fail_on_data_loss,
        poll_timeout_ms=poll_timeout_ms,
        topic_id=topic_id,
    ):
        for _, header in batches:
            yield header


def whole_batches(source: TopicPartition, fetched: Fetched, position: int) -> list[Batch]:
    """Those of an answer, up to one that is damaged; with nothing in front of that, its :class:`UnreadableBatch`."""
    batches: list[Batch] = []
    try:
        for each in scan_batches(fetched.records, allow_partial_tail=True):
            batches.append(each)
        check_progress(fetched.records)
    except CorruptRecordBatch as error:
        if not any(header.last_offset >= position for _, header in batches):
            raise sound_part(source, fetched.records, position, error, fetched.aborted)[1] from None
    return batches


def offset_behind(source: TopicPartition, batches: Sequence[Batch], position: int) -> int:
    """The offset behind them. No CRC covers a batch's offset; one that goes back would have rows read twice."""
    before = -1
    for _, header in batches:
        if header.base_offset <= before:
            raise CorruptRecordBatch(f"{source}: offset {header.base_offset} comes after {before}")
        before = header.last_offset
    if before < position:
        raise CorruptRecordBatch(f"{source}: offset {before} is the last of what was read from {position} on")
    return before + 1


def _after_loss(
    cluster: Cluster, source: TopicPartition, position: int, end_offset: int, fail_on_data_loss: bool
) -> int:
    log_start = log_start_offset(cluster, source)
    if fail_on_data_loss:
        raise data_loss(source, position, max(position + 1, min(log_start, end_offset)))
    return max(log_start, position + 1) if log_start > position else end_offset


def data_loss(source: TopicPartition, lost_from: int, lost_end: int) -> DataLoss:
    """The error of the source, with its way out."""
    return DataLoss(
        source,
        lost_from,
        lost_end,
        "retention or a trim took them before they were read",
        "failOnDataLoss=false goes on with what is left",
    )


def behind_the_end(source: TopicPartition, log_end: int, asked: int) -> DataLoss:
    """The error where the log ends in front of what was to be read."""
    return DataLoss(
        source,
        log_end,
        asked,
        f"the log ends at offset {log_end}. It has lost its end, or these are offsets of another log: a checkpoint or "
        f"startingOffsets of another cluster",
        "failOnDataLoss=false reads this one from its start",
    )


def lost_end(source: TopicPartition, common_end: int, position: int) -> DataLoss:
    """The error where the log lost its end, and others may stand there by now."""
    return DataLoss(
        source,
        common_end,
        common_end,
        f"the log has lost its end since it was read up to offset {position - 1}, in a power cut, or to a leader that "
        "did not have all of it, or was put back from an older copy. What stands there now are other rows, of which "
        "none was read",
        f"failOnDataLoss=false goes on at offset {position}, and leaves out what stands in front of it now; a new "
        f"query that starts at {common_end} reads it",
    )


def unknown_epoch(source: TopicPartition, position: int, leader_epoch: int) -> DataLoss:
    """The error where nobody knows up to where the log is as it was."""
    return DataLoss(
        source,
        position,
        position,
        f"the log knows nothing of leader epoch {leader_epoch}, under which it was read up to there: it has lost its "
        "end, or was put back from an older copy, and may hold other rows by now, also in front of that",
        f"failOnDataLoss=false goes on at offset {position}",
    )


def warn_lost_end(source: TopicPartition, common_end: int, position: int) -> None:
    """``failOnDataLoss=false``: as Spark's connector goes on, which cannot tell."""
    _LOG.warning(
        "the log of %s has lost its end, from offset %d on, and was read up to %d: what stands there now is left out",
        source,
        common_end,
        position,
    )


def ends_before(source: TopicPartition, log_end: int, planned: int) -> DataLoss:
    """The error where the log ends in front of the end that was planned."""
    return DataLoss(
        source,
        log_end,
        planned,
        f"the log ends at offset {log_end}. Either endingOffsets, or a micro-batch in the checkpoint, names an end "
        f"that it does not have, or it has lost its end",
        "failOnDataLoss=false reads what is there",
    )


def another_topic(source: TopicPartition, lost_from: int, lost_end: int) -> DataLoss:
    """The error where the name is that of another topic by now."""
    return DataLoss(
        source,
        lost_from,
        max(lost_end, lost_from),
        "the topic was deleted and made anew, and these are offsets of the one before",
        "failOnDataLoss=false goes on with the new topic, from its beginning; what was not read of the one before is "
        "lost",
    )


def warn_made_anew(topic: str) -> None:
    """``failOnDataLoss=false``: what Spark's connector, which knows offsets only, mostly cannot tell."""
    _LOG.warning(
        "topic %r was deleted and made anew: what was not read of the one before is lost, and the new one is read "
        "from its beginning",
        topic,
    )


def _is_there(cluster: Cluster, source: TopicPartition, topic_id: str | None) -> bool:
    """Whether the name still means this topic; a leader may be late to hear of it."""
    try:
        return str(cluster.topic(source.topic).topic_id) == topic_id
    except UnknownTopic:
        return False


def _holds(cluster: Cluster, source: TopicPartition, offset: int) -> bool:
    """Whether the log has, or would get next, that offset."""
    begins, end = (
        cluster.list_offsets({source: which}, isolation="read_uncommitted")[source].offset for which in _ENDS
    )
    return begins <= offset <= end


def log_start_offset(cluster: Cluster, source: TopicPartition) -> int:
    """Where the partition begins now."""
    return int(cluster.list_offsets({source: -2})[source].offset)


def committed_part(batches: list[Batch], aborted: Sequence[tuple[int, int]]) -> list[Batch]:
    """Kafka's consumer-side filter, by the (producer id, first offset) of the aborted transactions."""
    if not aborted:
        return batches
    waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    open_aborted: set[int] = set()
    kept = []
    for batch, header in batches:
        while waiting and waiting[0][0] <= header.last_offset:
            open_aborted.add(waiting.pop(0)[1])
        if header.is_control:
            open_aborted.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_aborted:
            continue
        kept.append((batch, header))
    return kept
