"""The decision log's shell: find or make ``__semel_sinks``, append to it, read one sink's history from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from semel.client.blocking import Cluster
from semel.client.model import ConfigEntry, Produced
from semel.core.client.fate import Next, next_step
from semel.core.sink import run
from semel.core.sink.epochs import identity_epoch, identity_name, is_last
from semel.core.sink.grant import GRANTS_MAX, fence_of, generation_to_ask, stands
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import (
    SINKS_TOPIC,
    Entry,
    JournalRecord,
    OutputTopic,
    encode,
    is_fence_of,
    read_entry,
)
from semel.core.sink.landing import Landing, landed
from semel.core.sink.litter import Litter
from semel.core.sink.refusal import is_stage
from semel.core.sink.run import (
    Ticket,
    holder_forgotten,
    journal_compacted,
    journal_kept,
    journal_lost,
    journal_trimmed,
    journal_unreadable,
)
from semel.errors import BrokerError, ConfigError, ConnectionLost, DataLoss, ErrorCode, SinkFenced
from semel.record.batch import Record, decode_records, encode_batch
from semel.record.compression import Compression
from semel.record.partitioner import partition_for_key
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.reading import read_range
from semel.spark.refusing import allow
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition
from semel.wording import counted

PARTITION_COUNT: Final = 8
DECISION_BYTES_MAX: Final = 16 * 2**20
# Kept for ever: a sink that stood still for long must find its decisions. A DECISION of many writers is large.
# Compacted: what is settled goes. Only a segment that is full is, so one is soon, and takes the largest batch.
DECISION_LOG_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * DECISION_BYTES_MAX),
    "segment.ms": str(24 * 3_600_000),
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(DECISION_BYTES_MAX),
    "message.timestamp.type": "LogAppendTime",  # else a driver whose clock is ahead of the log's is refused
}
_PLAIN_BYTES_MAX: Final = 16 * 1024
APPEND_TIMEOUT_MS: Final = 60_000
RETRY_PAUSE_MS: Final = 100
_Bytes = TypeVar("_Bytes", bound=bytes | bytearray)
Stored = Callable[[Mapping[TopicPartition, _Bytes]], dict[TopicPartition, Produced]]
_LOG: Final = logging.getLogger("semel.spark")
_ENDS: Final = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)


def planning_query(checkpoint: str) -> str:
    """What all planner processes of one running query have in common: their parent, and its checkpoint.

    Spark lets a checkpoint have one running query in a session, and its planners have one daemon.
    """
    return f"{this_process().family}:{checkpoint}" if checkpoint else ""


class SinkLog:
    """One sink's part of the decision log."""

    def __init__(
        self,
        connection: Connection,
        sink_id: str,
        partition: int | None = None,
        *,
        is_given_up: bool = False,
    ) -> None:
        """``partition`` is where the sink is, for who was told: a task, a commit.

        What was lost of a sink that is given up does not matter.
        """
        self.sink_id = sink_id
        self.cluster: Cluster = connect(connection)
        self._connection = connection
        self._is_given_up = is_given_up
        self._partition = None if partition is None else TopicPartition(SINKS_TOPIC, partition)

    @property
    def partition(self) -> TopicPartition:
        """Where its records are; a new sink's by hash of its id. The topic is made when it is not there."""
        if self._partition is None:
            self._partition = this_process().homes.get((self._connection, self.sink_id))
        if self._partition is None:
            number = partition_for_key(self.sink_id.encode(), self._partition_count())
            self._partition = TopicPartition(SINKS_TOPIC, number)
        return self._partition

    def _partition_count(self) -> int:
        count = self.cluster.known_partition_count(SINKS_TOPIC)
        count = count or topic_partition_count(self.cluster, SINKS_TOPIC)
        if count is None:
            create_topic(self.cluster, SINKS_TOPIC, PARTITION_COUNT, DECISION_LOG_CONFIG)
            count = topic_partition_count(self.cluster, SINKS_TOPIC) or PARTITION_COUNT
        return count

    def history(self, litter: Litter | None = None) -> SinkHistory:
        """All that the log says of the sink. ``litter`` learns what of it is settled.

        Where it has no FENCE in the partition that its name has now, the others are looked through, as many as there
        are by now: it has one there if the topic was grown, which moves names and no records.
        """
        history = self._whole(litter)
        if history.fence is None:
            count = topic_partition_count(self.cluster, SINKS_TOPIC) or self._partition_count()
            others = (TopicPartition(SINKS_TOPIC, number) for number in range(count))
            home = next((tp for tp in others if tp != self.partition and self._is_home(tp)), None)
            if home is not None:
                self._partition = home
                history = self._whole(litter)
        if history.fence is not None:
            this_process().homes[self._connection, self.sink_id] = self.partition
        return history

    def _whole(self, litter: Litter | None) -> SinkHistory:
        history = SinkHistory(self.sink_id, litter=litter)
        try:
            self._read(history)
        except DataLoss as lost:
            history.end_offset = lost.lost_to_end
            self.read(history)
            if not history.is_whole:
                self._stop_at_trim(lost)
        return history

    def _stop_at_trim(self, lost: DataLoss) -> None:
        if not self._is_given_up:
            allow(journal_trimmed(self.sink_id, self.partition, lost.lost_from, lost.lost_to_end))

    def _is_home(self, tp: TopicPartition) -> bool:
        ends = {which: self.cluster.list_offsets({tp: which})[tp].offset for which in _ENDS}
        return any(
            is_fence_of(record.key, self.sink_id)
            for batches in read_range(self.cluster, tp, *ends.values())
            for batch, header in batches
            if not header.is_control
            for record in decode_records(batch)
        )

    def take_over(self, query: str = "") -> tuple[ProducerGrant, int]:
        """The sink's own identity with a raised epoch, and the sink's epoch; its FENCE is in the log.

        From now on no older driver's record counts. A generation that is used up ends here, and so does one whose
        name the broker has forgotten.
        """
        history = self.history()
        generation = generation_to_ask(history)
        for _ in range(GRANTS_MAX):
            grant = self.cluster.init_producer_id(transactional_id=identity_name(self.sink_id, generation))
            fence = fence_of(history, generation, grant, this_process().owner, query)
            if fence is None:
                generation += 1
                continue
            self._read_past(history, self.append(fence, grant, sequence=0))
            if not allow(stands(history, fence)):
                generation = generation_to_ask(history)
            elif is_last(fence.sink_epoch):
                generation += 1
            else:
                return grant, fence.sink_epoch
        raise SinkFenced(f"other drivers take sink {self.sink_id!r} over, one after the other")

    def append_as_holder(
        self, history: SinkHistory, record: JournalRecord, grant: ProducerGrant, sequence: int
    ) -> None:
        """Store a record of the driver, and know that it counts: in the log no newer FENCE stands before it.

        ``history`` is what was read before; no more is read where the record came in right behind it. The log
        refuses an older driver only while it remembers the producer ids.
        """
        offset = self.append(record, grant, sequence)
        if landed(ErrorCode.NONE, offset, history.end_offset, 0) is Landing.ELSEWHERE:
            allow(journal_lost(self.sink_id, offset, history.end_offset))
        if offset == history.end_offset and history.is_held_by(record.sink_epoch):
            return
        known_to = history.end_offset
        if record not in self._read_past(history, offset):
            allow(history.fenced_by_other(record.sink_epoch) or journal_lost(self.sink_id, offset, known_to))

    def append(self, record: JournalRecord, grant: ProducerGrant | None = None, sequence: int = -1) -> int:
        """Store ``record`` and return its offset; with ``grant``: once, and only while it is the newest."""
        return self._append([encode(record)], grant, sequence, record.sink_epoch)

    def sweep(self, keys: Sequence[bytes], grant: ProducerGrant, sequence: int, sink_epoch: int) -> None:
        """Put tombstones on ``keys``, as the holder of the sink: each is a record with a sequence of its own."""
        self._append([(key, None) for key in keys], grant, sequence, sink_epoch)

    def _append(
        self,
        rows: Sequence[tuple[bytes, bytes | None]],
        grant: ProducerGrant | None,
        sequence: int,
        sink_epoch: int,
    ) -> int:
        now_ms, size_bytes = this_process().clock.now_ms(), sum(len(value or b"") for _, value in rows)
        batch = encode_batch(
            [Record(0, now_ms, key, value) for key, value in rows],
            producer_id=-1 if grant is None else grant.producer_id,
            producer_epoch=-1 if grant is None else grant.producer_epoch,
            base_sequence=sequence,
            compression=Compression.NONE if size_bytes <= _PLAIN_BYTES_MAX else Compression.ZSTD,
        )
        produced = produce_until_answered(self.cluster, {self.partition: bytes(batch)})[self.partition]
        code = ErrorCode.of(produced.error_code)
        step = next_step(code)
        if step is Next.FENCED:
            history = SinkHistory(self.sink_id)
            self.read(history)
            fenced = history.fenced_by_other(sink_epoch)
            raise SinkFenced(
                fenced.evidence if fenced else f"sink {self.sink_id!r} was taken over by another driver"
            )
        if step is Next.NEW_GRANT:
            allow(holder_forgotten(self.sink_id, self.partition))
        if step is not Next.ACCEPT:
            raise BrokerError(code, f"appending to the decision log of sink {self.sink_id!r}")
        return int(produced.base_offset)

    def _read_past(self, history: SinkHistory, offset: int) -> list[JournalRecord]:
        """:meth:`read` until the record at ``offset`` can be seen: a leader may have it and not yet say so."""
        clock = this_process().clock
        deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
        new = self.read(history)
        while history.end_offset <= offset:
            if clock.elapsed_ms() > deadline_ms:
                raise ConnectionLost(f"{self.partition} does not show offset {offset}, which is stored there")
            clock.pause(RETRY_PAUSE_MS)
            new += self.read(history)
        return new

    def read(self, history: SinkHistory) -> list[JournalRecord]:
        """Bring ``history`` up to the high watermark of now; the records that are new in it and count."""
        try:
            return self._read(history)
        except DataLoss as lost:
            self._stop_at_trim(lost)
            raise

    def _read(self, history: SinkHistory) -> list[JournalRecord]:
        listed = self.cluster.list_offsets({self.partition: LATEST_TIMESTAMP}, isolation="read_committed")
        end_offset = listed[self.partition].offset
        if end_offset < history.end_offset:
            allow(journal_lost(self.sink_id, end_offset, history.end_offset))
        new: list[JournalRecord] = []
        reading = JournalReading(self.cluster, self.partition, history.end_offset, end_offset)
        for entry in reading:
            if history.take(entry) and entry.record is not None:
                new.append(entry.record)
        history.end_offset = reading.end_offset
        return new


