"""A job's journal: appended to by who holds the job, read from its start by who takes it over."""

from __future__ import annotations

from collections import deque
from typing import Final

from semel.client.blocking import Cluster
from semel.copy.plan import CopyPlan
from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Begun, Entry, Held, Joined, Next, decode, encode
from semel.core.copy.tenure import Tenure
from semel.core.copy.translate import Translation
from semel.core.sink.landing import Landing, landed
from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    DataLoss,
    ErrorCode,
    ProducerFenced,
    ReplayUnprovable,
)
from semel.record.batch import Record, decode_records, encode_batch
from semel.record.compression import Compression
from semel.sequence import advance
from semel.spark.process import this_process
from semel.spark.reading import read_range
from semel.spark.sink_log import APPEND_TIMEOUT_MS, RETRY_PAUSE_MS, create_topic, produce_until_answered
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ProducerGrant, TopicPartition

ENTRY_BYTES_MAX: Final = 8 * 2**20
JOURNAL_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",  # it is cut by the job alone, behind a BEGUN
    "retention.bytes": "-1",
    "max.message.bytes": str(ENTRY_BYTES_MAX),
    "message.timestamp.type": "LogAppendTime",  # else a holder whose clock is ahead of the log's is refused
}
_PLAIN_BYTES_MAX: Final = 16 * 1024
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class CopyLog:
    """The journal, and what it adds up to."""

    def __init__(self, cluster: Cluster, plan: CopyPlan, tenure: Tenure) -> None:
        self._cluster, self._plan, self._tenure = cluster, plan, tenure
        self._partition = TopicPartition(plan.journal, 0)
        self._sequence = 0
        self._begun: deque[tuple[int, int]] = deque()  # times and offsets of BEGUN, of copies before it too
        self._starts_at = 0
        self.history = CopyHistory()
        self.translation = Translation()  # known where groups are to be
        self.grant: ProducerGrant | None = None
        self._has_held = False  # in this run

    def take_over(self) -> None:
        """Hold the job: HELD is in, and the journal is read up to it.

        Who has held it before is not to take it back from a newer copy, which its higher epoch would shut out.
        """
        self._make()
        self.look_again()
        self.grant = self._cluster.init_producer_id(transactional_id=self._plan.identity)
        self._tenure.grants.add(self.grant)  # before HELD goes: its answer may be lost
        self._sequence = 0
        offset = self._append(Held(self.grant, this_process().owner, this_process().clock.now_ms()))
        self._has_held = self._tenure.is_begun = True
        self._read_past(offset)
        self.check_held()

    def append(self, entry: Begun | Joined | Next) -> None:
        """Store what the holder says, and know that it counts: no HELD stands in front of it."""
        known_to = self.history.end_offset
        offset = self._append(entry)
        if landed(ErrorCode.NONE, offset, known_to, 0) is Landing.ELSEWHERE:
            raise self._lost(f"it was read up to offset {known_to} and now says {offset}")
        if offset != known_to:
            self._read_past(offset)
            self.check_held()
            return
        self._apply(entry, offset, this_process().clock.now_ms())
        self.history.end_offset = offset + 1

    def look_again(self) -> None:
        """``ProducerFenced`` if another copy has taken the job over since this process has held it.

        ``ReplayUnprovable`` if it is an older one that holds it by now: the journal was put back.
        """
        if self._tenure.grants:
            self._read()
            self.check_held()

    def check_held(self) -> None:
        """By what was read."""
        holder = self.history.holder
        if self._tenure.is_set_back(self.history):
            last = "nobody" if holder is None else f"{holder.owner}, which held it before,"
            raise self._lost(f"this copy has held the job by it, and now {last} is the last that it names")
        is_over = self._tenure.is_over(self.history)
        if is_over or (self._has_held and not self.history.is_held_by(self.grant)):
            raise self._fenced(holder)

    def cut(self, now_ms: int, kept_ms: int) -> None:
        """Delete what is in front of the newest BEGUN that is older than ``kept_ms``, by the time of day.

        No place is lost by it, whatever that clock says: what goes is known to translate offsets by, and no more.
        """
        cut_at = self._starts_at
        while self._begun and self._begun[0][0] < now_ms - kept_ms:
            _, cut_at = self._begun.popleft()
        if cut_at > self._starts_at:
            self._cluster.delete_records({self._partition: cut_at})
            self._starts_at = cut_at

    def _make(self) -> None:
        topic = self._partition.topic
        found = self._cluster.metadata([topic]).topics.get(topic)
        if found is None or found.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            create_topic(self._cluster, topic, 1, JOURNAL_CONFIG)
            return
        config = {name: each.value for name, each in self._cluster.describe_configs([topic])[topic].items()}
        wrong = [
            f"{name}={config.get(name)}"
            for name in ("cleanup.policy", "retention.ms", "retention.bytes")
            if config.get(name) not in (None, JOURNAL_CONFIG[name])
        ]
        if wrong:
            options = " ".join(
                f"-c {each.split('=')[0]}={JOURNAL_CONFIG[each.split('=')[0]]}" for each in wrong
            )
            raise ConfigError(
                f"topic {topic!r} is the journal of this job, and would lose what is old ({', '.join(wrong)}): rows "
                f"would come twice. Nothing was copied now. Set it with `semel topic alter-config {topic} {options}`"
            )

    def _append(self, entry: Entry) -> int:
        assert self.grant is not None
        value = encode(entry)
        if len(value) > ENTRY_BYTES_MAX:
            raise ConfigError(
                f"a record of {len(value)} bytes is too large for the journal of job {self._plan.name!r}: it "
                f"copies too many partitions at once. Split it into several jobs"
            )
        batch = encode_batch(
            [Record(0, this_process().clock.now_ms(), None, value)],
            producer_id=self.grant.producer_id,
            producer_epoch=self.grant.producer_epoch,
            base_sequence=self._sequence,
            compression=Compression.NONE if len(value) <= _PLAIN_BYTES_MAX else Compression.ZSTD,
        )
        produced = produce_until_answered(self._cluster, {self._partition: batch})[self._partition]
        code = ErrorCode.of(produced.error_code)
        if code in _FENCED:
            self._read()
            holder = self.history.holder
            raise self._fenced(None if holder is None or holder.grant == self.grant else holder)
        if code is not ErrorCode.NONE and code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            raise BrokerError(code, f"appending to the journal of job {self._plan.name!r} (start it again)")
        self._sequence = advance(self._sequence, 1)
        return int(produced.base_offset)

    def _read_past(self, offset: int) -> None:
        """A leader may have the record at ``offset`` and not yet say so."""
        clock = this_process().clock
        deadline_ms = clock.elapsed_ms() + APPEND_TIMEOUT_MS
        self._read()
        while self.history.end_offset <= offset:
            if clock.elapsed_ms() > deadline_ms:
                raise ConnectionLost(
                    f"{self._partition} does not show offset {offset}, which is stored there"
                )
            clock.pause(RETRY_PAUSE_MS)
            self._read()

    def _read(self) -> None:
        try:
            self._read_on()
        except DataLoss:
            if self._starts_at >= self._listed(EARLIEST_TIMESTAMP):
                raise
            self._read_on()  # it was cut meanwhile, by whoever held it

    def _read_on(self) -> None:
        start, end = self._listed(EARLIEST_TIMESTAMP), self._listed(LATEST_TIMESTAMP)
        self._starts_at = start
        if end < self.history.end_offset:
            raise self._lost(f"it was read up to offset {self.history.end_offset} and now ends at {end}")
        if self.history.end_offset < start:
            self.history = CopyHistory(start)  # it was cut behind a BEGUN, which says who holds the job
        position = self.history.end_offset
        for batches in read_range(self._cluster, self._partition, position, end):
            for batch, header in batches:
                for record in [] if header.is_control else decode_records(batch):
                    if position <= record.offset < end:
                        self._take(record)
        self.history.end_offset = end

    def _listed(self, which: int) -> int:
        return self._cluster.list_offsets({self._partition: which})[self._partition].offset

    def _take(self, record: Record) -> None:
        try:
            entry = decode(record.value)
        except ValueError as error:
            raise ReplayUnprovable(
                f"the record at {self._partition}@{record.offset} of the journal of job {self._plan.name!r} cannot be "
                f"read ({error}), and it may say who holds the job. Nothing was copied now. Where a newer semel has "
                f"written it, use that one; nobody but the job should write there"
            ) from None
        self._apply(entry, record.offset, record.timestamp_ms)

    def _apply(self, entry: Entry, offset: int, time_ms: int) -> None:
        if not self.history.apply(entry):
            return
        if isinstance(entry, Begun):
            self._begun.append((time_ms, offset))
        if self._plan.groups:
            self.translation.take(entry)

    def _fenced(self, holder: Held | None) -> ProducerFenced:
        by = "another copy" if holder is None else holder.owner
        if holder is None or self._tenure.is_behind(self.history):
            return ProducerFenced(
                f"job {self._plan.name!r} was taken over by {by}, and this copy of it has to stop. What it has stored "
                f"stays, and the other goes on behind it"
            )
        return ProducerFenced(
            f"job {self._plan.name!r} is held by {by}, as its journal ({self._partition}) says, which has nothing of "
            f"this copy any more, so this copy has to stop. What it has stored stays. A newer copy goes on behind it; "
            f"where {by} is an older one, the journal was put back from an older copy: start the job again, which "
            f"tells it"
        )

    def _lost(self, evidence: str) -> ReplayUnprovable:
        return ReplayUnprovable(
            f"the journal of job {self._plan.name!r} ({self._partition}) is another one than this copy has read: "
            f"{evidence}. It was deleted and made anew, or has lost its end; what was copied since cannot be told from "
            f"what was not. Nothing more was copied. Start the job again: it goes on where the outputs were put back "
            f"together with the journal, and else says what is wrong"
        )
