"""Resume, row by row: what is saved of a producer, and how a restarted one finds the first row not stored.

The contract. The caller hands rows in an order that it can repeat, with positions that it understands. A row
goes to a partition that is a function of (row, saved partition count, rows handed to the topic before it).
What is saved, together and atomically, is

- ``position``: the input position P up to which *every* row is stored, and for each partition
- ``handed``: how many rows up to P went to it;
- ``stored``: how many rows of this identity, over all its epochs, it holds up to ``last_sequence``;
- ``counted``: how many of them lie below ``counted_to_offset``;
- ``reread_rows``, no more than ``handed``: how many lie below ``reread_offset``; and

of the last positions up to P a fingerprint of their rows (:mod:`semel.core.client.fingerprint`).

``stored`` may run ahead of ``handed``: partitions do not advance in step. A partition stores its rows in the
order handed and without a hole (the pipeline is strict: it stops a partition at its first failure), so after
a crash the log holds, of each partition, the first ``total`` rows handed. The restarted producer

1. asks for the end offset of every partition, then for its last sequence (before the new epoch's first
   append makes the log forget the old epoch's);
2. takes a raised epoch for the identity's name, and writes a fence of that epoch into every partition: from
   then on no older copy can append;
3. reads, up to the fence, the batches that the answers of step 1 do not cover, which gives ``total`` (another
   leader than the one that stored the fence may have told of batches that it has lost: they cover nothing then);
4. saves ``total`` as ``stored`` under the new epoch, before it appends anything;
5. reads those of them back that lie behind P, from ``reread_offset`` on;
6. is handed the last rows up to P once more, and holds them against their fingerprint;
7. is handed the rows after P again, and drops, for each partition, the first ``total - handed`` of them, each
   once it is found to say what the stored one says.

Batch size, linger and compression do not enter. A crash between any two steps repeats them: then the last
sequence belongs to another epoch than the saved one, and the count is read from ``counted_to_offset`` on.

A twin that resumed between steps 1 and 2 wrote under an epoch between ours: its rows are the next ones of the
same order, and count. If the log no longer reaches back that far, ends before it, or is another topic of the
same name, the answer is a refusal, never a guess.

A topic that is new to the identity is begun: where counting starts is saved with nothing counted (``UNCOUNTED``),
and steps 1 to 4 follow under the epoch that there is. The save comes first, for a fence that a crash leaves behind
says nothing of the rows before it. The first grant of a name need not count: no older copy can have been there.

Compaction may take whole batches, the last ones of an epoch among them, and the sequences of those that are left do
not tell. A leader still does, of the epoch that it knows: so a resume by sequences, the usual one, needs no row that
is gone. Where the log has to be read, and shows that something was taken out of it, the answer is a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semel.core.client.saved import UNCOUNTED, SavedIdentity, SavedPartition
from semel.record.batch import BatchHeader
from semel.sequence import COMPARABLE_MAX, advance, distance, last_of
from semel.types import NO_LEADER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, ProducerGrant, TopicPartition

EARLIER_IDS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class LogKnows:
    """What one partition's leader said of the saved producer id before the fence."""

    end_offset: int  # asked before the rest: what is below it is covered by the rest
    producer_epoch: int | None
    last_sequence: int
    start_offset: int = 0
    leader_epoch: int = NO_LEADER_EPOCH  # asked with the end


@dataclass(frozen=True, slots=True)
class ScanFrom:
    """The log has to be read from here to the fence."""

    offset: int
    by_sequence: bool  # the answer covers what is below; only higher sequences of the saved epoch count


@dataclass(frozen=True, slots=True)
class SeenBatch:
    producer_epoch: int
    base_sequence: int
    sequence_count: int

    @classmethod
    def of(cls, header: BatchHeader) -> SeenBatch:
        """As it was written; a batch that was compacted holds fewer records."""
        return cls(header.producer_epoch, header.base_sequence, header.last_offset_delta + 1)


