"""A producer identity on disk, and the steps of a resume (the contract: :mod:`semel.core.client.resume`).

The file is replaced as a whole: written beside itself, synced, renamed, and the folder synced. So a crash at
any moment leaves the old identity or the new one, and the checksum tells a damaged one.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from semel.client.cluster import Cluster
from semel.core.client.resume import (
    LogKnows,
    SavedIdentity,
    SeenBatch,
    Unreadable,
    decode_identity,
    encode_identity,
    plan_scan,
    resumed,
    total_stored,
)
from semel.errors import BrokerError, CannotKnow, ErrorCode, ProducerFenced, StorageError
from semel.record.batch import scan_batches
from semel.types import LATEST_TIMESTAMP, NO_PRODUCER_ID, NO_SEQUENCE, ProducerGrant, TopicPartition

_SCAN_WAIT_MS = 100


class IdentityFile:
    """One saved identity."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def load(self) -> SavedIdentity | None:
        """The identity, or None when there is no file yet."""
        try:
            found = decode_identity(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the identity in {self.path}: {error}") from error
        if isinstance(found, Unreadable):
            raise StorageError(f"cannot use the identity in {self.path}: {found.why}")
        return found

    def save(self, saved: SavedIdentity) -> None:
        """Replace the file; returns once that is durable."""
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with beside.open("wb") as file:
                file.write(encode_identity(saved))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StorageError(f"cannot save the identity in {self.path}: {error}") from error


async def resume_identity(cluster: Cluster, file: IdentityFile, name: str | None) -> SavedIdentity:
    """Fence older copies, count what is stored, save both: after this the new epoch may append."""
    saved = file.load()
    if saved is None:
        saved = SavedIdentity(name or f"semel-{uuid.uuid4()}")
        file.save(saved)  # the name first: a grant without a saved name could never be fenced
    if name is not None and name != saved.name:
        raise StorageError(f"the identity in {file.path} is named {saved.name!r}, not {name!r}")
    tps = list(saved.partitions)
    knows = await _ask(cluster, saved, tps)
    grant = await cluster.init_producer_id(saved.name)
    if saved.producer_id != NO_PRODUCER_ID and tps:
        await _fence(cluster, saved, grant, tps)
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    totals = {}
    for tp in tps:
        scan = plan_scan(saved, tp, knows[tp])
        seen = await _scan(cluster, saved.producer_id, tp, scan.offset, ends[tp].offset)
        totals[tp] = total_stored(saved, tp, knows[tp], scan, seen)
    fresh = resumed(saved, grant, totals, {tp: ends[tp].offset for tp in tps})
    file.save(fresh)
    return fresh


async def _ask(
    cluster: Cluster, saved: SavedIdentity, tps: list[TopicPartition]
) -> dict[TopicPartition, LogKnows]:
    if not tps:
        return {}
    # The ends first: what is below them is covered by the sequences that are asked for next.
    ends = await cluster.list_offsets(dict.fromkeys(tps, LATEST_TIMESTAMP), "read_uncommitted")
    described = await cluster.describe_producers(tps)
    found = {}
    for tp in tps:
        ours = next((item for item in described[tp] if item.producer_id == saved.producer_id), None)
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
    raised = grant.producer_epoch if same else saved.producer_epoch + 1
    answers = await cluster.write_fence({(saved.producer_id, raised): tps})
    for (producer_id, tp), code in answers.items():
        if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED):
            raise ProducerFenced(
                f"producer {producer_id} has a higher epoch than {raised} in {tp}: "
                f"another copy of identity {saved.name!r} was started; stop this one"
            )
        if code is not ErrorCode.NONE:
            raise BrokerError(code, f"fence older copies of identity {saved.name!r} in {tp}")


async def _scan(
    cluster: Cluster, producer_id: int, tp: TopicPartition, from_offset: int, end_offset: int
) -> list[SeenBatch]:
    seen: list[SeenBatch] = []
    offset = from_offset
    while offset < end_offset:
        fetched = (
            await cluster.fetch({tp: offset}, isolation="read_uncommitted", max_wait_ms=_SCAN_WAIT_MS)
        )[tp]
        if fetched.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise CannotKnow(
                f"rows of {tp} from offset {offset} on were deleted before they were counted: how many rows "
                f"this identity stored there cannot be proven; start a new identity from a known position"
            )
        if fetched.error_code is not ErrorCode.NONE and not fetched.error_code.retriable:
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
