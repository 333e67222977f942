"""The steps of a resume (the contract: :mod:`semel.core.client.resume`): ask, fence, count, save.

How older copies are fenced depends on the log. Where transactions are served (Apache Kafka) the identity is a
transactional id, and an empty transaction that is aborted leaves a marker of the raised epoch in every
partition; that needs no right but the producer's own. semel takes the marker itself (WriteTxnMarkers), which
Apache Kafka keeps for cluster administrators.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from semel.client.cluster import Cluster
from semel.client.identity import IdentityKeeper
from semel.client.model import Fetched
from semel.client.routing import Again
from semel.core.client.progress import TopicStart
from semel.core.client.resume import (
    LogKnows,
    SavedIdentity,
    ScanFrom,
    SeenBatch,
    Unprovable,
    made_anew,
    plan_scan,
    resumed,
    total_stored,
)
from semel.errors import BrokerError, CannotKnow, ErrorCode, ProducerFenced, StorageError
from semel.record.batch import scan_batches
from semel.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    ProducerGrant,
    TopicPartition,
)

_SCAN_WAIT_MS: Final = 100
_SCAN_BYTES: Final = 8 * 1024 * 1024
_MARKER_PAUSE_MS: Final = 20
_FENCED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


async def resume_identity(cluster: Cluster, keeper: IdentityKeeper, name: str | None) -> SavedIdentity:
    """Fence older copies, count what is stored, save both: after this the new epoch may append."""
    saved = await keeper.load()
    if saved is None:
        saved = SavedIdentity(name or f"semel-{uuid.uuid4()}")
        await keeper.save(saved)  # the name first: a grant without a saved name could never be fenced
    if name is not None and name != saved.name:
        raise StorageError(f"the identity in {keeper.store} is named {saved.name!r}, not {name!r}")
    tps = list(saved.partitions)
    if (other := made_anew(saved, await _topic_ids(cluster, saved))) is not None:
        raise _cannot_know(saved, other)
    knows = await _ask(cluster, saved.producer_id, tps)
    scans: dict[TopicPartition, ScanFrom] = {}
    for tp in tps:
        planned = plan_scan(saved, tp, knows[tp])
        if isinstance(planned, Unprovable):
            raise _cannot_know(saved, planned)
        scans[tp] = planned
    grant = await cluster.init_producer_id(saved.name)
    if saved.producer_id != NO_PRODUCER_ID and tps:
        await _fence(cluster, saved, grant, tps)
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    totals = {}
    for tp in tps:
        seen = await scan(cluster, saved.producer_id, tp, scans[tp].offset, ends[tp].offset)
        totals[tp] = total_stored(saved, tp, knows[tp], scans[tp], seen)
    fresh = resumed(saved, grant, totals, {tp: ends[tp].offset for tp in tps})
    await keeper.save(fresh)
    return fresh


async def begin_topic(
    cluster: Cluster, saved: SavedIdentity, topic: str
) -> tuple[str | None, dict[int, TopicStart]]:
    """Before an identity's first row to a topic: its id, and where each partition starts.

    Only a name's first grant has no older copies. For any later one the topic is fenced, and what an older
    copy may have written there is counted: it knew the topic before this one did. Not seen is a copy that
    wrote and then rested for so long that the log forgot its producer id (Apache Kafka's
    ``producer.id.expiration.ms``, a day), if what is resumed from is older still and knows nothing of the
    topic: a store that is saved as it goes is never that old.
    """
    found = await cluster.topic(topic, allow_auto_topic_creation=True)
    tps = [TopicPartition(topic, partition) for partition in found.partitions]
    topic_id = None if found.topic_id is None or not found.topic_id.int else str(found.topic_id)
    find_starts = _starts_of_the_first if saved.producer_epoch == 0 else _starts_behind_older_copies
    return topic_id, await find_starts(cluster, saved, tps)


async def _starts_of_the_first(
    cluster: Cluster, saved: SavedIdentity, tps: list[TopicPartition]
) -> dict[int, TopicStart]:
    """Nothing is stored, unless a newer copy was here before: then it has fenced the topic."""
    knows = await _ask(cluster, saved.producer_id, tps)
    for tp, known in knows.items():
        if known.producer_epoch is not None and known.producer_epoch > saved.producer_epoch:
            raise _fenced(saved.name, f"{tp} has epoch {known.producer_epoch}")
    return {tp.partition: TopicStart(known.end_offset, 0) for tp, known in knows.items()}


async def _starts_behind_older_copies(
    cluster: Cluster, saved: SavedIdentity, tps: list[TopicPartition]
) -> dict[int, TopicStart]:
    grant = ProducerGrant(saved.producer_id, saved.producer_epoch)
    log_starts = await cluster.list_offsets(dict.fromkeys(tps, EARLIEST_TIMESTAMP), "read_uncommitted")
    knows = await _ask(cluster, saved.producer_id, tps)
    await _fence(cluster, saved, grant, tps)
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    starts = {}
    for tp in tps:
        # A log that does not know the producer holds nothing of it below the end that was asked first.
        from_offset = knows[tp].end_offset if knows[tp].producer_epoch is None else log_starts[tp].offset
        seen = await scan(cluster, saved.producer_id, tp, from_offset, ends[tp].offset)
        stored = sum(batch.record_count for batch in seen)
        if stored and log_starts[tp].offset > 0:
            raise _cannot_know(saved, Unprovable(f"{tp} was trimmed, and an older copy wrote there"))
        starts[tp.partition] = TopicStart(ends[tp].offset, stored)
    return starts


async def _topic_ids(cluster: Cluster, saved: SavedIdentity) -> dict[str, str]:
    topics = {tp.topic for tp in saved.partitions}
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
    found = {}
    for tp in tps:
        ours = next((item for item in described[tp] if item.producer_id == producer_id), None)
        found[tp] = LogKnows(
            ends[tp].offset,
            None if ours is None else ours.producer_epoch,
            NO_SEQUENCE if ours is None else ours.last_sequence,
        )
    return found


async def _fence(
    cluster: Cluster, saved: SavedIdentity, grant: ProducerGrant, tps: list[TopicPartition]
) -> None:
    """A marker in every partition. InitProducerId alone stops an older copy only at the coordinator."""
    same = grant.producer_id == saved.producer_id
    if cluster.has_transactions and same:
        await _fence_by_transaction(cluster, saved.name, grant, tps)
        return
    # A name that the coordinator forgot comes back with another id: only markers reach the old one.
    raised = grant.producer_epoch if same else saved.producer_epoch + 1
    answers = await cluster.write_fence({(saved.producer_id, raised): tps})
    for (producer_id, tp), code in answers.items():
        if code in _FENCED:
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


async def _fence_by_transaction(
    cluster: Cluster, name: str, grant: ProducerGrant, tps: list[TopicPartition]
) -> None:
    """An empty transaction, aborted; done once every partition's log shows the epoch."""
    try:
        await cluster.add_partitions_to_transaction(name, grant, tps)
        await cluster.abort_transaction(name, grant)
    except BrokerError as error:
        if error.code in _FENCED:
            raise _fenced(name, str(error)) from None
        raise
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + cluster.request_timeout_ms / 1000
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
        if loop.time() >= give_up_s:
            raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"fence older copies of identity {name!r}")
        await cluster.pause(_MARKER_PAUSE_MS)


