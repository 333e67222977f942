"""The merge log's shell: make it, take it over, append what comes next, read what is recorded.

Appends go without a producer identity and are repeated blindly: what counts is decided by log order alone
(:mod:`semel.core.flow.merge`). All partitions are worked on at once. Taking over costs five round trips, planning one
where nothing is new, four where something is, and five where much is; either reads no more than stands behind the
decided ends, from the entry right before each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.client.blocking import Cluster
from semel.client.model import TopicMetadata
from semel.core.flow.merge import MergeHistory, begun_behind, entries_between
from semel.core.flow.merge_plan import ENTRIES_MAX, ENTRY_ROWS_MAX, next_head, plan_entries
from semel.core.flow.merge_records import Entry, InputTopic, MergeInput, MergeRecord, PlacedEntry, encode
from semel.core.flow.merge_stops import (
    InputLoss,
    Lost,
    behind_end,
    left_out,
    made_anew,
    overtaken,
    pairs,
    trimmed,
    whole,
)
from semel.core.sink.refusal import Reason, Refusal
from semel.errors import BrokerError, ConfigError, DataLoss, ErrorCode, UnknownTopic
from semel.flow.losses import LOSS_REMEDY
from semel.flow.merge_reading import Placed, no_planned_end, order_lost, read_records
from semel.flow.row_sizes import RowSizes
from semel.record.batch import Record, encode_batch
from semel.record.compression import Compression
from semel.spark.options import Connection
from semel.spark.process import connect, this_process
from semel.spark.refusing import allow
from semel.spark.sink_log import create_topic, produce_until_answered
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from semel.wording import counted

# Kept whole: the recorded order is what makes a replay the same. The entries of one round are one batch.
MERGE_LOG_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(16 * 2**20),
    "message.timestamp.type": "LogAppendTime",
}
_PLAIN_BYTES_MAX: Final = 16 * 1024
_NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a partition's entries go."""

    count: int  # of entries, ever
    ends: Mapping[InputTopic, int]


@dataclass(slots=True)
class _Partition:
    """One partition as this planner knows it."""

    number: int
    history: MergeHistory
    known_from: int  # ``entries`` are those from this offset on
    ahead: dict[InputTopic, int] | None = None  # ends of tables that are read first; None: not asked yet
    read_to: int = 0  # the log offset up to which ``history`` has taken records in
    entries: list[PlacedEntry] = field(default_factory=list)

    def take(self, records: Iterable[Placed], read_to: int) -> None:
        """Take in what the log has next, up to ``read_to``."""
        for offset, record in records:
            if self.history.apply(offset, record) and isinstance(record, Entry):
                self.entries.append(PlacedEntry(offset, record))
        self.read_to = read_to

    def forget_below(self, offset: int) -> None:
        """What stands there was decided."""
        self.entries = [placed for placed in self.entries if placed.offset >= offset]
        self.known_from = max(self.known_from, offset)

    def end_of(self, entries_max: int) -> int:
        """The planned end behind so many entries, or behind all there are."""
        taken = self.entries[:entries_max]
        return taken[-1].offset + 1 if taken else self.known_from