def is_compacted(header: BatchHeader, offset: int) -> bool:
    """Whether something that was to be read from ``offset`` on is gone, as far as the batch that was read instead.

    Apache Kafka leaves a gap, or a batch with fewer records than offsets. semel leaves no gap; of a batch whose
    producer it forgot it leaves the records to nobody, with their sequence.
    """
    is_thinned = header.record_count <= header.last_offset_delta
    was_somebodys = header.producer_id == NO_PRODUCER_ID and header.base_sequence != NO_SEQUENCE
    return header.base_offset > offset or is_thinned or was_somebodys


@dataclass(slots=True)
class Behind:
    """What is read from ``offset`` on, batch by batch: whether something is gone behind the last one of a producer.

    What is gone in front of it was stored, if it was that producer's.
    """

    offset: int
    lacks_some: bool = False

    def read(self, header: BatchHeader, *, is_its: bool) -> None:
        self.lacks_some = not is_its and (self.lacks_some or is_compacted(header, self.offset))
        self.offset = header.last_offset + 1


@dataclass(frozen=True, slots=True)
class Unprovable:
    """How many rows are stored cannot be told any more; the text says why."""

    why: str


def made_anew(saved: SavedIdentity, topic_ids: Mapping[str, str]) -> Unprovable | None:
    """Whether a topic is another one than the one that the rows went to, under the same name."""
    for topic, topic_id in saved.topic_ids.items():
        found = topic_ids.get(topic, topic_id)
        if found != topic_id:
            return Unprovable(
                f"topic {topic!r} was made anew: this identity wrote to the one with id {topic_id}, "
                f"now it has id {found}"
            )
    return None


def plan_begin(saved: SavedIdentity, tp: TopicPartition, knows: LogKnows) -> SavedPartition | Unprovable:
    """What to save of a partition that is not in ``saved`` before anything else is done with it.

    A log that does not know the identity holds none of its rows (or has forgotten it, which cannot be seen). If it
    does, some copy of which nothing is saved has written or fenced there: its rows are counted from the log's
    beginning on, if that is left.
    """
    if saved.producer_epoch == 0:
        return SavedPartition.begun(knows.end_offset)
    if knows.producer_epoch is None:
        return SavedPartition.begun(knows.end_offset, UNCOUNTED)
    if knows.start_offset > 0:
        return Unprovable(
            f"{tp} was trimmed to offset {knows.start_offset}, and knows epoch {knows.producer_epoch} of this "
            f"identity from a copy of which nothing is saved"
        )
    return SavedPartition.begun(0, UNCOUNTED)


def plan_scan(saved: SavedIdentity, tp: TopicPartition, knows: LogKnows) -> ScanFrom | Unprovable:
    """Where to read from: from the end if the log vouches for the saved epoch, else from what was counted."""
    before = saved.partitions[tp]
    if (
        not before.is_counted
        and knows.producer_epoch is None
        and not _reaches(knows, before.counted_to_offset)
    ):
        return ScanFrom(knows.end_offset, by_sequence=False)  # what was deleted, or lost, was others'
    if knows.end_offset < before.counted_to_offset:
        return Unprovable(
            f"{tp} ends at offset {knows.end_offset}, and reached up to {before.counted_to_offset} when rows were "
            f"counted last: its log lost them"
        )
    if _is_behind(knows, saved.producer_epoch, before):
        return Unprovable(
            f"{tp} ends at sequence {knows.last_sequence} of epoch {knows.producer_epoch}, though those up to "
            f"{before.last_sequence} of epoch {saved.producer_epoch} were acknowledged: its log lost them"
        )
    if before.is_counted and knows.producer_epoch == saved.producer_epoch and _can_compare(knows, before):
        return ScanFrom(max(knows.end_offset, before.counted_to_offset), by_sequence=True)
    return scan_from_counted(before)


def scan_from_counted(before: SavedPartition) -> ScanFrom:
    """Whatever a leader said of its sequences."""
    return ScanFrom(before.counted_to_offset, by_sequence=False)


def still_vouches(knows: LogKnows, fence_leader_epoch: int) -> bool:
    """Whether the leader that told of sequences is the one that stored the fence.

    Then all that it told of is stored for good once the fence is. Another one may never have had the last of it.
    """
    return knows.leader_epoch == fence_leader_epoch != NO_LEADER_EPOCH


def _reaches(knows: LogKnows, offset: int) -> bool:
    return knows.start_offset <= offset <= knows.end_offset


