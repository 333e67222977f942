"""The smallest histories: each test shows its checker one that holds, and one in which its invariant falls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any

import pytest

from semel.core.sink.digest import NO_ROWS
from semel.core.sink.journal import (
    SINKS_TOPIC,
    Decision,
    JournalRecord,
    WriterClaim,
    WriterOutput,
    WriterState,
    encode,
)
from semel.core.sink.run import Ticket
from semel.record.batch import CONTROL_BIT, BatchHeader
from semel.sim.campaign.simulation import Simulation
from semel.sim.server.reference import LeasesKnown, PartitionLedger
from semel.sim.sinks.checkpoint import Checkpoint
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.mix import NOTHING_HAPPENS
from semel.sim.sinks.story import SinkStory
from semel.sim.sinks.view import SinkView
from semel.sim.world.faults import FaultMix
from semel.sim.world.history import History, LoggedBatch, Promise, Violation
from semel.types import LEASED_IDS_FROM, TopicPartition

TP, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)
LEASE = LEASED_IDS_FROM
WRITER = 7  # the producer id of whatever does not say another

SINK = "k0"
OUT, SOURCE, JOURNAL = (
    TopicPartition("out", 0),
    TopicPartition(f"in.{SINK}", 0),
    TopicPartition(SINKS_TOPIC, 0),
)

Breaks = Callable[[], AbstractContextManager[Any]]


@pytest.fixture
def breaks(request: pytest.FixtureRequest) -> Breaks:
    """``with breaks():`` the invariant that the test's file is named after falls here, and no other."""
    invariant = request.path.stem.removeprefix("test_")
    return lambda: pytest.raises(Violation, match=f"^{invariant}: ")


# -- logs -----------------------------------------------------------------------------------------------


def header(
    base_offset: int,
    records: int = 1,
    *,
    by: int = WRITER,
    epoch: int = 0,
    sequence: int = 0,
    control: bool = False,
) -> BatchHeader:
    attributes = CONTROL_BIT if control else 0
    return BatchHeader(
        base_offset,
        49,
        0,
        2,
        0,
        attributes,
        records - 1,
        0,
        0,
        by,
        epoch,
        -1 if control else sequence,
        records,
    )


def batch(base_offset: int, *values: str, **who: int) -> LoggedBatch:
    return LoggedBatch(header(base_offset, len(values), **who), tuple(value.encode() for value in values))


def marker(base_offset: int, **who: int) -> LoggedBatch:
    """What a fence leaves in the log."""
    return LoggedBatch(header(base_offset, control=True, **who), ())


def ledger(*batches: LoggedBatch, leases_over_below: int = LEASE) -> PartitionLedger:
    """The second opinion on a log of these."""
    known = PartitionLedger(LeasesKnown(leases_over_below))
    for one in batches:
        known.appended(one.header, one.header.base_offset)
    return known


def history(
    promises: Mapping[str, Promise] | Sequence[str] = (), *, tp: TopicPartition = TP, log_start: int = 0
) -> History:
    """Who was told what of these values; :attr:`Promise.OPEN` where nothing is said."""
    told = promises if isinstance(promises, Mapping) else dict.fromkeys(promises, Promise.OPEN)
    made = History(log_starts={tp: log_start})
    for value, promise in told.items():
        made.sent(value.encode(), tp).promise = promise
    return made


# -- sinks ----------------------------------------------------------------------------------------------


def story(*, rows_differ: bool = False, finished_at: int | None = None) -> SinkStory:
    """A sink of one source partition, whose source ends at ``finished_at`` and is decided up to there."""
    made = SinkStory(SINK, 1, ["out"], 1, 1, (8,), has_keys=False, elapsed_ms=lambda: finished_at or 0)
    made.rows_differ = rows_differ
    if finished_at is not None:
        made.close_source()
        made.is_finished = True
    return made


def driver(of: SinkStory, *, had_rival: bool = False, is_tampered: bool = False) -> SimulatedDriver:
    """One that has not started."""
    world = Simulation(0, mix=FaultMix(), sinks=[of])
    made = SimulatedDriver(
        of,
        f"{SINK}.d0",
        Checkpoint("q", {SOURCE: 0}, SINK),
        1,
        Random(0),
        world.around,
        lambda: NOTHING_HAPPENS,
        lambda *_: None,
    )
    made.had_rival, made.is_tampered = had_rival, is_tampered
    return made


def rows(base_offset: int, *names: str, **who: int) -> LoggedBatch:
    """A batch of the output: each row by its number, with ``x`` for one too many and ``~2`` for its version."""
    return batch(base_offset, *(f"{SINK}/0:{name}" for name in names), **who)


def claim(writer: str = "w", producer_id: int = WRITER) -> WriterClaim:
    return WriterClaim(SINK, writer, producer_id, 0)


def decision(
    to: int, *, next_sequence: int = 0, sink_epoch: int = 0, batch_id: int = 0, output_end: int = 99
) -> Decision:
    """The source is decided up to ``to``, with all that the one writer has below ``output_end``."""
    states = {"w": WriterState(WRITER, to, {OUT: WriterOutput(next_sequence, NO_ROWS)})}
    return Decision(SINK, sink_epoch, "q", batch_id, {SOURCE: to}, to, 0, states, {OUT: output_end})


def ticket(sink_epoch: int, producer_id: int = WRITER) -> Ticket:
    return Ticket(SINK, 1, sink_epoch, 0, 0, {}, {}, {"w": {0: producer_id}}, {})


def view(of: SinkStory, output: Sequence[LoggedBatch], *journal: JournalRecord) -> SinkView:
    """The sink's output, and the decision log with these records from offset 0 on."""
    records = [LoggedBatch(header(at, by=1), (encode(record)[1],)) for at, record in enumerate(journal)]
    return SinkView(of, {OUT: output, JOURNAL: records}, {})
