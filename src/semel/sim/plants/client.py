"""The planted bugs of the producer: what it sends again, in which order, and where it goes on after a crash."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from semel.client import resuming
from semel.core.client.aftermath import Aftermath
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects
from semel.core.client.fingerprint import Again
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.progress import Progress
from semel.core.client.queue_states import Dense, Gapped
from semel.core.client.requests import Requests
from semel.core.client.resume import LogKnows, SeenBatch
from semel.core.client.saved import SavedIdentity, SavedPartition
from semel.sequence import advance
from semel.sim.plants.planting import (
    DEFINITE,
    FINISHES,
    ONCE,
    ORDER,
    RESUMED,
    STORED,
    Patches,
    plant,
)
from semel.types import ProducerGrant


@plant("a lost answer is taken for a refusal", "here", "refused_is_not_stored", ONCE, DEFINITE, ORDER)
def lost_answer_is_a_refusal(patch: Patches) -> None:
    patch.set(ProducerBatch, "maybe_stored", property(lambda batch: False, lambda batch, value: None))


@plant("what may be stored is sent again under a new id", "rp3039", ONCE, ORDER, "refused_is_not_stored")
def new_id_for_what_may_be_stored(patch: Patches) -> None:
    def forgets(
        aftermath: Aftermath,
        queue: PartitionQueue,
        batch: ProducerBatch,
        why: str,
        now_ms: int,
        effects: Effects,
    ) -> None:
        queue.put_back(batch)
        aftermath._grants.drop(queue, now_ms)

    def begins_anew(aftermath: Aftermath, queue: PartitionQueue, why: str, effects: Effects) -> None:
        for batch in queue.waiting:
            batch.forget_attempts()

    patch.set(Aftermath, "forgotten", forgets)
    patch.set(Aftermath, "begin_anew", begins_anew)


@plant(
    "an epoch that one partition has raised takes the others' unsettled batches along", "rdk4953", ONCE, ORDER
)
def raised_epoch_doubles_other_partitions(patch: Patches) -> None:
    def adopts(queue: PartitionQueue, grant: ProducerGrant, ends_ms: int | None = None) -> bool:
        before = queue.grant
        if before is not None and before != grant and before.producer_id == grant.producer_id:
            queue.hold = replace(queue.hold, grant=grant)
            queue.next_sequence = queue.known_until_ms = 0
            return True
        return bool(original(queue, grant, ends_ms))

    original = patch.set(PartitionQueue, "adopt", adopts)


@plant(
    "the buffer of a batch that is to be sent again is given to another",
    "CVE-2026-35554",
    STORED,
    ONCE,
    ORDER,
    FINISHES,
)
def buffer_is_used_twice(patch: Patches) -> None:
    free: list[bytearray] = []

    def is_never_split(batch: ProducerBatch) -> bool:
        return batch.record_count == 1  # the split of another's rows ends the run before a checker looks

    def takes(requests: Requests, queues: list[PartitionQueue], now_ms: int) -> Any:
        waiting = (batch for queue in queues for batch in queue.waiting if batch.attempts)
        free[:] = [batch.encoded for batch in waiting if batch.encoded is not None and is_never_split(batch)]
        return take(requests, queues, now_ms)

    def encodes(batch: ProducerBatch, compression: Any) -> bytearray:
        is_new = batch.encoded is None
        encoded: bytearray = encode(batch, compression)
        if is_new and free and len(free[-1]) == len(encoded) and is_never_split(batch):
            batch.encoded = free.pop()
            batch.encoded[:] = encoded
        assert batch.encoded is not None
        return batch.encoded

    take = patch.set(Requests, "_take", takes)
    encode = patch.set(ProducerBatch, "encode", encodes)


@plant("batches are sent again in the order of their failure", "KAFKA-5494", STORED, ORDER, RESUMED, FINISHES)
def failed_batches_change_places(patch: Patches) -> None:
    def puts_last(queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.let_go(batch)
        queue.waiting.append(batch)

    patch.set(PartitionQueue, "put_back", puts_last)


@plant(
    "a resumed copy does not fence the older ones",
    "SPARK-4879",
    RESUMED,
    ONCE,
    STORED,
    "refused_is_not_stored",
)
def resume_without_fence(patch: Patches) -> None:
    async def lets_be(*_: Any) -> int:
        return 0

    async def to_the_end(to_fence: Any, offset: int) -> tuple[list[SeenBatch], Any]:
        end_offset = to_fence.end_offset
        headers = await resuming.scan(to_fence.cluster, to_fence.producer_id, to_fence.tp, offset, end_offset)
        seen = [SeenBatch.of(header) for header in headers if not header.is_control]
        return seen, SimpleNamespace(last_offset=end_offset - 1, partition_leader_epoch=0)

    patch.set(resuming, "_fence", lets_be)
    patch.set(resuming.ScanToFence, "from_offset", to_the_end)
    patch.set(resuming, "still_vouches", lambda *_: True)


@plant("a topic that was trimmed is begun as if no copy had been there", "here", ONCE, RESUMED)
def begin_trusts_a_trimmed_log(patch: Patches) -> None:
    def from_what_is_left(saved: SavedIdentity, tp: Any, knows: LogKnows) -> SavedPartition:
        begun: SavedPartition = original(saved, tp, replace(knows, start_offset=0))
        return replace(begun, counted_to_offset=max(begun.counted_to_offset, knows.start_offset))

    original = patch.set(resuming, "plan_begin", from_what_is_left)


@plant("a resumed copy believes its file and does not ask the log", "SPARK-39195", RESUMED, ONCE, STORED)
def resume_without_asking(patch: Patches) -> None:
    def as_saved(saved: SavedIdentity, tp: Any, *_: Any) -> int:
        return saved.partitions[tp].stored

    patch.set(resuming, "total_stored", as_saved)


@plant("a position is saved before all rows up to it are stored", "here", RESUMED)
def position_saved_too_early(patch: Patches) -> None:
    def saves(progress: Progress) -> SavedIdentity | None:
        if progress._mark is not None:
            progress._mark.handed = {
                tp: min(n, progress._lines[tp].stored) for tp, n in progress._mark.handed.items()
            }
        saved: SavedIdentity | None = original(progress)
        return saved

    original = patch.set(Progress, "to_save", saves)


@plant("rows that come again are taken for those that are stored, whatever they say", "here", RESUMED)
def rows_come_again_unread(patch: Patches) -> None:
    def takes(*row: Any) -> None:
        original(*row)

    original = patch.set(Again, "add", takes)


# -- where the log refuses a batch: it is split, or what waits goes on without it ---------------------------


@plant(
    "what was sent behind a batch that failed gets sequences anew, under the same epoch", "here", STORED, ONCE
)
def gap_closed_over_what_was_sent(patch: Patches) -> None:
    def closes(queue: PartitionQueue) -> bool:
        if queue.in_flight or queue.grant is None or any(batch.maybe_stored for batch in queue.waiting):
            return False
        assert isinstance(queue.sequences, Gapped)
        queue.next_sequence, queue.sequences = queue.sequences.at_sequence, Dense()
        for batch in queue.waiting:
            if batch.grant == queue.grant:
                batch.assign(queue.grant, queue.next_sequence)
                queue.next_sequence = advance(queue.next_sequence, batch.record_count)
        return True

    patch.set(PartitionQueue, "close_gap", closes)


@plant("both halves of a batch that was too large begin at its sequence", "here", STORED)
def halves_share_a_sequence(patch: Patches) -> None:
    def replaces(queue: PartitionQueue, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        original(queue, batch, parts)
        for part in parts:
            assert batch.grant is not None
            part.assign(batch.grant, batch.base_sequence)

    original = patch.set(PartitionQueue, "replace", replaces)


@plant("the halves of a batch that was too large change places", "here", ORDER)
def halves_change_places(patch: Patches) -> None:
    def replaces(queue: PartitionQueue, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        original(queue, batch, parts[::-1])

    original = patch.set(PartitionQueue, "replace", replaces)
