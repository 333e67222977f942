"""A sink task: from Spark's Arrow batches to the log, and a report of what stands there.

The order is the protocol's (step 6): one range note, skip or write, WRITER, compare every prefix with what
the scan found, and only then the first new row. Rows go out in the order they come, so an attempt that is
repeated repeats the very same sequences. A topic that the run does not know yet is claimed (OUTPUT) before
the first row goes there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from semel.client.model import Produced
from semel.core.client.fate import Next, next_step
from semel.core.sink.committed_state import CommittedState, StateReport, judge_state
from semel.core.sink.digest import NO_ROWS, Digest
from semel.core.sink.epochs import writer_epoch
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Attempt, OutputClaim, OutputTopic, WriterClaim
from semel.core.sink.landing import Landing, landed
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.refusal import is_stage
from semel.core.sink.run import Ticket, compacted
from semel.core.sink.task import (
    Attempted,
    OutputReport,
    PrefixCheck,
    TaskReport,
    claimed,
    claimed_output,
    cut_of,
    fewer_rows,
    late,
    may_claim_output,
    may_write,
    not_stored,
    other_rows,
    surplus_allowed,
    writer_forgotten,
)
from semel.errors import BrokerError, ConfigError, ErrorCode, SinkFenced
from semel.record.batch import BatchHeader, decode_header
from semel.record.columnar import encode_columns
from semel.record.compression import Compression
from semel.sequence import advance
from semel.spark.flight import Flight
from semel.spark.letters import letters_of, unwritable
from semel.spark.options import SinkOptions
from semel.spark.output import Incoming, Rows, has_numbers, has_timestamps, rows_of, spread
from semel.spark.owners import refuse_foreign_output
from semel.spark.process import this_process
from semel.spark.refusing import allow
from semel.spark.sink_log import SinkLog, cleanup_policy, create_topic, find_output, partitions_of
from semel.spark.stored_rows import OlderDuplicates, stored_batches, stored_rows
from semel.spark.takeover import NEW_TOPIC_PARTITIONS, listed
from semel.types import (
    LATEST_TIMESTAMP,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerGrant,
    TopicPartition,
)

LOOK_AGAIN_MS: Final = 60_000


@dataclass(slots=True)
class _Output:
    """One output partition, as this attempt goes along."""

    next_sequence: int
    end_offset: int
    digest: Digest = NO_ROWS
    surplus_from: int | None = None


@dataclass(frozen=True, slots=True)
class _Elders:
    """What earlier attempts have stored in one output partition, of this micro-batch and in this run."""

    row_count: int
    end_offset: int


@dataclass(slots=True)
class TaskWrite:
    """One attempt of one writer."""

    options: SinkOptions
    ticket: Ticket
    writer: str
    source_range: SourceRange | None
    task_attempt_id: int
    attempt_number: int
    query_id: str
    surplus_below: int | None = None
    producer_id: int = -1
    row_count: int = 0
    row_hash: int = 0
    own_number_count: int = 0
    duplicates: bool = False
    outputs: dict[TopicPartition, _Output] = field(default_factory=dict)
    _log: SinkLog = field(init=False)
    _topics: dict[str, OutputTopic] = field(init=False)
    _claimed_starts: dict[TopicPartition, int] = field(default_factory=dict)
    _elders: dict[TopicPartition, _Elders] = field(
        default_factory=dict
    )  # rows of earlier attempts in this run
    _sure_ends: dict[TopicPartition, int] = field(default_factory=dict)  # when something came in doubt
    _flight: Flight = field(init=False)
    _older: OlderDuplicates = field(init=False)
    _asked_ms: int = field(init=False)  # whether the sink is still this run's, by the wall clock

    def __post_init__(self) -> None:
        self._asked_ms = self.ticket.planned_ms
        self._log = SinkLog(self.options.connection, self.ticket.sink_id, self.ticket.journal_partition)
        self._topics = dict(self.ticket.outputs)
        self._flight = Flight(self._log.cluster, self._take, self._doubt)
        self._older = OlderDuplicates(self._log.cluster)

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskReport:
        """Write every row, or raise before the first one."""
        if self.options.topic is not None and self.options.topic not in self._topics:
            self._claim_output(self.options.topic)
        check = PrefixCheck.of(self.ticket, self.writer)
        incoming = iter(batches)
        first = next(incoming, None)
        if first is not None:
            incoming = chain((first,), incoming)
            if has_timestamps(first):
                self._flight.stored = self._stored
                self._meet_elders(check)
        if not check.settled:
            with tempfile.TemporaryFile(prefix="semel-spool-") as file:
                spool = _Spool(file)
                while not check.settled:
                    batch = next(incoming, None)
                    if batch is None:
                        self._meet_surplus(check)
                        break
                    spool.write(self._compare(check, batch))
                for piece in spool.read():
                    self._send(piece)
        for batch in incoming:
            self._send(dict(self._spread(batch)))
        self._flight.land()
        return self._report()

    @property
    def _may_have_twin(self) -> bool:
        """A stage of a batch job that runs again numbers its attempts from 0 again."""
        return self.attempt_number > 0 or self.source_range is None

    # -- rows to output partitions ----------------------------------------------------------------------

    def _spread(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, Rows]]:
        first_row = self.ticket.rows_total.get(self.writer, 0) + self.row_count - self.own_number_count
        incoming = rows_of(batch, first_row)
        self.row_count += len(incoming.rows)
        if has_numbers(batch):
            self.own_number_count += len(incoming.rows)
        incoming, letters = self._without_letters(incoming)
        pieces = [(incoming, self.options.topic)]
        if letters is not None:
            pieces.append((letters, self.options.dead_letter_topic))
        for rows, option in pieces:
            if self.options.txn_version is not None:
                self.row_hash = (self.row_hash + rows.order_free_hash(option)) % 2**64
            for topic, of_topic in rows.by_topic(option):
                yield from self._of_topic(topic, of_topic)

    def _of_topic(self, topic: str, of_topic: Incoming) -> Iterator[tuple[TopicPartition, Rows]]:
        for number, rows in spread(of_topic, self.writer, self._topic(topic).partition_count):
            tp = TopicPartition(topic, number)
            state = self._output(tp)
            state.digest = state.digest.over(rows.keys, rows.values, rows.headers)
            yield tp, rows

    def _without_letters(self, incoming: Incoming) -> tuple[Incoming, Incoming | None]:
        """What can be written, and the letters of what cannot be: each in the order in which it came."""
        options = self.options
        if options.dead_letter_topic is None:
            return incoming, None
        reasons = unwritable(incoming, options, lambda topic: self._topic(topic).partition_count)
        if not reasons:
            return incoming, None
        others = np.setdiff1d(np.arange(len(incoming.rows)), list(reasons))
        return incoming.take(others), letters_of(incoming, reasons, self.writer, options.batch_bytes_max)

    def _topic(self, topic: str) -> OutputTopic:
        return self._topics.get(topic) or self._claim_output(topic)

    def _output(self, tp: TopicPartition) -> _Output:
        if tp not in self.outputs:
            stored = self.ticket.have.get((self.writer, tp))
            start = self._begun_at(tp) if stored is None else stored.end_offset
            elders = self._elders.get(tp, _Elders(0, start))
            self.outputs[tp] = _Output(
                advance(self.ticket.next_sequences.get((self.writer, tp), 0), elders.row_count),
                elders.end_offset,
            )
        return self.outputs[tp]

    def _compare(self, check: PrefixCheck, batch: pa.RecordBatch) -> dict[TopicPartition, Rows]:
        new = {}
        for tp, rows in self._spread(batch):
            stored = allow(check.feed(tp, rows.keys, rows.values, rows.headers))
            if stored < len(rows):
                new[tp] = rows.drop(stored)
        return new

    def _meet_elders(self, check: PrefixCheck) -> None:
        """Compare with what an earlier attempt of this run has stored, too, and write only what comes after it.

        Apache Kafka counts a producer's rest from the timestamps of its records: where rows bring their own, it may
        have forgotten the earlier attempt as soon as that had written, and would store the same sequences again.
        """
        if not self._may_have_twin:
            return
        self.producer_id, since = self._claim()
        others = since.twins_of(self.ticket.sink_epoch).get(self.writer, set()) - {self.task_attempt_id}
        if not others and self.attempt_number == 0:
            return
        partitions = [tp for output in since.outputs.values() for tp in partitions_of(output)]
        ends = listed(self._log.cluster, partitions, LATEST_TIMESTAMP)
        for tp in partitions:
            have = self.ticket.have.get((self.writer, tp))
            known = (
                self.ticket if tp.topic in self.ticket.outputs else replace(self.ticket, starts=since.starts)
            )
            start = known.scan_from(self.writer, tp) if have is None else have.end_offset
            before = found = check.expected.get(tp, NO_ROWS)
            for _, rows, offsets in stored_rows(
                self._log.cluster, self.ticket.sink_id, tp, {self.producer_id: start}, ends[tp]
            ):
                found = found.over(rows.keys, rows.values, rows.headers)
                start = int(offsets[len(offsets) - 1].as_py()) + 1
            if found.count > before.count:
                check.expected[tp] = found
                self._elders[tp] = _Elders(found.count - before.count, start)
                self.duplicates = True

    def _meet_surplus(self, check: PrefixCheck) -> None:
        """Fewer rows came than are stored: an error, unless another query cuts its batches elsewhere."""
        for tp, seen in check.unmet.items():
            stored = check.expected[tp]
            if (
                self.source_range is None
                or tp in self._elders
                or not surplus_allowed(self.ticket, self.source_range, tp, self.query_id, self.surplus_below)
            ):
                allow(fewer_rows(self.writer, tp, seen.count, stored.count, self.ticket.sink_id))
            output = self._output(tp)
            digest = NO_ROWS
            output.surplus_from = self.ticket.scan_from(self.writer, tp)
            found = stored_rows(
                self._log.cluster,
                self.ticket.sink_id,
                tp,
                dict.fromkeys(self.ticket.writers[self.writer].values(), output.surplus_from),
                self.ticket.have[self.writer, tp].end_offset,
            )
            for _, rows, offsets in found:
                wanted = rows.first(seen.count - digest.count)
                digest = digest.over(wanted.keys, wanted.values, wanted.headers)
                if len(wanted):
                    output.surplus_from = int(offsets[len(wanted) - 1].as_py()) + 1
            if digest != seen:
                allow(other_rows(self.writer, tp, seen.count, self.ticket.sink_id))

    # -- rows to the log --------------------------------------------------------------------------------

    def _send(self, pieces: dict[TopicPartition, Rows]) -> None:
        pieces = {tp: rows for tp, rows in pieces.items() if len(rows)}
        if not pieces:
            return
        if self.producer_id < 0:
            self.producer_id, _ = self._claim()
        self._stop_if_late()
        encoded = {tp: self._encode(tp, rows) for tp, rows in pieces.items()}
        for turn in range(max(map(len, encoded.values()))):
            self._flight.send({tp: batches[turn] for tp, batches in encoded.items() if turn < len(batches)})

    def _stop_if_late(self) -> None:
        """Who stood still for long asks whether the sink is still his: outputs forget fences as they do writers."""
        now_ms = this_process().clock.now_ms()
        if abs(now_ms - self._asked_ms) <= LOOK_AGAIN_MS:
            return
        since = self.ticket.history()
        self._log.read(since)
        fenced = since.fenced_by_other(self.ticket.sink_epoch)
        if fenced is not None:
            allow(fenced)
        self._asked_ms = now_ms

    def _encode(self, tp: TopicPartition, rows: Rows) -> list[bytearray]:
        output = self._output(tp)
        batches = encode_columns(
            rows.keys,
            rows.values,
            rows.times(this_process().clock.now_ms()),
            headers=rows.headers,
            producer_id=self.producer_id,
            producer_epoch=writer_epoch(self.ticket.sink_epoch),
            base_sequence=output.next_sequence,
            batch_bytes_max=self.options.batch_bytes_max,
            compression=Compression[self.options.compression.upper()],
        )
        output.next_sequence = advance(output.next_sequence, len(rows))
        return batches

    def _take(self, tp: TopicPartition, answer: Produced, batch: BatchHeader) -> None:
        code = answer.error_code
        match next_step(code):
            case Next.ACCEPT:
                pass
            case Next.FENCED:
                raise SinkFenced(
                    f"another driver has taken sink {self.ticket.sink_id!r} over: {tp} refuses this one's rows"
                )
            case Next.ASK_THE_LOG if self._older.has(tp, batch, self._begun_at(tp)):
                code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            case step:
                if step is Next.ASK_OR_FAIL:
                    # It straddles the last sequence that is stored: an attempt with other rows was here.
                    allow(other_rows(self.writer, tp, batch.record_count, self.ticket.sink_id))
                if step is Next.NEW_GRANT:
                    allow(writer_forgotten(self.writer, tp))
                reason = _told(code, tp, answer)
                if code is ErrorCode.MESSAGE_TOO_LARGE and self.options.dead_letter_topic is not None:
                    reason += "; rows above kafka.max.request.size are dead letters: give the topic's max.message.bytes"
                raise BrokerError(code, f"writing rows of {self.writer} to {tp}", reason)
        output = self._output(tp)
        begun_at = self._begun_at(tp)
        landing = landed(code, answer.base_offset, begun_at, output.end_offset)
        if landing is Landing.ELSEWHERE:
            allow(not_stored(self.writer, tp, answer.base_offset, begun_at))
        if landing is Landing.DUPLICATE:
            self.duplicates = True
        else:
            output.end_offset = answer.base_offset + batch.record_count

    def _begun_at(self, tp: TopicPartition) -> int:
        """Rows of this micro-batch stand at or after it in ``tp``."""
        return self._claimed_starts.get(tp, self.ticket.scan_from(self.writer, tp))

    def _doubt(self, partitions: Iterable[TopicPartition]) -> None:
        self._sure_ends = {tp: self._output(tp).end_offset for tp in partitions}

    def _stored(self, batches: Mapping[TopicPartition, bytearray]) -> dict[TopicPartition, Produced]:
        """Which of these stand behind what surely was stored before, as in :meth:`_meet_elders`, by this attempt."""
        ends = listed(self._log.cluster, list(batches), LATEST_TIMESTAMP)
        answers = {}
        for tp, batch in batches.items():
            header, start = decode_header(batch), self._sure_ends.get(tp, self._output(tp).end_offset)
            writer = ProducerGrant(header.producer_id, header.producer_epoch)
            found = stored_batches(self._log.cluster, self.ticket.sink_id, tp, writer, start, ends[tp])
            if header.base_sequence in found:
                answers[tp] = Produced(ErrorCode.NONE, found[header.base_sequence], NO_TIMESTAMP, -1)
        return answers

    # -- what the decision log has to know first --------------------------------------------------------

    def _claim(self) -> tuple[int, SinkHistory]:
        """Whose producer id to write with. A known writer's first attempt needs no question.

        And what the decision log says by then.
        """
        ticket = self.ticket
        cut = cut_of(ticket, self.source_range, self.query_id)
        if cut is not None:
            self._log.append(cut)
        known = ticket.known_id(self.writer)
        since = ticket.history()
        if known is not None and not self._may_have_twin:
            return known, since
        if self._may_have_twin:
            self._log.append(Attempt(ticket.sink_id, self.writer, ticket.sink_epoch, self.task_attempt_id))
        if known is None:
            grant = self._log.cluster.init_producer_id()
            claim = WriterClaim(ticket.sink_id, self.writer, grant.producer_id, ticket.sink_epoch)
            self._log.append(claim, grant, sequence=0)
        self._read_on(since)
        return allow(claimed(since, ticket.sink_epoch, self.writer)), since

    def _claim_output(self, topic: str) -> OutputTopic:
        """A topic that this run has not written yet: the first task's view of it is every task's."""
        since = self.ticket.history()
        self._read_on(since)
        if topic not in since.outputs:
            refusal = may_claim_output(since, topic)
            if refusal is not None:
                allow(refusal)
            output = find_output(self._log.cluster, topic)
            if output is None and topic in (self.options.topic, self.options.dead_letter_topic):
                create_topic(self._log.cluster, topic, NEW_TOPIC_PARTITIONS)
                output = find_output(self._log.cluster, topic)
            if output is None:
                raise ConfigError(
                    f"there is no topic {topic!r}, which a row names in its topic column: make it, and start the "
                    f"query again"
                )
            if not is_stage(self.ticket.sink_id):
                refuse_foreign_output(
                    self._log.cluster, self.options.connection, topic, "No row was written there"
                )
            if "compact" in cleanup_policy(self._log.cluster, topic):
                allow(compacted(topic))
            starts = listed(self._log.cluster, partitions_of(output), LATEST_TIMESTAMP)
            claim = OutputClaim(
                self.ticket.sink_id, self.ticket.sink_epoch, output, starts, self.task_attempt_id
            )
            self._log.append(claim, self._log.cluster.init_producer_id(), sequence=0)
            self._read_on(since)
        self._topics[topic] = allow(claimed_output(since, self.ticket.sink_epoch, topic))
        self._claimed_starts |= {tp: start for tp, start in since.starts.items() if tp.topic == topic}
        return self._topics[topic]

    def _read_on(self, since: SinkHistory) -> None:
        self._log.read(since)
        if self._may_have_twin:
            refusal = late(since, self.ticket.sink_epoch)
            if refusal is not None:
                allow(refusal)

    def _report(self) -> TaskReport:
        known = self.ticket.known_id(self.writer)
        if self.producer_id < 0 and known is not None:
            self.producer_id = known
        return TaskReport(
            self.writer,
            self.source_range,
            self.producer_id,
            self.row_count,
            {
                tp: OutputReport(output.digest, output.next_sequence, output.end_offset, output.surplus_from)
                for tp, output in self.outputs.items()
            },
            task_attempt_id=self.task_attempt_id,
            row_hash=self.row_hash,
            own_number_count=self.own_number_count,
        )


def write_range(
    options: SinkOptions,
    ticket: Ticket,
    source_range: SourceRange,
    batches: Iterable[pa.RecordBatch],
    *,
    query_id: str,
    task_attempt_id: int,
    attempt_number: int,
    state: Callable[[], CommittedState] | None = None,
    is_own_source: bool = False,
    surplus_below: int | None = None,
) -> Attempted:
    """One attempt of a streaming task: its range is written, or skipped because it was decided before.

    ``batches`` are begun once the range may be written. ``is_own_source``: they are made here and not by Spark, so
    none is made of a range that is skipped. ``state`` is asked once every batch was consumed and its rows are stored:
    it is the task's as of the end of the range, and goes into the DECISION. ``surplus_below``: see
    :func:`semel.core.sink.task.surplus_allowed`.
    """
    if allow(may_write(ticket, source_range, query_id)) is Verdict.SKIP:
        for _ in (
            () if is_own_source else batches
        ):  # the source's rows are thrown away: they are in the output
            pass
        return Attempted(TaskReport(source_range.writer, source_range, -1, 0, skipped=True), False)
    stored = [(writer, tp) for writer, tp in ticket.have if source_range.gives_up(writer)]
    if source_range.is_gone and stored:
        for batch in batches:
            if (
                batch.num_rows
            ):  # of no row of the source: nobody can tell whether they are among the stored ones
                allow(other_rows(*stored[0], ticket.have[stored[0]].digest.count, ticket.sink_id))
        writer = source_range.writer
        known = ticket.known_id(writer)
        producer_id = NO_PRODUCER_ID if known is None else known
        return Attempted(TaskReport(writer, source_range, producer_id, 0), False)
    attempt = TaskWrite(
        options,
        ticket,
        source_range.writer,
        source_range,
        task_attempt_id,
        attempt_number,
        query_id,
        surplus_below,
    )
    report = attempt.run(batches)
    if state is not None:
        report = replace(report, state=state())
    refusal = judge_state(
        ticket.sink_id, ticket.state_plan, StateReport(report.writer, source_range, report.state)
    )
    if refusal is not None:
        allow(refusal)
    return Attempted(report, attempt.duplicates or attempt_number > 0)


def _told(code: ErrorCode, tp: TopicPartition, answer: Produced) -> str:
    """What the log said, and for a time that rows bring what to do: such a row comes again at every start."""
    said = answer.error_message or ""
    if code != ErrorCode.INVALID_TIMESTAMP:
        return said
    return (
        f"{said}{'. ' * bool(said)}Let the topic take the times of these rows: semel topic alter-config {tp.topic} -c "
        f"message.timestamp.before.max.ms={2**63 - 1} (or message.timestamp.after.max.ms)"
    )


class _Spool:
    """New rows that wait until all prefixes have matched, on disk."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._pieces: list[list[TopicPartition]] = []

    def write(self, piece: dict[TopicPartition, Rows]) -> None:
        self._pieces.append(list(piece))
        for rows in piece.values():
            columns = {
                name: column
                for name, column in (
                    ("key", rows.keys),
                    ("value", rows.values),
                    ("headers", rows.headers),
                    ("timestamp", rows.timestamps),
                )
                if column is not None
            }
            batch = pa.record_batch(list(columns.values()), names=list(columns))
            with pa.ipc.new_stream(self._file, batch.schema) as stream:
                stream.write_batch(batch)

    def read(self) -> Iterator[dict[TopicPartition, Rows]]:
        self._file.seek(0)
        for partitions in self._pieces:
            piece = {}
            for tp in partitions:
                with pa.ipc.open_stream(self._file) as stream:
                    table = stream.read_all().combine_chunks()
                columns = {name: table.column(name).combine_chunks() for name in table.column_names}
                piece[tp] = Rows(
                    columns.get("key"), columns["value"], columns.get("headers"), columns.get("timestamp")
                )
            yield piece
