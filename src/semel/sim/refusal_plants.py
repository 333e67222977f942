"""The planted bugs of what a producer does when its log refuses a batch: split it, or go on without it."""

from __future__ import annotations

from semel.core.client.batch import ProducerBatch
from semel.core.client.pipe import PartitionPipe
from semel.sequence import advance
from semel.sim.planting import ONCE, ORDER, STORED, Patches, plant


@plant(
    "what was sent behind a batch that failed gets sequences anew, under the same epoch", "here", STORED, ONCE
)
def gap_closed_over_what_was_sent(patch: Patches) -> None:
    def closes(pipe: PartitionPipe, from_sequence: int) -> bool:
        if pipe.in_flight or pipe.grant is None or any(batch.maybe_stored for batch in pipe.waiting):
            return False
        pipe.next_sequence = from_sequence
        for batch in pipe.waiting:
            if batch.grant == pipe.grant:
                batch.assign(pipe.grant, pipe.next_sequence)
                pipe.next_sequence = advance(pipe.next_sequence, batch.record_count)
        return True

    patch.set(PartitionPipe, "close_gap", closes)


@plant("both halves of a batch that was too large begin at its sequence", "here", STORED)
def halves_share_a_sequence(patch: Patches) -> None:
    def replaces(pipe: PartitionPipe, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        original(pipe, batch, parts)
        for part in parts:
            assert batch.grant is not None
            part.assign(batch.grant, batch.base_sequence)

    original = patch.set(PartitionPipe, "replace", replaces)


@plant("the halves of a batch that was too large change places", "here", ORDER)
def halves_change_places(patch: Patches) -> None:
    def replaces(pipe: PartitionPipe, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        original(pipe, batch, parts[::-1])

    original = patch.set(PartitionPipe, "replace", replaces)
