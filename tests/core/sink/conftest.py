"""A log of lists and a driver that takes the protocol's steps one by one, all decisions made by the core.

Scenarios stop a driver or an attempt between any two steps by not calling the next one: that is a crash, or a
zombie that goes on later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa
import pytest

from semel.core.sink import run
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.decide import check_twin, decide, has_twin
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.epochs import closing_epoch, identity_epoch, is_last, writer_epoch
from semel.core.sink.grant import GRANTS_MAX, fence_of, generation_to_ask, stands
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import (
    Attempt,
    Decision,
    Entry,
    Fence,
    OutputClaim,
    OutputTopic,
    Routing,
    Stored,
    WriterClaim,
    decode,
    encode,
)
from semel.core.sink.litter import Litter
from semel.core.sink.ranges import SourceRange, Verdict
from semel.core.sink.refusal import Refusal
from semel.core.sink.run import Ticket
from semel.core.sink.task import (
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
    surplus_allowed,
)
from semel.types import ProducerGrant, TopicPartition

SINK = "orders"
SOURCE = TopicPartition("in", 0)
PARTITIONS = 2


class Stopped(Exception):
    """A refusal, or the log's answer that ends an attempt."""

    def __init__(self, why: Refusal | str) -> None:
        self.reason = why.reason.value if isinstance(why, Refusal) else why
        self.text = why.evidence if isinstance(why, Refusal) else why
        super().__init__(self.reason)


def allow(outcome):
    if isinstance(outcome, Refusal):
        raise Stopped(outcome)
    return outcome


@lru_cache(4_096)
def entry_of(value: bytes) -> Entry:
    """As the log has it."""
    record = decode(value)
    return Entry(encode(record)[0], record.sink_id, record)


class Tombstone(bytes):
    """The key that one is put on, in the place of a record's value."""