class JournalReading:
    """The entries from ``first_offset`` on up to ``end_offset``; tells once of records that are no sink's.

    Where compaction took some, it reads on up to the end of by then: what took a record stands behind it, and so does
    what came in its place. Else somebody who read for long would find neither the FENCE that has overtaken him nor the
    one that has overtaken that. ``end_offset`` is then a later one.
    One that may be a sink's and cannot be read is a :class:`ReplayUnprovable` that names it.
    """

    def __init__(self, cluster: Cluster, tp: TopicPartition, first_offset: int, end_offset: int) -> None:
        self.end_offset = end_offset
        self._cluster = cluster
        self._tp = tp
        self._first_offset = first_offset
        self._seen = 0  # offsets at which something stands
        self._first_foreign = -1
        self._foreign_count = 0

    def __iter__(self) -> Iterator[Entry]:
        first, end = self._first_offset, self.end_offset
        while first < end:
            self._seen = 0
            yield from self._entries(first, end)
            if self._seen >= end - first:
                break
            first, end = end, self._end_now()
            self.end_offset = max(end, first)
        if self._foreign_count:
            _LOG.warning(
                "%s holds %s of no sink, the first at %s@%d: passed over. Nobody but sinks should write there",
                self._tp.topic,
                counted(self._foreign_count, "record"),
                self._tp,
                self._first_foreign,
            )

    def _end_now(self) -> int:
        listed = self._cluster.list_offsets({self._tp: LATEST_TIMESTAMP}, isolation="read_committed")
        return int(listed[self._tp].offset)

    def _entries(self, first_offset: int, end_offset: int) -> Iterator[Entry]:
        for batches in read_range(self._cluster, self._tp, first_offset, end_offset):
            for batch, header in batches:
                if header.is_control:
                    last = min(header.last_offset, end_offset - 1)
                    self._seen += last + 1 - max(header.base_offset, first_offset)
                    continue
                for record in decode_records(batch):
                    if first_offset <= record.offset < end_offset:
                        self._seen += 1
                        entry = self._entry(record, header.producer_id)
                        if entry is not None:
                            yield entry

    def _entry(self, record: Record, producer_id: int) -> Entry | None:
        try:
            entry = read_entry(record.key, record.value, producer_id)
        except ValueError as error:
            allow(journal_unreadable(f"{self._tp}@{record.offset}", str(error)))
            return None
        if entry is None and record.value is not None:
            self._first_foreign = self._first_foreign if self._foreign_count else record.offset
            self._foreign_count += 1
        return entry