def _can_compare(knows: LogKnows, before: SavedPartition) -> bool:
    """Whether sequences tell which is the newer one: each row since took an offset."""
    return knows.end_offset - before.counted_to_offset < COMPARABLE_MAX


def _is_behind(knows: LogKnows, saved_epoch: int, before: SavedPartition) -> bool:
    """Whether the log was cut below what it had acknowledged, though others have made it as long again."""
    acknowledged = before.last_sequence
    if acknowledged < 0 or knows.producer_epoch is None:
        return False
    if knows.producer_epoch != saved_epoch:
        return knows.producer_epoch < saved_epoch
    if knows.last_sequence == NO_SEQUENCE:
        return True
    return _can_compare(knows, before) and distance(knows.last_sequence, acknowledged) < 0


def total_stored(
    saved: SavedIdentity, tp: TopicPartition, knows: LogKnows, scan: ScanFrom, seen: list[SeenBatch]
) -> int | Unprovable:
    """How many rows of this identity the partition holds, over all epochs.

    ``seen``: its batches from the scan's beginning to the fence. Each epoch's sequences start at 0 and have no
    gap, unless somebody took batches out of the log.
    """
    before = saved.partitions[tp]
    producer_epoch = saved.producer_epoch
    if scan.by_sequence:
        last, told = knows.last_sequence, before.last_sequence
        total = before.stored + (last + 1 if told == NO_SEQUENCE else distance(last, told))
    else:
        last = _sequence_counted_to(before)
        total = before.counted
    for batch in seen:
        if batch.producer_epoch != producer_epoch:
            producer_epoch, last = batch.producer_epoch, NO_SEQUENCE
        ahead = distance(batch.base_sequence, last)
        if ahead <= 0 and scan.by_sequence and producer_epoch == saved.producer_epoch:
            continue  # came in between the two questions
        if ahead != 1:
            return Unprovable(
                f"{tp} goes on at sequence {batch.base_sequence} of epoch {batch.producer_epoch} behind {last}: "
                f"batches were taken out of its log"
            )
        last = last_of(batch.base_sequence, batch.sequence_count)
        total += batch.sequence_count
    return total


def _sequence_counted_to(before: SavedPartition) -> int:
    """The last one of the saved epoch below ``counted_to_offset``."""
    if before.last_sequence < 0:
        return NO_SEQUENCE
    behind = before.stored - before.counted
    return advance(before.last_sequence, -behind)


def counted_to(before: SavedPartition, scan: ScanFrom, total: int, offset: int) -> SavedPartition:
    """A partition with ``total`` rows below ``offset``, of which those that were handed are as before."""
    fresh = replace(before, stored=total, counted=total, counted_to_offset=offset, last_sequence=NO_SEQUENCE)
    if before.is_counted:
        return fresh
    return replace(fresh, reread_rows=0, reread_offset=scan.offset)  # what was begun may lie elsewhere by now


def not_held(saved: SavedIdentity, grant: ProducerGrant) -> Unprovable | None:
    """Whether a grant comes from a coordinator that forgot what it had granted, and gives it a second time.

    A name that was forgotten altogether has another producer id: its copies are fenced by that id.
    """
    if grant.producer_id != saved.producer_id or grant.producer_epoch > saved.producer_epoch:
        return None
    return Unprovable(
        f"the cluster granted epoch {grant.producer_epoch} of producer {grant.producer_id}, and had granted epoch "
        f"{saved.producer_epoch} before: it lost what it knew of this name"
    )


def resumed(
    saved: SavedIdentity, grant: ProducerGrant, counted: Mapping[TopicPartition, SavedPartition]
) -> SavedIdentity:
    """What to save before the new epoch appends: everything counted up to the fence, no sequence yet."""
    return replace(
        saved,
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        partitions={tp: counted[tp] for tp in saved.partitions},
        earlier_ids=_earlier_ids(saved, grant),
    )


def _earlier_ids(saved: SavedIdentity, grant: ProducerGrant) -> Sequence[int]:
    if saved.producer_id in (NO_PRODUCER_ID, grant.producer_id):
        return saved.earlier_ids
    return (*saved.earlier_ids, saved.producer_id)[-EARLIER_IDS_MAX:]
