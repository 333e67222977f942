"""The smallest sink: one source partition, one writer, and one output partition."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.sim.checkers.smallest import WRITER, batch, header

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
from semel.sim.campaign.simulation import Simulation
from semel.sim.sinks.checkpoint import Checkpoint
from semel.sim.sinks.driver import SimulatedDriver
from semel.sim.sinks.mix import NOTHING_HAPPENS
from semel.sim.sinks.story import SinkStory
from semel.sim.sinks.view import SinkView
from semel.sim.world.faults import FaultMix
from semel.sim.world.history import LoggedBatch
from semel.types import TopicPartition

SINK = "k0"
OUT, SOURCE, JOURNAL = (
    TopicPartition("out", 0),
    TopicPartition(f"in.{SINK}", 0),
    TopicPartition(SINKS_TOPIC, 0),
)


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