@dataclass
class World:
    """Output partitions with producer state, the decision log, and the counters of the coordinator."""

    rows: dict[TopicPartition, list[tuple[int, bytes]]] = field(default_factory=dict)
    state: dict[tuple[int, TopicPartition], tuple[int, int]] = field(default_factory=dict)
    journal: list[bytes] = field(default_factory=list)
    swept: set[int] = field(default_factory=set)  # offsets of it that compaction has taken
    sink_epochs: int = 0  # of all grants
    identities: dict[int, int] = field(default_factory=dict)  # newest epoch of each generation's identity
    identity_ids: dict[int, int] = field(default_factory=dict)  # its producer id
    newest_driver_epochs: dict[int, int] = field(default_factory=dict)  # in the decision log, by producer id
    producer_ids: int = 100
    topic_id: str = "first"
    compacted: bool = False
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    partition_count: int = PARTITIONS
    deleted: set[str] = field(default_factory=set)

    def topic(self, name: str) -> OutputTopic:
        return OutputTopic(name, self.topic_id, self.partition_count)

    def partitions_of(self, *topics: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for topic in topics for number in range(self.partition_count)]

    @property
    def outputs(self) -> list[TopicPartition]:
        return self.partitions_of("out")

    def grant(self, generation: int) -> ProducerGrant:
        """The sink's identity of ``generation`` with its next epoch."""
        self.sink_epochs += 1
        if generation not in self.identity_ids:
            self.producer_ids += 1
            self.identity_ids[generation] = self.producer_ids
        self.identities[generation] = self.identities.get(generation, -1) + 1
        return ProducerGrant(self.identity_ids[generation], self.identities[generation])

    def forget_names(self) -> None:
        """As Apache Kafka does after ``transactional.id.expiration.ms``; the producer ids are never given again."""
        self.identities.clear()
        self.identity_ids.clear()

    def forget_producers(self) -> None:
        """As any broker does after ``producer.id.expiration.ms``."""
        self.state.clear()
        self.newest_driver_epochs.clear()

    def log(self, output: TopicPartition) -> list[tuple[int, bytes]]:
        return self.rows.setdefault(output, [])

    def append_row(self, output, producer_id, producer_epoch, sequence, row) -> str:
        epoch, last_sequence = self.state.get((producer_id, output), (-1, -1))
        if producer_epoch < epoch:
            return "fenced"
        if producer_epoch > epoch:
            last_sequence = -1
        if sequence <= last_sequence:
            return "duplicate"
        if sequence > last_sequence + 1:
            return "gap"
        self.state[producer_id, output] = (producer_epoch, sequence)
        self.log(output).append((producer_id, row))
        return "stored"

    def fence(self, producer_id, producer_epoch, output) -> None:
        epoch, _ = self.state.get((producer_id, output), (-1, -1))
        if epoch > producer_epoch:
            raise Stopped("SinkFenced")
        if epoch < producer_epoch:
            self.state[producer_id, output] = (producer_epoch, -1)
            self.log(output).append((-1, b"marker"))

    def append_as_driver(self, record, producer_id: int) -> None:
        """The log knows identities by their producer ids, and refuses the older epochs of the same one only."""
        if identity_epoch(record.sink_epoch) < self.newest_driver_epochs.get(producer_id, -1):
            raise Stopped("SinkFenced")
        self.newest_driver_epochs[producer_id] = identity_epoch(record.sink_epoch)
        self.journal.append(encode(record)[1])

    def append_as_task(self, record) -> None:
        self.journal.append(encode(record)[1])

    def sweep(self, keys: Sequence[bytes], producer_id: int, sink_epoch: int) -> None:
        """Tombstones, as the log takes them from a driver."""
        if identity_epoch(sink_epoch) < self.newest_driver_epochs.get(producer_id, -1):
            raise Stopped("SinkFenced")
        self.journal += map(Tombstone, keys)

    def entries(self, since: int = 0, *, whole: bool = False) -> Iterator[Entry]:
        """What is left of the decision log; ``whole``: all that it ever had."""
        for offset in range(since, len(self.journal)):
            value = self.journal[offset]
            if isinstance(value, Tombstone):
                yield Entry(value, SINK, None)
            elif whole or offset not in self.swept:
                yield entry_of(value)

    def sweepable(self) -> list[int]:
        """Offsets of records that have a newer one, or a tombstone, of their key behind them."""
        entries = list(self.entries(whole=True))
        newest = {entry.key: offset for offset, entry in enumerate(entries)}
        return [
            offset
            for offset, entry in enumerate(entries)
            if entry.record is not None and newest[entry.key] > offset
        ]

    def history(self, *, whole: bool = False) -> SinkHistory:
        history = SinkHistory(SINK, litter=Litter())
        for entry in self.entries(whole=whole):
            history.take(entry)
        history.end_offset = len(self.journal)
        return history

    def stored(self, producer_id, output, from_offset) -> list[tuple[int, bytes]]:
        return [
            (offset, row)
            for offset, (who, row) in enumerate(self.log(output))
            if who == producer_id and offset >= from_offset
        ]

    def visible(self) -> list[bytes]:
        """Every row of the output, sorted: the multiset that readers see."""
        return sorted(row for log in self.rows.values() for who, row in log if who >= 0)


def topic_of(row: bytes, option: str) -> str:
    """A row that begins with "@b" goes to topic "b", any other to the option's."""
    return chr(row[1]) if row[:1] == b"@" else option