def remembered(cluster: Cluster) -> dict[str, SinkHistory]:
    """What the log has of every sink, those too that have never written; by id."""
    sinks: dict[str, SinkHistory] = {}
    partitions = [
        TopicPartition(SINKS_TOPIC, number)
        for number in range(topic_partition_count(cluster, SINKS_TOPIC) or 0)
    ]
    starts, ends = (
        {} if not partitions else cluster.list_offsets(dict.fromkeys(partitions, which)) for which in _ENDS
    )
    for tp in partitions:
        for entry in JournalReading(cluster, tp, starts[tp].offset, ends[tp].offset):
            sinks.setdefault(entry.sink_id, SinkHistory(entry.sink_id)).take(entry)
    return sinks


def history_of(log: SinkLog, connection: Connection) -> SinkHistory:
    """The sink's whole history up to now; a process reads each record once."""
    histories, place = this_process().histories, (connection, log.sink_id)
    history = histories.pop(
        place, None
    )  # gone, should it be of another log: whoever starts again reads that one
    if history is None:
        history = log.history(None if is_stage(log.sink_id) else Litter())
    else:
        log.read(history)
    histories[place] = history
    return history


class DecidedEnds(NamedTuple):
    """Where a sink has decided to, of which topics, and under which leaders they had all of it."""

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, str]
    leader_epochs: dict[TopicPartition, int]


