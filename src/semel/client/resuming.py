"""The steps of a resume (the contract: :mod:`semel.core.client.resume`): ask, fence, count, save.

How older copies are fenced depends on the log. Where transactions are served (Apache Kafka) the identity is a
transactional id, and an empty transaction that is aborted leaves a marker of the raised epoch in every
partition; that needs no right but the producer's own. semel takes the marker itself (WriteTxnMarkers), which
Apache Kafka keeps for cluster administrators.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from semel.client.below_end import fetch_below_end
from semel.client.cluster import Cluster
from semel.client.identity import IdentityKeeper
from semel.client.routing import Again
from semel.core.client.fate import Next, next_step
from semel.core.client.resume import (
    LogKnows,
    ScanFrom,
    SeenBatch,
    Unprovable,
    counted_to,
    is_compacted,
    made_anew,
    not_held,
    plan_begin,
    plan_scan,
    resumed,
    scan_from_counted,
    still_vouches,
    total_stored,
)
from semel.core.client.saved import SavedIdentity, SavedPartition
from semel.errors import BrokerError, CannotKnow, ErrorCode, ProducerFenced, StorageError, UnknownTopic
from semel.record.batch import BatchHeader, scan_batches
from semel.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    ProducerGrant,
    TopicPartition,
)

_MARKER_PAUSE_MS: Final = 20


async def resume_identity(cluster: Cluster, keeper: IdentityKeeper, name: str | None) -> SavedIdentity:
    """Fence older copies, count what is stored, save both: after this the new epoch may append."""
    saved = await keeper.load()
    if saved is None:
        known_as = name or getattr(keeper.store, "default_name", None)
        saved = SavedIdentity(known_as or f"semel-{uuid.uuid4()}")
        await keeper.save(saved)  # the name first: a grant without a saved name could never be fenced
    if name is not None and name != saved.name:
        raise StorageError(f"the identity in {keeper.store} is named {saved.name!r}, not {name!r}")
    plans = await _plan(cluster, saved, list(saved.partitions))
    grant = await cluster.init_producer_id(saved.name)
    if (other := not_held(saved, grant)) is not None:
        raise _cannot_know(saved, other)
    counted = await _fence_and_count(cluster, saved, grant, plans)
    if saved.producer_id not in (NO_PRODUCER_ID, grant.producer_id) and grant.producer_epoch > 0:
        await _refuse_rows_of(cluster, saved, grant, list(plans))
    fresh = resumed(saved, grant, counted)
    await keeper.save(fresh)
    return fresh


async def _refuse_rows_of(
    cluster: Cluster, saved: SavedIdentity, grant: ProducerGrant, tps: list[TopicPartition]
) -> None:
    """The name was forgotten, and has had its new id for more than one grant: another copy may have gone on under it.

    It is fenced as well. Rows of it are in no count of ours, so there must be none; they would lie behind those
    that were counted under the old id. A copy that died before it saved has left none.
    """
    fence_epoch = await _fence(cluster, replace(saved, producer_id=grant.producer_id), grant, tps)
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    for tp in tps:
        to_fence = ScanToFence(cluster, grant.producer_id, tp, fence_epoch, ends[tp].offset)
        seen, _ = await to_fence.from_offset(saved.partitions[tp].counted_to_offset)
        if seen:
            why = f"{tp} holds rows of it under producer id {grant.producer_id}, which a later copy was given"
            raise _cannot_know(saved, Unprovable(f"{why}; bring back what that one saved"))


async def begin_topic(
    cluster: Cluster, saved: SavedIdentity, topic: str
) -> tuple[dict[int, SavedPartition], str | None]:
    """What to save of a topic that is not in ``saved`` before anything else is done with it; and its id.

    Only a name's first grant has no older copies, so that rows can go there at once. For any later one the
    partitions are ``UNCOUNTED``, and :func:`count_topic` comes next. What is not seen, if what is resumed from
    does not name the topic though a copy wrote there: rows of an id that the log forgot (Apache Kafka's
    ``producer.id.expiration.ms``, a day), and that the topic had fewer partitions then. A store that is
    saved as it goes is never that old; one in the caller's hands (``IdentityValue``) may be.
    """
    found = await cluster.topic(topic, allow_auto_topic_creation=True)
    tps = [TopicPartition(topic, partition) for partition in found.partitions]
    topic_id = None if found.topic_id is None or not found.topic_id.int else str(found.topic_id)
    knows = await _ask(cluster, saved.producer_id, tps)
    for tp, known in knows.items():
        if known.producer_epoch is not None and known.producer_epoch > saved.producer_epoch:
            raise _fenced(saved.name, f"{tp} has epoch {known.producer_epoch}")
    begun = {}
    for tp, known in knows.items():
        planned = plan_begin(saved, tp, known)
        if isinstance(planned, Unprovable):
            raise _cannot_know(saved, planned)
        begun[tp.partition] = planned
    return begun, topic_id


async def count_topic(cluster: Cluster, saved: SavedIdentity, topic: str) -> dict[int, SavedPartition]:
    """Fence older copies in a topic that was begun and saved, and count what they stored there."""
    plans = await _plan(cluster, saved, [tp for tp in saved.partitions if tp.topic == topic])
    grant = ProducerGrant(saved.producer_id, saved.producer_epoch)
    counted = await _fence_and_count(cluster, saved, grant, plans)
    return {tp.partition: item for tp, item in counted.items()}


async def _plan(
    cluster: Cluster, saved: SavedIdentity, tps: list[TopicPartition]
) -> dict[TopicPartition, tuple[LogKnows, ScanFrom]]:
    if (other := made_anew(saved, await _topic_ids(cluster, tps))) is not None:
        raise _cannot_know(saved, other)
    plans = {}
    try:
        known = await _ask(cluster, saved.producer_id, tps)
    except UnknownTopic as error:
        raise _cannot_know(
            saved,
            Unprovable(f"topic {error.topic!r}, which it wrote to, is gone; do not make it anew for this"),
        ) from error
    for tp, knows in known.items():
        planned = plan_scan(saved, tp, knows)
        if isinstance(planned, Unprovable):
            raise _cannot_know(saved, planned)
        plans[tp] = knows, planned
    return plans


async def _fence_and_count(
    cluster: Cluster,
    saved: SavedIdentity,
    grant: ProducerGrant,
    plans: Mapping[TopicPartition, tuple[LogKnows, ScanFrom]],
) -> dict[TopicPartition, SavedPartition]:
    """What each partition holds up to the fence, of which nothing is handed yet."""
    if saved.producer_id == NO_PRODUCER_ID or not plans:
        return {}
    fence_epoch = await _fence(cluster, saved, grant, list(plans))
    ends = await cluster.list_offsets(dict.fromkeys(plans, LATEST_TIMESTAMP), "read_uncommitted")
    counted = {}
    for tp, (knows, planned) in plans.items():
        to_fence = ScanToFence(cluster, saved.producer_id, tp, fence_epoch, ends[tp].offset)
        seen, fence = await to_fence.from_offset(planned.offset)
        if planned.by_sequence and not still_vouches(knows, fence.partition_leader_epoch):
            planned = scan_from_counted(saved.partitions[tp])
            seen, fence = await to_fence.from_offset(planned.offset)
        total = total_stored(saved, tp, knows, planned, seen)
        if isinstance(total, Unprovable):
            raise _cannot_know(saved, total)
        counted[tp] = counted_to(saved.partitions[tp], planned, total, fence.last_offset + 1)
    return counted


@dataclass(frozen=True, slots=True)
class ScanToFence:
    """What lies in front of a fence that stands already, though perhaps not for readers yet.

    Its leader knows of it before other replicas do; ``end_offset`` is what could be read when it was asked.
    """

    cluster: Cluster
    producer_id: int
    tp: TopicPartition
    fence_epoch: int
    end_offset: int

    async def from_offset(self, offset: int) -> tuple[list[SeenBatch], BatchHeader]:
        """The batches from there on, and the fence."""
        seen: list[SeenBatch] = []
        reached, end_offset = offset, self.end_offset

        async def scan_on() -> BatchHeader | None:
            nonlocal reached, end_offset
            for header in await scan(self.cluster, self.producer_id, self.tp, reached, end_offset):
                if not header.is_control:
                    seen.append(SeenBatch.of(header))
                elif header.producer_epoch >= self.fence_epoch:
                    return header
                reached = header.last_offset + 1
            reached = max(reached, end_offset)
            ends = await self.cluster.list_offsets({self.tp: LATEST_TIMESTAMP}, "read_uncommitted")
            end_offset = ends[self.tp].offset
            return None

        async def wait_for_it() -> BatchHeader:
            if (fence := await scan_on()) is None:
                await self.cluster.look_elsewhere([self.tp.topic])
                what = f"read {self.tp} up to the fence of epoch {self.fence_epoch}"
                raise Again(ErrorCode.OFFSET_NOT_AVAILABLE, what)
            return fence

        fence = await scan_on()  # may have much to read, which is no waiting
        if fence is None:
            fence = await self.cluster.retried(wait_for_it)
        return seen, fence


async def _topic_ids(cluster: Cluster, tps: list[TopicPartition]) -> dict[str, str]:
    topics = {tp.topic for tp in tps}
    if not topics:
        return {}
    found = (await cluster.metadata(topics)).topics
    return {
        name: str(topic.topic_id) for name, topic in found.items() if topic.topic_id and not topic.error_code
    }


async def _ask(
    cluster: Cluster, producer_id: int, tps: list[TopicPartition]
) -> dict[TopicPartition, LogKnows]:
    if not tps:
        return {}
    # The ends first: what is below them is covered by the sequences that are asked for next.
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    described = await cluster.describe_producers(tps)
    starts = await cluster.list_offsets(dict.fromkeys(tps, EARLIEST_TIMESTAMP), "read_uncommitted")
    found = {}
    for tp in tps:
        ours = next((item for item in described[tp] if item.producer_id == producer_id), None)
        found[tp] = LogKnows(
            ends[tp].offset,
            None if ours is None else ours.producer_epoch,
            NO_SEQUENCE if ours is None else ours.last_sequence,
            starts[tp].offset,
            ends[tp].leader_epoch,
        )
    return found


async def _fence(
    cluster: Cluster, saved: SavedIdentity, grant: ProducerGrant, tps: list[TopicPartition]
) -> int:
    """A marker in every partition, and its epoch. InitProducerId alone stops an older copy only at the coordinator."""
    same = grant.producer_id == saved.producer_id
    if same and not cluster.fences_by_marker:
        await _fence_by_transaction(cluster, saved.name, grant, tps)
        return grant.producer_epoch
    # A name that the coordinator forgot comes back with another id: only markers reach the old one.
    raised = grant.producer_epoch if same else saved.producer_epoch + 1
    answers = await cluster.write_fence({(saved.producer_id, raised): tps})
    for (producer_id, tp), code in answers.items():
        if _is_fenced(code):
            raise _fenced(saved.name, f"producer {producer_id} has a higher epoch than {raised} in {tp}")
        if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise CannotKnow(
                f"the cluster forgot the name {saved.name!r} (transactional.id.expiration.ms) and gave it "
                f"another producer id; an older copy that still writes as {saved.producer_id} could be shut "
                f"out only with the right ClusterAction: grant it, or make sure that no other copy runs and "
                f"start a new identity"
            )
        if code is not ErrorCode.NONE:
            raise BrokerError(code, f"fence older copies of identity {saved.name!r} in {tp}")
    return raised


def _is_fenced(code: ErrorCode) -> bool:
    """A newer copy is known: a log says it of a marker as of a batch, a coordinator also in a word of its own."""
    return next_step(code) is Next.FENCED or code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def _fence_by_transaction(
    cluster: Cluster, name: str, grant: ProducerGrant, tps: list[TopicPartition]
) -> None:
    """An empty transaction, aborted; done once every partition's log shows the epoch."""
    try:
        await cluster.add_partitions_to_transaction(name, grant, tps)
        await cluster.abort_transaction(name, grant)
    except BrokerError as error:
        if _is_fenced(error.code):
            raise _fenced(name, str(error)) from None
        raise
    give_up_ms = cluster.runtime.now_ms() + cluster.request_timeout_ms
    waiting = set(tps)
    while True:
        described = await cluster.describe_producers(waiting)
        for tp in list(waiting):
            epochs = [item.producer_epoch for item in described[tp] if item.producer_id == grant.producer_id]
            if any(epoch > grant.producer_epoch for epoch in epochs):
                raise _fenced(name, f"{tp} has epoch {max(epochs)}")
            if grant.producer_epoch in epochs:
                waiting.discard(tp)
        if not waiting:
            return
        if cluster.runtime.now_ms() >= give_up_ms:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"fence older copies of identity {name!r}")
        await cluster.runtime.pause(_MARKER_PAUSE_MS)
        await cluster.look_elsewhere({tp.topic for tp in waiting})


