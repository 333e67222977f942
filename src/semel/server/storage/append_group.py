"""Batches of several requests that go to the disk with one write: all of them, or none.

Invariant: until the write has succeeded everything can be taken back, so that the producer state never speaks
for what is not in the file; a verdict that rests on batches of the group falls with them.
"""

from __future__ import annotations

from typing import Final

from semel.core.log.policy import Room
from semel.core.producer_state.row import Row
from semel.core.producer_state.state import ProducerState
from semel.core.producer_state.verdict import Duplicate, Verdict
from semel.record.batch import BatchHeader
from semel.server.storage.outcome import Incoming
from semel.types import LEASED_IDS_FROM


class AppendGroup:
    """Batches that are judged and wait for one common write; their producers' rows can be put back."""

    __slots__ = (
        "_before",
        "_first_offset",
        "buffers",
        "end_offset",
        "headers",
        "new_leases",
        "room",
        "size_bytes",
        "slots",
    )

    def __init__(self, end_offset: int, room: Room) -> None:
        self.buffers: list[memoryview] = []
        self.headers: list[BatchHeader] = []
        self.new_leases: list[int] = []  # leased ids that the partition did not know
        self.slots: list[int] = []  # whose outcome depends on the write
        self.size_bytes = 0
        self._first_offset = self.end_offset = end_offset
        self.room: Final = room  # of the segment that they go into
        self._before: list[Row | None] = []

    def fits(self, incoming: Incoming) -> bool:
        records = sum([header.last_offset_delta + 1 for header in incoming.headers])
        return self.room.fits(self.size_bytes + len(incoming.batches), self.end_offset + records - 1)

    def add(self, batch: memoryview, header: BatchHeader, before: Row | None) -> None:
        """A batch that the producer state knows of; ``before`` is what it says of the producer if that is undone."""
        self._before.append(before)
        if before is None and header.producer_id >= LEASED_IDS_FROM:
            self.new_leases.append(header.producer_id)
        self.buffers.append(batch)
        self.headers.append(header)
        self.size_bytes += len(batch)
        self.end_offset += header.last_offset_delta + 1

    def bears(self, verdict: Verdict, producer_id: int) -> bool:
        """Whether a verdict rests on batches of this group, so that it falls with their write."""
        if isinstance(verdict, Duplicate) and verdict.base_offset is not None:
            return verdict.base_offset >= self._first_offset
        return any(header.producer_id == producer_id for header in self.headers)

    def take_back(self, batches: int, producers: ProducerState) -> None:
        """Forget all but the first ``batches``."""
        while len(self.buffers) > batches:
            self.size_bytes -= len(self.buffers.pop())
            header = self.headers.pop()
            before = self._before.pop()
            producers.restore(header.producer_id, before)
            if before is None and header.producer_id >= LEASED_IDS_FROM:
                self.new_leases.pop()
            self.end_offset -= header.last_offset_delta + 1
            producers.end_offset = self.end_offset