def decided_ends(connection: Connection, sink_id: str) -> DecidedEnds:
    """Where ``startingOffsets=sink:<id>`` starts.

    Fences the sink first: an old driver could still decide.
    """
    log = SinkLog(connection, sink_id)
    log.take_over()
    decided = log.history().decision
    if decided is None:
        return DecidedEnds({}, {}, {})
    return DecidedEnds(dict(decided.source_ends), dict(decided.source_ids), dict(decided.source_epochs))


def starting_ends(connection: Connection, sink_id: str) -> DecidedEnds:
    """The same, or a ``ConfigError`` for a sink that has none: to begin at the earliest offsets then would double all
    that stands in the output under the name that was meant."""
    before = SinkLog(connection, sink_id).history()
    if before.decision is None or not before.decision.source_ends:
        known = "there is no such sink" if before.fence is None else "it has decided no source offsets"
        raise ConfigError(
            f"option startingOffsets=sink:{sink_id}: {known}, so that nothing says where to begin. A query that never "
            f"decided a micro-batch begins as it did the first time; semel sink list shows the others"
        )
    return decided_ends(connection, sink_id)


def produce_until_answered(
    cluster: Cluster,
    batches: Mapping[TopicPartition, _Bytes],
    *,
    stored: Stored[_Bytes] | None = None,
    is_repeat: bool = False,
) -> dict[TopicPartition, Produced]:
    """Send until every batch has a definite answer. Safe to repeat: sequences make a second copy a duplicate.

    (A record without an identity may be stored twice; the ones that tasks append may, by their meaning.)
    Where the log may have forgotten the sequences, ``stored`` is asked before a batch goes again: it gives the answers
    of those that are there.
    """
    clock = this_process().clock
    deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
    answers: dict[TopicPartition, Produced] = {}
    while True:
        waiting = {tp: batch for tp, batch in batches.items() if tp not in answers}
        try:
            if stored is not None and is_repeat:
                answers |= stored(waiting)
                waiting = {tp: batch for tp, batch in waiting.items() if tp not in answers}
            is_repeat = True
            produced = cluster.produce(waiting, acks=-1, timeout_ms=30_000) if waiting else {}
        except (ConnectionLost, BrokerError) as failed:
            passing = isinstance(failed, ConnectionLost) or failed.code.retriable
            if not passing or clock.elapsed_ms() > deadline_ms:
                raise
            clock.pause(RETRY_PAUSE_MS)
            continue
        for tp, answer in produced.items():
            code = ErrorCode.of(answer.error_code)
            if not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
                answers[tp] = answer
            elif clock.elapsed_ms() > deadline_ms:
                raise BrokerError(code, f"writing to {tp}")
        if len(answers) == len(batches):
            return answers
        clock.pause(RETRY_PAUSE_MS)