async def scan(
    cluster: Cluster, producer_id: int, tp: TopicPartition, from_offset: int, end_offset: int
) -> list[BatchHeader]:
    """The producer's batches and markers between two offsets.

    CannotKnow if the log starts behind the first one, or was compacted between them; BrokerError if it ends before the
    second one by now.
    """
    seen: list[BatchHeader] = []
    offset = from_offset

    while offset < end_offset:
        fetched = await fetch_below_end(cluster, tp, offset)
        if fetched.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise CannotKnow(
                f"rows of {tp} from offset {offset} on were deleted before they were counted: how many rows "
                f"this identity stored there cannot be proven; start a new identity from a known position"
            )
        if fetched.error_code is not ErrorCode.NONE:
            raise BrokerError(fetched.error_code, f"read {tp} from offset {offset} on")
        for _, header in scan_batches(fetched.records, allow_partial_tail=True):
            if header.last_offset < offset:
                continue
            if is_compacted(header, offset):
                raise CannotKnow(
                    f"{tp} was compacted from offset {offset} on: how many rows this identity stored there cannot be "
                    f"proven; start a new identity from a known position"
                )
            offset = header.last_offset + 1
            if header.base_offset >= end_offset:
                break
            if header.producer_id == producer_id:
                seen.append(header)
    return seen


def _cannot_know(saved: SavedIdentity, found: Unprovable) -> CannotKnow:
    return CannotKnow(
        f"how many rows identity {saved.name!r} stored cannot be proven: {found.why}; "
        f"start a new identity from a known position"
    )


def _fenced(name: str, why: str) -> ProducerFenced:
    return ProducerFenced(f"{why}: another copy of identity {name!r} was started; stop this one")