class MergeLog:
    """One stage's merge log. ``inputs`` are read in this order within an entry; who only reads entries needs none."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        inputs: Sequence[str] = (),
        *,
        tables: Sequence[str] = (),
        topic_id: str | None = None,
    ) -> None:
        """``tables``: those inputs that are read up to their ends before the first row of the others is.

        ``topic_id``: which merge log a task was told to read, or a sink has decided in; another one of that name is
        refused then."""
        self.topic = topic
        self.inputs = tuple(dict.fromkeys(inputs))
        self.cluster: Cluster = connect(connection)
        self._topic_id = topic_id
        self._partitions: dict[int, _Partition] = {}
        self._epoch: int | None = None  # once it is taken over
        self._tables = frozenset(tables)
        self._keys: tuple[InputTopic, ...] = ()
        self._latest: dict[TopicPartition, int] = {}  # of the inputs, as they were asked for last
        self._sizes = RowSizes()

    @property
    def topic_id(self) -> str:
        """Which topic the entries' offsets are of."""
        if self._topic_id is None:
            self._topic_id = _id_of(self.cluster.topic(self.topic))
        return self._topic_id

    def ensure(self, partition_count: int) -> None:
        """Make the topic if it is not there, with the stage's number of partitions."""
        found = self.cluster.metadata([self.topic]).topics.get(self.topic)
        if found is None or found.error_code is _NO_TOPIC:
            create_topic(self.cluster, self.topic, partition_count, MERGE_LOG_CONFIG)
            found = self.cluster.topic(self.topic, is_known_to_exist=True)
        elif found.error_code:
            found = self.cluster.topic(self.topic)
        if len(found.partitions) != partition_count:
            allow(
                Refusal(
                    Reason.PLAN_NOT_SUPPORTED,
                    f"topic {self.topic!r} has {counted(len(found.partitions), 'partition')}, and its stage "
                    f"{partition_count}. Nothing was recorded",
                )
            )

    # -- taking over -----------------------------------------------------------------------------------------

    def take_over(self, decided: Mapping[int, int], epoch: int) -> None:
        """From now on no entry of an older planner counts. ``decided``: by partition, where 0 goes without saying.

        To be called by who has fenced the sink, with the epoch of that FENCE and the ends that it read after it. What
        stands behind those is no more than what was planned and not decided, and a HEAD for each start since.
        """
        self._epoch = None
        inputs, partition_count = self._inputs_now()
        configs = self.cluster.describe_configs([self.topic, *self.inputs])
        settings = {name: {key: each.value for key, each in of.items()} for name, of in configs.items()}
        allow(whole(settings, self.topic))
        self._keys = tuple(each.key for each in inputs)
        of_log = {self._tp(number): LATEST_TIMESTAMP for number in range(partition_count)}
        of_inputs = self._of_inputs(range(partition_count), EARLIEST_TIMESTAMP)
        listed = self._listed(of_log | of_inputs)
        self._partitions = self._begun(
            {number: (decided.get(number, 0), listed[self._tp(number)]) for number in range(partition_count)}
        )
        for part in self._partitions.values():
            allow(left_out(part.entries, self.inputs))
        self._append(self._next_heads(epoch, inputs, listed))
        self._next_heads(epoch, inputs, listed)  # stops where another one counts, which came in first
        self._epoch = epoch

    def _begun(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, _Partition]:
        """Each partition from its decided end to the log's, with the entry before as all that is known."""
        for number, (decided, end) in ranges.items():
            if decided > end:
                raise order_lost(
                    self._tp(number), end, decided, "the log ends before them: it has lost its end"
                )
        records = self._records({number: (max(0, first - 1), end) for number, (first, end) in ranges.items()})
        begun = {}
        for number, (decided, end) in ranges.items():
            rest = iter(records[number])
            history = begun_behind(decided, rest) if decided else MergeHistory()
            if history is None:
                raise no_planned_end(self._tp(number), decided)
            begun[number] = _Partition(number, history, decided)
            begun[number].take(rest, end)
        return begun

    def _next_heads(
        self, epoch: int, inputs: Sequence[MergeInput], listed: Mapping[TopicPartition, int]
    ) -> dict[int, Sequence[MergeRecord]]:
        heads: dict[int, Sequence[MergeRecord]] = {}
        for number, part in self._partitions.items():
            log_starts = self._of_partition(number, listed)
            head = next_head(part.history, epoch, this_process().owner, inputs, log_starts)
            if isinstance(head, InputLoss):
                raise _data_loss(head, number)
            allowed = allow(head)
            if allowed is not None:
                heads[number] = [allowed]
        return heads

    # -- planning --------------------------------------------------------------------------------------------

    def plan(
        self,
        positions: Mapping[int, int],
        *,
        append: bool = True,
        entries_max: int = ENTRIES_MAX,
        rows_max: int = ENTRY_ROWS_MAX,
        tick_ms: Mapping[int, int] | None = None,
    ) -> dict[int, int]:
        """Where the next micro-batch ends, by partition; it begins at ``positions``, each a planned end or 0, or
        where it was left.

        Entries that stand behind a position come first, whoever wrote them; where they are fewer than ``entries_max``,
        new ones are appended, up to what the inputs have now. ``tick_ms``: by partition, a TICK where nothing is to be
        read. Raises ``SinkFenced`` where another planner took over, and ``DataLoss`` for what was to
        be recorded next and is gone.
        """
        if self._epoch is None:
            raise ValueError(f"{self.topic!r} is to be taken over before it is planned with")
        for number, part in self._partitions.items():
            self._move(part, positions.get(number, part.known_from))
        if append:
            self._append_new(self._epoch, entries_max, rows_max, tick_ms or {})
        return {number: part.end_of(entries_max) for number, part in self._partitions.items()}

    def planned_ends(self) -> dict[int, int]:
        """Behind the last entry that counts, by partition."""
        return {number: part.history.planned_end for number, part in self._partitions.items()}

    def recorded(self) -> dict[int, Recorded]:
        """What the entries that count come to, by partition."""
        return {
            number: Recorded(part.history.entry_count, dict(part.history.ends))
            for number, part in self._partitions.items()
        }

    def latest(self) -> dict[TopicPartition, int]:
        """What the inputs have now."""
        return self._listed(self._of_inputs(self._partitions, LATEST_TIMESTAMP))

    def has_recorded(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the entries go up to ``ends`` of the inputs, or behind them."""
        return self._behind(ends) == 0

    def unrecorded(self) -> int:
        """Offsets of the inputs that no entry has, as they were asked for last."""
        return self._behind(self._latest)

    def _behind(self, ends: Mapping[TopicPartition, int]) -> int:
        behind = 0
        for number, part in self._partitions.items():
            for key in self._keys:
                end = ends.get(TopicPartition(key.topic, number), 0)
                behind += max(0, end - part.history.ends.get(key, 0))
        return behind

    def _move(self, part: _Partition, position: int) -> None:
        """Have the entries from ``position`` on; it goes back where a micro-batch is planned once more."""
        if position > part.history.planned_end:
            raise no_planned_end(self._tp(part.number), position)
        if position < part.known_from:
            before = self.entries(part.number, position, part.known_from)
            part.entries, part.known_from = before + part.entries, position
        part.forget_below(position)

    def _append_new(self, epoch: int, entries_max: int, rows_max: int, tick_ms: Mapping[int, int]) -> None:
        room = {
            number: entries_max - len(part.entries)
            for number, part in self._partitions.items()
            if len(part.entries) < entries_max
        }
        latest, leader_epochs = self._listed_with_epochs(self._of_inputs(room, LATEST_TIMESTAMP))
        self._latest |= latest
        new: dict[int, list[Entry]] = {}
        rows_max = self._rows_max(epoch, room, latest, rows_max)
        for number, entries_left in room.items():
            part, ends = self._partitions[number], self._of_partition(number, latest)
            if part.ahead is None:
                part.ahead = {key: end for key, end in ends.items() if key.topic in self._tables}
            planned = plan_entries(
                part.history,
                self._keys,
                ends,
                epoch,
                rows_max=rows_max,
                entries_max=entries_left,
                tick_ms=tick_ms.get(number),
                ahead=part.ahead,
                leader_epochs=self._of_partition(number, leader_epochs),
            )
            if planned:
                new[number] = planned
        self._append(new)
        for number in new:
            allow(overtaken(self._partitions[number].history, epoch))

    def _rows_max(
        self, epoch: int, numbers: Iterable[int], latest: Mapping[TopicPartition, int], rows_max: int
    ) -> int:
        """How many rows an entry of these partitions may have; stops where the inputs are not what they were."""
        waiting: dict[tuple[InputTopic, int], tuple[int, int]] = {}
        for number in numbers:
            history, ends = self._partitions[number].history, self._of_partition(number, latest)
            allow(overtaken(history, epoch))
            self._stop_at(behind_end(history, ends), number)
            for key, end in ends.items():
                if end > history.ends[key]:
                    waiting[key, number] = history.ends[key], end
        if not waiting:
            return rows_max
        self._check_still_there({number for _, number in waiting})
        return self._sizes.rows_max(self.cluster, waiting, rows_max)

    def _check_still_there(self, numbers: Iterable[int]) -> None:
        """Offsets were asked for by name: with the same id after that, they were of the same topic."""
        inputs, _ = self._inputs_now()
        log_starts = self._listed(self._of_inputs(numbers, EARLIEST_TIMESTAMP))
        for number in numbers:
            history = self._partitions[number].history
            loss = made_anew(history, inputs) or trimmed(history, self._of_partition(number, log_starts))
            self._stop_at(loss, number)

    # -- reading ---------------------------------------------------------------------------------------------

    def entries(self, partition: int, from_offset: int, end_offset: int) -> list[PlacedEntry]:
        """The entries of ``[from_offset, end_offset)`` that count; both are planned ends, or 0."""
        part = self._partitions.get(partition)
        if part is not None and part.known_from <= from_offset and end_offset <= part.read_to:
            return [each for each in part.entries if from_offset <= each.offset < end_offset]
        first = max(0, from_offset - 1)
        records = self._records({partition: (first, end_offset)})[partition]
        found = entries_between(records, from_offset, end_offset)
        if found is None:
            raise no_planned_end(self._tp(partition), from_offset)
        return found

    def input_ends(self, planned: Mapping[int, int]) -> dict[TopicPartition, int]:
        """How far the inputs were read at these planned ends, by partition."""
        ranges = {number: (end - 1, end) for number, end in planned.items() if end}
        found: dict[TopicPartition, int] = {}
        for number, records in self._records(ranges).items():
            history = begun_behind(planned[number], iter(records))
            if history is None:
                raise no_planned_end(self._tp(number), planned[number])
            found |= {TopicPartition(key.topic, number): end for key, end in history.ends.items()}
        return found

    def _records(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, list[Placed]]:
        return read_records(self.cluster, self.topic, self.topic_id, ranges)

    # -- appending -------------------------------------------------------------------------------------------

    def _append(self, records: Mapping[int, Sequence[MergeRecord]]) -> None:
        """Store them, by one request, and take in all that the log has up to them: what counts is known then."""
        if not records:
            return
        batches = {self._tp(number): self._batch(of_partition) for number, of_partition in records.items()}
        between: dict[int, tuple[int, int]] = {}
        for tp, answer in produce_until_answered(self.cluster, batches).items():
            if answer.error_code:
                raise BrokerError(
                    answer.error_code, f"appending to merge log {tp}", answer.error_message or ""
                )
            part, base = self._partitions[tp.partition], answer.base_offset
            if base < part.read_to:
                why = "the log goes on before them: it has lost its end"
                raise order_lost(self._tp(tp.partition), base, part.read_to, why)
            end = base + len(records[tp.partition])
            if base > part.read_to:  # others appended, or this one twice
                between[tp.partition] = part.read_to, end
            else:
                part.take(enumerate(records[tp.partition], base), end)
        for number, found in self._records(between).items():
            self._partitions[number].take(found, between[number][1])

    def _batch(self, records: Sequence[MergeRecord]) -> bytes:
        now_ms = this_process().clock.now_ms()
        rows = [Record(0, now_ms, *encode(record)) for record in records]
        size_bytes = sum(len(row.value or b"") for row in rows)
        compression = Compression.NONE if size_bytes <= _PLAIN_BYTES_MAX else Compression.ZSTD
        return bytes(encode_batch(rows, compression=compression))

    # -- what is asked of the cluster ------------------------------------------------------------------------

    def _tp(self, number: int) -> TopicPartition:
        return TopicPartition(self.topic, number)

    def _of_inputs(self, numbers: Iterable[int], which: int) -> dict[TopicPartition, int]:
        return {TopicPartition(name, number): which for number in numbers for name in self.inputs}

    def _of_partition(self, number: int, listed: Mapping[TopicPartition, int]) -> dict[InputTopic, int]:
        return {key: listed[TopicPartition(key.topic, number)] for key in self._keys}

    def _listed(self, which: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Ends are those of read_committed."""
        return self._listed_with_epochs(which)[0]

    def _listed_with_epochs(
        self, which: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """The offsets, and the leader epochs under which they were told."""
        if not which:
            return {}, {}
        try:
            listed = self.cluster.list_offsets(which)
            return {tp: each.offset for tp, each in listed.items()}, {
                tp: each.leader_epoch for tp, each in listed.items()
            }
        except UnknownTopic as missing:
            raise self._gone(missing) from missing

    def _inputs_now(self) -> tuple[list[MergeInput], int]:
        """The inputs, and the stage's number of partitions; a refusal where they do not fit each other."""
        found = {}
        metadata = self.cluster.metadata([self.topic, *self.inputs])
        for name in [self.topic, *self.inputs]:
            topic = metadata.topics.get(name)
            try:  # with an error, or without a leader somewhere, it is waited for, or gone
                found[name] = self.cluster.topic(name) if topic is None or topic.error_code else topic
            except UnknownTopic as missing:
                raise self._gone(missing) from missing
        inputs = [MergeInput(name, _id_of(found[name]), len(found[name].partitions)) for name in self.inputs]
        merge_log = found[self.topic]
        if self._topic_id is None:
            self._topic_id = _id_of(merge_log)
        elif self._topic_id != _id_of(merge_log):
            raise order_lost(self._tp(0), 0, 0, "it was deleted and made anew")
        allow(pairs(self.topic, len(merge_log.partitions), inputs))
        return inputs, len(merge_log.partitions)

    # -- what stops it ---------------------------------------------------------------------------------------

    def _gone(self, missing: UnknownTopic) -> UnknownTopic | DataLoss:
        """A topic that is not there: lost, if something was recorded of it."""
        for number, part in self._partitions.items():
            for key, end in part.history.ends.items():
                if key.topic == missing.topic:
                    return _data_loss(InputLoss(key.topic, end, end, Lost.DELETED), number)
        return missing

    @staticmethod
    def _stop_at(loss: InputLoss | None, number: int) -> None:
        if loss is not None:
            raise _data_loss(loss, number)


def _data_loss(loss: InputLoss, number: int) -> DataLoss:
    return DataLoss(
        TopicPartition(loss.topic, number),
        loss.lost_from,
        loss.lost_end,
        f"{loss.how.value}. Nothing was recorded of what comes behind them",
        LOSS_REMEDY,
    )


def _id_of(topic: TopicMetadata) -> str:
    if topic.topic_id is None:
        raise ConfigError(
            f"topic {topic.name!r} has no id: these brokers are too old to tell a topic from one that is made anew "
            f"under its name (Apache Kafka 2.8 can). Nothing was recorded"
        )
    return str(topic.topic_id)