def find_output(cluster: Cluster, topic: str) -> OutputTopic | None:
    """``topic`` as it is now; ``None`` when there is none."""
    found = cluster.metadata([topic]).topics.get(topic)
    if found is None or found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    found = cluster.topic(topic)
    return OutputTopic(topic, str(found.topic_id), len(found.partitions))


def partitions_of(output: OutputTopic) -> list[TopicPartition]:
    """All of its partitions that a run knows."""
    return [TopicPartition(output.topic, number) for number in range(output.partition_count)]


def topic_partition_count(cluster: Cluster, topic: str) -> int | None:
    """How many partitions ``topic`` has; ``None`` when there is no such topic."""
    found = cluster.metadata([topic]).topics.get(topic)
    return len(found.partitions) if found is not None and not found.error_code else None


def create_topic(
    cluster: Cluster, topic: str, partition_count: int, config: Mapping[str, str] | None = None
) -> None:
    """Make ``topic``; another process may have been faster."""
    try:
        cluster.create_topics({topic: partition_count}, configs={topic: config} if config else None)
    except BrokerError as refused:
        if refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    cluster.topic(topic, is_known_to_exist=True)  # waits until it has a leader


def check_kept(log: SinkLog, decision_bytes_max: int = 0) -> bool:
    """Refuse a decision log that loses what is old, or takes no large record; whether it is compacted."""
    config = log.cluster.describe_configs([log.partition.topic])[log.partition.topic]
    refusal = journal_kept(
        log.partition.topic, {name: entry.value for name, entry in config.items()}, decision_bytes_max
    )
    if refusal is not None:
        allow(refusal)
    return "compact" in policy_of(config)


def check_compactable(log: SinkLog, history: SinkHistory) -> None:
    """Refuse to go on from records that a compacted decision log may have lost."""
    if history.rests_on_format_1:
        allow(journal_compacted(log.partition.topic, log.sink_id))


def sweep(log: SinkLog, ticket: Ticket, history: SinkHistory, settled_min: int) -> Ticket:
    """Put tombstones on what is settled, if it is as much as that: the ticket goes on behind them.

    Should it fail, nobody knows how far the run's sequences have come, and another run has to begin.
    """
    keys = run.to_sweep(history, ticket.sink_epoch, settled_min) if ticket.is_journal_compacted else []
    if not keys:
        return ticket
    grant = ProducerGrant(ticket.producer_id, identity_epoch(ticket.sink_epoch))
    log.sweep(keys, grant, ticket.journal_sequence, ticket.sink_epoch)
    return replace(ticket, journal_sequence=ticket.journal_sequence + len(keys))


def cleanup_policy(cluster: Cluster, topic: str) -> str:
    """``delete``, ``compact`` or both."""
    return policy_of(cluster.describe_configs([topic])[topic])


def policy_of(configs: Mapping[str, ConfigEntry]) -> str:
    """Likewise, of a topic's settings."""
    entry = configs.get("cleanup.policy")
    return "delete" if entry is None or entry.value is None else entry.value