@dataclass
class TaskAttempt:
    driver: Driver
    ticket: Ticket
    source_range: SourceRange
    rows: Sequence[bytes]
    number: int = 0
    query_id: str = "q1"
    producer_id: int = -1
    state: CommittedState | None = None
    todo: list[tuple[TopicPartition, int, bytes]] = field(default_factory=list)
    outputs: dict[TopicPartition, OutputReport] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.driver.world

    def open(self) -> Verdict:
        """Skip or write, WRITER, and the comparison with what the scan found."""
        verdict = allow(may_write(self.ticket, self.source_range, self.query_id))
        if verdict is Verdict.SKIP:
            return verdict
        writer, ticket = self.source_range.writer, self.ticket
        known = ticket.known_id(writer)
        cut = cut_of(ticket, self.source_range, self.query_id)
        if cut is not None:
            self.world.append_as_task(cut)
        if self.number:
            self.world.append_as_task(Attempt(SINK, writer, ticket.sink_epoch, self.number))
        if known is None:
            self.world.producer_ids += 1
            self.world.append_as_task(WriterClaim(SINK, writer, self.world.producer_ids, ticket.sink_epoch))
        if known is None or self.number:
            since = self._read_on()
            if self.number:
                refusal = late(since, ticket.sink_epoch)
                if refusal:
                    raise Stopped(refusal)
            self.producer_id = allow(claimed(since, ticket.sink_epoch, writer))
        else:
            self.producer_id = known
        self._compare(writer)
        return verdict

    def _read_on(self) -> SinkHistory:
        since = self.ticket.history()
        for entry in self.world.entries(since.end_offset):
            since.take(entry)
        return since

    def _output_topic(self, topic: str) -> OutputTopic:
        if topic in self.ticket.outputs:
            return self.ticket.outputs[topic]
        allow(may_claim_output(self.ticket.history(), topic) or True)
        starts = {tp: len(self.world.log(tp)) for tp in self.world.partitions_of(topic)}
        claim = OutputClaim(SINK, self.ticket.sink_epoch, self.world.topic(topic), starts, self.number)
        self.world.append_as_task(claim)
        return allow(claimed_output(self._read_on(), self.ticket.sink_epoch, topic))

    def _compare(self, writer: str) -> None:
        check = PrefixCheck.of(self.ticket, writer)
        targets: dict[TopicPartition, list[bytes]] = {tp: [] for tp in check.expected}
        for row in self.rows:
            output = self._output_topic(topic_of(row, self.driver.routing.topic))
            targets.setdefault(TopicPartition(output.topic, row[-1] % output.partition_count), []).append(row)
        for output, mine in sorted(targets.items()):
            stored = allow(check.feed(output, None, pa.array(mine, pa.binary()), None))
            have = self.ticket.have.get((writer, output))
            surplus_from = None
            if have is not None and have.digest.count > len(mine):
                if not surplus_allowed(self.ticket, self.source_range, output, self.query_id):
                    raise Stopped(fewer_rows(writer, output, len(mine), have.digest.count))
                start = self.ticket.scan_from(writer, output)
                ids = {self.producer_id, *self.ticket.writers[writer].values()}
                at = sorted(row for each in ids for row in self.world.stored(each, output, start))
                if [row for _, row in at[: len(mine)]] != mine:
                    raise Stopped("NonDeterministicReplay")
                surplus_from = at[len(mine)][0]
            first = self.ticket.next_sequences.get((writer, output), 0)
            for index, row in enumerate(mine[stored:]):
                self.todo.append((output, first + index, row))
            if mine or have:
                self.outputs[output] = OutputReport(
                    NO_ROWS.over(None, pa.array(mine, pa.binary())),
                    first + len(mine[stored:]),
                    have.end_offset if have else self.ticket.scan_from(writer, output),
                    surplus_from,
                )

    def send(self, count: int = 10**6) -> TaskAttempt:
        """The next ``count`` rows."""
        for _ in range(min(count, len(self.todo))):
            output, sequence, row = self.todo[0]
            answer = self.world.append_row(
                output, self.producer_id, writer_epoch(self.ticket.sink_epoch), sequence, row
            )
            if answer == "fenced":
                raise Stopped("SinkFenced")
            if answer == "gap":
                raise Stopped("gap")
            self.todo.pop(0)
            report = self.outputs[output]
            end_offset = max(report.end_offset, len(self.world.log(output)))
            self.outputs[output] = OutputReport(
                report.digest, report.next_sequence, end_offset, report.surplus_from
            )
        return self

    def report(self) -> TaskReport:
        assert not self.todo
        return TaskReport(
            self.source_range.writer,
            self.source_range,
            self.producer_id,
            len(self.rows),
            self.outputs,
            task_attempt_id=self.number,
            state=self.state,
        )