async def scan(
    cluster: Cluster, producer_id: int, tp: TopicPartition, from_offset: int, end_offset: int
) -> list[SeenBatch]:
    """The producer's batches between two offsets; BrokerError if the log ends before the second one by now."""
    seen: list[SeenBatch] = []
    offset = from_offset

    async def read() -> Fetched:
        fetched = await cluster.fetch(
            {tp: offset},
            isolation="read_uncommitted",
            max_wait_ms=_SCAN_WAIT_MS,
            partition_max_bytes=_SCAN_BYTES,
        )
        code = fetched[tp].error_code
        if code is ErrorCode.NONE and not fetched[tp].records:  # below the end that it had
            code = ErrorCode.OFFSET_NOT_AVAILABLE
        if code.retriable:
            raise Again(code, f"read {tp} from offset {offset} on")
        return fetched[tp]

    while offset < end_offset:
        fetched = await cluster.retried(read)
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
            offset = header.last_offset + 1
            if header.base_offset >= end_offset:
                break
            if header.producer_id == producer_id and not header.is_control:
                seen.append(SeenBatch(header.producer_epoch, header.base_sequence, header.record_count))
    return seen


def _cannot_know(saved: SavedIdentity, found: Unprovable) -> CannotKnow:
    return CannotKnow(
        f"how many rows identity {saved.name!r} stored cannot be proven: {found.why}; "
        f"start a new identity from a known position"
    )


def _fenced(name: str, why: str) -> ProducerFenced:
    return ProducerFenced(f"{why}: another copy of identity {name!r} was started; stop this one")
