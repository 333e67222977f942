"""``sink_twins_shut_out``: a DECISION speaks of every row that its run stored under a writer whose twin was known.

A twin says so (ATTEMPT) before its first row. One that has said so when the commit begins is ended before the
DECISION, and what it had stored is read back; so of that writer's epoch nothing stands in any output, then or later,
whose sequence the DECISION does not know. A twin that says so only later may still write: that is the next run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.core.sink.epochs import writer_epoch
from semel.core.sink.journal import SINKS_TOPIC, Attempt, Decision
from semel.core.sink.run import Ticket
from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.view import SinkView


class SinkTwinsShutOut(Checker):
    """By the order of ATTEMPT and of the commit's beginning in the decision log.

    An ATTEMPT may be the winner's own: only an attempt that is not the first one says so, and the first is its twin.
    """

    name: ClassVar[str] = "sink_twins_shut_out"

    def __init__(self) -> None:
        self._high_watermark = 0  # of the decision log
        self._begun_at: dict[tuple[str, int, int], int] = {}  # by sink id, sink epoch and batch id

    def watermark(self, tp: TopicPartition, high_watermark: int, log_end_offset: int) -> None:
        if tp.topic == SINKS_TOPIC:
            self._high_watermark = high_watermark

    def sink_commits(self, ticket: Ticket, batch_id: int) -> None:
        self._begun_at[ticket.sink_id, ticket.sink_epoch, batch_id] = self._high_watermark

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        for view in views:
            next_sequences = self._decided_with_a_twin(view)
            for stored in (*view.rows, *view.rows_left):
                decided = next_sequences.get((stored.producer_id, stored.producer_epoch))
                if decided is not None and stored.sequence >= decided.get(stored.tp, 0):
                    raise self.violated(
                        f"{stored} has sequence {stored.sequence}; a twin was known, and the decision knows the "
                        f"sequences below {decided.get(stored.tp, 0)}"
                    )

    def _decided_with_a_twin(self, view: SinkView) -> dict[tuple[int, int], dict[TopicPartition, int]]:
        """By producer id and epoch: the outputs' next sequences in a run's decision that had to look for twins."""
        attempted: dict[tuple[str, int, str], int] = {}  # the first ATTEMPT of a run's writer
        found = {}
        for record_offset, record in view.journal:
            match record:
                case Attempt():
                    attempted.setdefault((record.sink_id, record.sink_epoch, record.writer), record_offset)
                case Decision():
                    decided = (record.sink_id, record.sink_epoch, record.batch_id)
                    begun_at = self._begun_at.get(decided, 0)  # 0: no commit has made it
                    for writer, state in record.writers.items():
                        attempt = attempted.get((record.sink_id, record.sink_epoch, writer), begun_at)
                        if attempt < begun_at:
                            found[state.producer_id, writer_epoch(record.sink_epoch)] = {
                                tp: output.next_sequence for tp, output in state.outputs.items()
                            }
        return found