@dataclass
class Driver:
    world: World
    query_id: str = "q1"
    routing: Routing = field(default_factory=lambda: Routing("out"))
    plan_text: str = ""
    state_plan: str = ""
    sink_epoch: int = -1
    granted: Fence | None = None
    ticket: Ticket | None = None
    history: SinkHistory | None = None
    starts: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self) -> Driver:
        """Up to the grant that a FENCE is to be made of."""
        return self.read().ask(generation_to_ask(self.history))

    def read(self) -> Driver:
        self.history = self.world.history()
        return self

    def ask(self, generation: int) -> Driver:
        for _ in range(GRANTS_MAX):
            grant = self.world.grant(generation)
            self.granted = fence_of(self.history, generation, grant, f"driver {id(self)}")
            if self.granted is not None and not is_last(self.granted.sink_epoch):
                self.sink_epoch = self.granted.sink_epoch
                return self
            if self.granted is not None:
                self._append_fence()
            generation += 1
        raise Stopped("too many grants")

    def _append_fence(self) -> bool:
        self.world.append_as_driver(self.granted, self.granted.producer_id)
        return allow(stands(self.read().history, self.granted))

    def fence(self) -> Driver:
        """Again from the grant on, should the FENCE not stand."""
        return self if self._append_fence() else self.take().fence()

    def append(self, record) -> None:
        """A record of the driver's; it counts, or the driver stops."""
        self.world.append_as_driver(record, self.granted.producer_id)
        history = SinkHistory(SINK)
        if [history.take(entry) for entry in self.world.entries()][-1] is False:
            raise Stopped(history.fenced_by_other(self.sink_epoch) or "void")

    def fence_writers(self) -> Driver:
        every = self.world.partitions_of(*run.output_topics(self.history, self.routing.topic))
        for (producer_id, epoch), outputs in run.fences(self.history, self.sink_epoch, every).items():
            for output in outputs:
                self.world.fence(producer_id, epoch, output)
        for producer_id, epoch in run.former_identity(self.history, SOURCE):
            self.world.newest_driver_epochs[producer_id] = epoch
        return self

    def begin(self) -> Driver:
        world = self.world
        topics = [
            name for name in run.output_topics(self.history, self.routing.topic) if name not in world.deleted
        ]
        outputs = {name: world.topic(name) for name in topics}
        partitions = world.partitions_of(*topics)
        ends = {tp: len(world.log(tp)) for tp in partitions}
        self.starts = run.scan_starts(self.history, ends)
        refusal = run.check_provable(
            self.history,
            outputs,
            self.starts,
            {tp: world.log_starts.get(tp, 0) for tp in partitions},
            {"out"} if world.compacted else set(),
        )
        if refusal:
            raise Stopped(refusal)
        allow(run.judge_state_plan(self.history, self.state_plan) or True)
        surplus = run.surplus_starts(self.history)
        have = {}
        for writer, ids in self.history.writers.items():
            for tp in partitions:
                start = surplus.get((writer, tp), self.starts[tp])
                found = sorted(row for each in ids.values() for row in world.stored(each, tp, start))
                if found:
                    digest = NO_ROWS.over(None, pa.array([row for _, row in found], pa.binary()))
                    have[writer, tp] = Stored(digest, found[-1][0] + 1)
        self.read()
        begun = allow(
            run.begin(
                self.history,
                self.sink_epoch,
                outputs,
                self.starts,
                have,
                ends,
                routing=self.routing,
                plan=self.plan_text,
            )
        )
        self.append(begun)
        self.history = world.history()
        self.ticket = run.new_ticket(self.history, begun, 7, 2, self.state_plan)
        return self

    def sweep(self, settled_min: int = 1) -> int:
        """How many tombstones it puts."""
        keys = run.to_sweep(self.history, self.sink_epoch, settled_min)
        if keys:
            self.world.sweep(keys, self.granted.producer_id, self.sink_epoch)
            sequence = self.ticket.journal_sequence + len(keys)
            self.ticket = replace(self.ticket, journal_sequence=sequence)
        return len(keys)

    def plan(self) -> Driver:
        """The next micro-batch: on with the run, or a new one."""
        if self.ticket is not None:
            before = self.history.decision
            self.history = self.world.history()
            if allow(run.goes_on(self.history, self.sink_epoch, self.history.decision != before)):
                self.ticket = run.next_ticket(self.ticket, self.history, self.ticket.journal_sequence + 1)
                return self
        return self.take().fence().fence_writers().begin()

    def task(self, source_range: SourceRange, rows: Sequence[bytes], number: int = 0) -> TaskAttempt:
        return TaskAttempt(self, self.ticket, source_range, rows, number, self.query_id)

    def decide(
        self, reports: Sequence[TaskReport], batch_id: int = 0, retried: bool = False
    ) -> Decision | None:
        decision = self.decision_of(reports, batch_id, retried)
        if decision is not None:
            self.append(decision)
        return decision

    def decision_of(
        self, reports: Sequence[TaskReport], batch_id: int = 0, retried: bool = False
    ) -> Decision | None:
        history = self.world.history()
        if (fenced := history.fenced_by_other(self.sink_epoch)) is not None:
            raise Stopped(fenced)
        twins = [report for report in reports if retried or has_twin(history, self.ticket, report)]
        for report in twins:
            self._settle(report)
        closed = bool(twins)
        return allow(decide(self.ticket, history, reports, self.query_id, batch_id, closed=closed))

    def _settle(self, report: TaskReport) -> None:
        ids = {report.producer_id, *self.ticket.writers.get(report.writer, {}).values()}
        for tp in self.world.partitions_of(*self.world.history().outputs):
            self.world.fence(report.producer_id, closing_epoch(self.sink_epoch), tp)
            start = self.ticket.scan_from(report.writer, tp)
            found = sorted(row for each in ids for row in self.world.stored(each, tp, start))
            refusal = check_twin(
                report, tp, NO_ROWS.over(None, pa.array([row for _, row in found], pa.binary()))
            )
            if refusal:
                raise Stopped(refusal)

    def batch(self, *work: tuple[SourceRange, Sequence[bytes]], batch_id: int = 0) -> Decision | None:
        """A whole micro-batch without any trouble."""
        self.plan()
        reports = []
        for source_range, rows in work:
            attempt = self.task(source_range, rows)
            if attempt.open() is Verdict.WRITE:
                reports.append(attempt.send().report())
        return self.decide(reports, batch_id)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def driver(world):
    def make(query_id: str = "q1", topic: str = "out", columns: tuple[str, ...] = ()) -> Driver:
        return Driver(world, query_id, Routing(topic, columns))

    return make


@pytest.fixture
def stopped():
    def expect(reason: str):
        return pytest.raises(Stopped, match=f"^{reason}$")

    return expect


@pytest.fixture
def source():
    def make(first: int, end: int, partition: int = 0, split: tuple[int, int] = (0, 1)) -> SourceRange:
        return SourceRange(TopicPartition("in", partition), first, end, *split)

    return make


@pytest.fixture
def rows():
    def make(first: int, end: int, version: bytes = b"") -> list[bytes]:
        return [version + bytes([0, number]) for number in range(first, end)]

    return make


@pytest.fixture(scope="session")
def make_world():
    return World


@pytest.fixture(scope="session")
def make_driver():
    return Driver


@pytest.fixture(scope="session")
def make_history():
    return SinkHistory


@pytest.fixture(scope="session")
def the_stop():
    return Stopped
