"""The planted bugs of leases: what one would write first, and what the corrections to it forbid."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from semel.core.client import outliving
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Answer, Effects
from semel.core.client.judge import Judge
from semel.core.client.partition_queue import PartitionQueue
from semel.core.client.queue_states import Holding
from semel.core.decision import Decision
from semel.core.lease import LeaseRequest, Leases, LiveLeases
from semel.core.producer_state import verdict
from semel.core.producer_state.state import ProducerState
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.server.storage import appending
from semel.server.storage.producer_ids import ProducerIds
from semel.server.storage.state_log import StateLog
from semel.sim.plants.planting import (
    DEFINITE,
    FENCED,
    FINISHES,
    GRANTED,
    LIVES,
    ONCE,
    ORDER,
    OVER,
    REPLAYED,
    SILENCE,
    Patches,
    plant,
)
from semel.types import LEASED_IDS_FROM, Lease, ProducerGrant, is_leased


@plant("an id without a lease ends when a lease of its age does", "the proposal, for stock clients", DEFINITE)
def stock_id_is_a_lease(patch: Patches) -> None:
    def judges(header: BatchHeader, leases: LiveLeases) -> Any:
        found = original(header._replace(producer_id=header.producer_id | LEASED_IDS_FROM), leases)
        return found if isinstance(found, verdict.LeaseExpired) else None

    original = patch.set(appending, "judge_lease", judges)
    patch.set(appending, "LEASED_IDS_FROM", 0)


@plant("sequence 0 is new once its lease is over", "the proposal's readers", DEFINITE, ONCE, OVER)
def late_copy_is_new(patch: Patches) -> None:
    def judges(header: BatchHeader, leases: LiveLeases) -> Any:
        return original(header, leases) if header.base_sequence else None

    original = patch.set(appending, "judge_lease", judges)


@plant("which leases are over is not in the log", "the proposal: a follower's clock", OVER, DEFINITE)
def expiry_in_memory(patch: Patches) -> None:
    def expires(ids: ProducerIds, now_ms: int) -> None:
        for record in ids.leases.decide_expiry(ids._monotonic_ms()).records:
            ids.leases.apply(record)
        ids.judge_by_log()

    patch.set(ProducerIds, "expire_leases", expires)


@plant("a lease is over before that is durable", "KAFKA-16541", OVER, DEFINITE)
def expiry_before_sync(patch: Patches) -> None:
    def judges(ids: ProducerIds) -> None:
        ids._durable_from = 0
        original(ids)

    original = patch.set(ProducerIds, "judge_by_log", judges)


@plant("until a lease's end is durable, it is said to have its whole life left", "here", LIVES)
def ended_lease_is_said_to_live(patch: Patches) -> None:
    def remaining_ms(ids: ProducerIds, producer_id: int) -> int:
        logged_below, ids.leases.expired_below = ids.leases.expired_below, ids.live_leases.expired_below
        try:
            return int(original(ids, producer_id))
        finally:
            ids.leases.expired_below = logged_below

    original = patch.set(ProducerIds, "lease_remaining_ms", remaining_ms)


@plant("a restart does not begin the lives of leases anew", "the proposal: a full restore", LIVES)
def restart_shortens_lives(patch: Patches) -> None:
    def begins(ids: ProducerIds, log: StateLog) -> None:
        original(ids, log)
        leases = ids.leases
        aged_ms = (leases.length_ms or 0) // 2
        leases._marks = deque(mark._replace(seen_ms=mark.seen_ms - aged_ms) for mark in leases._marks)

    original = patch.set(ProducerIds, "begin", begins)


@plant("a restart takes resumed leases back to their first grants", "here", GRANTED)
def restart_undoes_resumes(patch: Patches) -> None:
    first: dict[int, tuple[int, int]] = {}

    def puts(leases: Leases, ids: list[int], epochs: list[int], rooms: list[int]) -> None:
        if not len(leases):
            first.clear()
        for producer_id, *grant in zip(ids, epochs, rooms, strict=True):
            first.setdefault(producer_id, (grant[0], grant[1]))
        original_put(leases, ids, epochs, rooms)

    def begins(ids: ProducerIds, log: StateLog) -> None:
        leases = ids.leases
        for n, producer_id in enumerate(leases._ids):
            leases._epochs[n], leases._rooms[n] = first[producer_id]
        original_begin(ids, log)

    original_put = patch.set(Leases, "_put_all", puts)
    original_begin = patch.set(ProducerIds, "begin", begins)


@plant("an append renews the lease", "the proposal: no renewal", LIVES)
def append_renews_the_lease(patch: Patches) -> None:
    running: list[ProducerIds] = []

    def begins(ids: ProducerIds, log: StateLog) -> None:
        running[:] = [ids]
        original_begin(ids, log)

    def judges(header: BatchHeader, live: LiveLeases) -> Any:
        ids = running[0]
        now_ms = ids._monotonic_ms()
        ids.leases._marks = deque(
            mark._replace(seen_ms=now_ms) if header.producer_id < mark.end_id else mark
            for mark in ids.leases._marks
        )
        return original_judge(header, live)

    original_begin = patch.set(ProducerIds, "begin", begins)
    original_judge = patch.set(appending, "judge_lease", judges)


@plant("a live lease's entry is dropped with the others", "KAFKA-9144", DEFINITE, REPLAYED, ONCE, FENCED)
def live_lease_is_forgotten(patch: Patches) -> None:
    def expires(state: ProducerState, before_ms: int, leases_expired_below: int) -> Iterator[int]:
        return original(state, before_ms, 2**63)  # type: ignore[no-any-return]

    original = patch.set(ProducerState, "expire", expires)


@plant("a resumed lease keeps its epoch", "SPARK-26425", GRANTED)
def lease_epoch_not_raised(patch: Patches) -> None:
    def resumes(leases: Leases, request: LeaseRequest, now_ms: int) -> Decision[Any]:
        decision: Decision[Any] = original(leases, request, now_ms)
        if isinstance(decision.response, Lease):
            same = replace(decision.response, producer_epoch=request.producer_epoch)
            return Decision((), same)
        return decision

    original = patch.set(Leases, "_resume", resumes)


@plant(
    "a partition moves to the new lease while batches of the old one are unsettled",
    "KIP-360",
    ONCE,
    ORDER,
    SILENCE,
    FINISHES,
)
def moves_with_batches_unsettled(patch: Patches) -> None:
    def adopts(queue: PartitionQueue, grant: ProducerGrant, ends_ms: int | None = None) -> bool:
        if queue.grant != grant and is_leased(grant.producer_id):
            for batch in queue.waiting:
                batch.grant = None  # whatever became of its first attempts, it goes under the new lease
            queue.hold, queue.next_sequence, queue.known_until_ms = Holding(grant, ends_ms), 0, 0
            return True
        return bool(original(queue, grant, ends_ms))

    original = patch.set(PartitionQueue, "adopt", adopts)


@plant("what a lease's end leaves without an answer is in doubt at once", "the proposal's readers", SILENCE)
def lease_end_is_doubt(patch: Patches) -> None:
    def gives_up(queue: PartitionQueue, now_ms: int, effects: Effects) -> None:
        if not queue.in_flight:
            queue.leave()

    patch.set(outliving, "ask_the_log", gives_up)


@plant(
    "rows that are refused before their lease ends by its holder's clock are in doubt",
    "the proposal: whose time",
    SILENCE,
)
def early_end_is_doubt(patch: Patches) -> None:
    def judges(
        judge: Judge,
        queue: PartitionQueue,
        batch: ProducerBatch,
        answer: Answer,
        now_ms: int,
        effects: Effects,
    ) -> None:
        lives = queue.hold.ends_ms is not None and not queue.is_over(now_ms)
        original(judge, queue, batch, answer, now_ms, effects)
        if answer.code is ErrorCode.UNKNOWN_PRODUCER_ID and lives and not queue.in_flight:
            judge._aftermath.begin_anew(queue, "its lease was over too early", effects)
            queue.leave()

    original = patch.set(Judge, "judge", judges)


@plant("what waits behind a batch that failed is in doubt with it, though its lease lives", "here", SILENCE)
def failure_spreads_doubt(patch: Patches) -> None:
    patch.set(PartitionQueue, "is_under_lease", property(lambda queue: False))
