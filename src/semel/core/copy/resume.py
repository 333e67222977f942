"""Where the next holder goes on: from what the journal planned, and what the destination has stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from semel.core.copy.clean import clean_behind
from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Chunk, Place
from semel.core.copy.spans import offset_of, row_count
from semel.core.same_batch import is_another
from semel.record.batch import BatchHeader
from semel.sequence import advance, distance
from semel.types import ProducerGrant


@dataclass(frozen=True, slots=True)
class Lost:
    """What stands at the destination is not what the journal says: why."""

    evidence: str


@dataclass(frozen=True, slots=True)
class Ending:
    """The last batch that an output surely has: an end alone proves nothing, for the next fence lengthens a log that
    was put back from an older copy. ``writer``: whose rows it has; else it is the batch of this ``crc``."""

    last_offset: int
    writer: ProducerGrant | None = None
    crc: int | None = None

    def missing(self, found: BatchHeader) -> str | None:
        """What is wrong with the batch that has this offset; ``None`` where it is the one, or cannot be told."""
        if self.writer is None:
            is_other = self.crc is not None and is_another(found, self.last_offset, self.crc)
        else:
            owner = ProducerGrant(found.producer_id, found.producer_epoch)
            is_its_own = owner == self.writer and not found.is_control
            is_other = found.base_offset <= self.last_offset and not (
                is_its_own and found.last_offset == self.last_offset
            )
        return (
            f"the batch at offset {self.last_offset} is another one than was stored there"
            if is_other
            else None
        )


def ending_of(place: Place, sure: int, writer: ProducerGrant | None) -> Ending | None:
    """By what the journal knows of an output: ``sure`` rows in it are ``writer``'s. ``None``: it says nothing."""
    last_offset = place.output_end - 1
    if place.output_mark is not None:
        return Ending(last_offset, crc=place.output_mark.crc)
    if sure and writer is not None and place.output_end > place.output_start:
        return Ending(last_offset, writer)
    return None


def unsaid(history: CopyHistory, found: ProducerGrant, *, has_rows: bool) -> Lost | None:
    """What is wrong with a batch of ``found`` behind the end that the newest BEGUN gives an output; a fence, or rows.

    HELD is durable before its fences, and BEGUN before its rows: where they are missing it is the journal that was put
    back, and whoever goes on by it doubles what was copied since. Neither the epoch that is granted nor a later HELD
    tells: a holder may take the name and die in front of its HELD, and the next one's stands in the journal. Producers
    that are not the job's write as they like, and an epoch below the writer's is late.
    """
    writer = history.writer
    if writer is None or found == writer:
        return None
    is_the_writers = found.producer_id == writer.producer_id
    if is_the_writers and found.producer_epoch < writer.producer_epoch:
        return None
    held_ids = {grant.producer_id for grant in history.held_since}
    if not is_the_writers and found.producer_id not in held_ids:
        return None
    name = f"producer {found.producer_id} at epoch {found.producer_epoch}"
    if has_rows:
        return Lost(
            f"rows of {name} stand there, which is the job's own, and the journal does not say where it began"
        )
    is_forgotten = bool(held_ids - {writer.producer_id})  # see epoch_to_shut_out
    shut_out_at = history.held_epochs[writer.producer_id] + 1
    if found in history.held_since or (
        is_the_writers and is_forgotten and found.producer_epoch == shut_out_at
    ):
        return None
    return Lost(
        f"{name} has fenced it, which is the job's own, and the journal does not say that it held the job"
    )


@dataclass(frozen=True, slots=True)
class StoredRows:
    """How many rows of one writer a partition has, counted on batch by batch from those that surely are there.

    They follow on each other; a hole means that the log has lost some, but where it is compacted.
    """

    sequence: int
    has_holes: bool = False  # compacted, or trimmed

    def over(self, base_sequence: int, record_count: int) -> StoredRows | Lost:
        """With the next batch of the writer, in the order of the log; ``record_count`` is that of its offsets."""
        ahead = distance(base_sequence, advance(0, self.sequence))
        if ahead > 0 and not self.has_holes:
            return Lost(
                f"sequence {base_sequence} stands behind {advance(0, self.sequence)} rows, {ahead} are missing"
            )
        return StoredRows(self.sequence + max(0, ahead + record_count), self.has_holes)


def acknowledged(place: Place, chunks: Sequence[Chunk]) -> int:
    """So many of the writer's rows were surely stored, by its own word."""
    return max([place.sequence, *(chunk.acknowledged for chunk in chunks)])


def place_behind(place: Place, chunks: Sequence[Chunk], stored: int) -> Place | Lost:
    """The partition's place with ``stored`` rows of the writer at the destination, ``chunks`` planned behind it.

    Its sequences are the writer's; whoever goes on begins its own at 0.
    """
    sure = acknowledged(place, chunks)
    if stored < sure:
        return Lost(f"{sure} rows of its last holder were acknowledged there, and {stored} are stored")
    for chunk in chunks:
        count = row_count(chunk.spans)
        rows = stored - chunk.sequence
        if rows < count:
            if rows <= 0:
                return place
            return replace(
                place,
                offset=offset_of(chunk.spans, rows - 1) + 1,
                sequence=stored,
                mark=None,
                clean=clean_behind(chunk, rows),
            )
        place = replace(
            place, offset=chunk.end, sequence=chunk.sequence + count, mark=chunk.mark, clean=chunk.clean
        )
    if stored > place.sequence:
        return Lost(f"{stored} rows of its last holder are stored there, and {place.sequence} were planned")
    return place
