"""``in_doubt_only_in_silence``: who writes under leases is told "cannot know" only of what no leader answered for.

That is: only when a batch's time is over, or when the log was trimmed before it could be read back; and not of a
batch that a leader has said is stored, or is not and never will be.
"""

from __future__ import annotations

from typing import ClassVar

from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, Event, LogAnswered
from semel.core.client.fate import InDoubt
from semel.sequence import distance, last_of
from semel.sim.checkers.base import Checker
from semel.types import ProducerGrant


class InDoubtOnlyInSilence(Checker):
    """At every fate of a batch."""

    name: ClassVar[str] = "in_doubt_only_in_silence"

    def __init__(self) -> None:
        self._sent: dict[ProducerBatch, tuple[ProducerGrant | None, int]] = {}  # whose, and its last sequence
        self._decided: dict[ProducerBatch, str] = {}  # by a leader, since its last attempt

    def lease_holder_handled(
        self, event: Event, effects: Effects, now_ms: int, delivery_timeout_ms: int
    ) -> None:
        if isinstance(event, LogAnswered):
            self._take_in(event)
        for batch, fate in effects.settled:
            if isinstance(fate, InDoubt):
                self._judge(batch, fate, event, now_ms - batch.created_ms, delivery_timeout_ms)
            self._sent.pop(batch, None)
            self._decided.pop(batch, None)
        for send in effects.sends:
            for batch in send.batches:
                self._sent[batch] = (batch.grant, last_of(batch.base_sequence, batch.record_count))
                self._decided.pop(batch, None)

    def _take_in(self, answer: LogAnswered) -> None:
        for batch, (grant, last_sequence) in self._sent.items():
            if grant is None or batch.tp != answer.tp or grant != answer.asked_for:
                continue
            known = answer.last_sequence if answer.newest_epoch == grant.producer_epoch else None
            if known is not None and known >= 0 and distance(known, last_sequence) >= 0:
                self._decided[batch] = "it is stored"
            elif answer.is_final and not answer.is_cut:
                self._decided[batch] = "it is not stored and never will be"

    def _judge(
        self, batch: ProducerBatch, fate: InDoubt, event: Event, age_ms: int, delivery_timeout_ms: int
    ) -> None:
        if isinstance(event, LogAnswered) and event.is_cut and event.tp == batch.tp:
            return
        what = f"{batch.record_count} rows for {batch.tp} are in doubt ({fate.why})"
        if batch in self._decided:
            raise self.violated(f"{what}, though a leader said: {self._decided[batch]}")
        if age_ms < delivery_timeout_ms:
            raise self.violated(f"{what} after {age_ms} of {delivery_timeout_ms} ms")
