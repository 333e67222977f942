"""Where the next holder goes on: from what the journal planned, and what the destination has stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from semel.core.copy.journal import Chunk, Place
from semel.core.copy.spans import offset_of, row_count
from semel.sequence import advance, distance


@dataclass(frozen=True, slots=True)
class Lost:
    """What stands at the destination is not what the journal says: why."""

    evidence: str


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
            return replace(place, offset=offset_of(chunk.spans, rows - 1) + 1, sequence=stored, mark=None)
        place = replace(place, offset=chunk.end, sequence=chunk.sequence + count, mark=chunk.mark)
    if stored > place.sequence:
        return Lost(f"{stored} rows of its last holder are stored there, and {place.sequence} were planned")
    return place
