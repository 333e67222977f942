"""Batches that are judged and wait for one common write.

Invariant: whatever is taken back leaves no trace: the producers' entries are as they were before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from semel.core.producer_state.entry import ProducerEntry
from semel.core.producer_state.state import ProducerState
from semel.record.batch import BatchHeader


class Mark(NamedTuple):
    """How far a group had come."""

    batches: int
    end_offset: int | None


NOTHING: Final = Mark(0, None)


class AppendGroup:
    """Batches that are judged and wait for one common write; their producers' entries can be put back."""

    __slots__ = ("_before", "buffers", "end_offset", "headers", "size_bytes", "slots")

    def __init__(self, end_offset: int) -> None:
        self.buffers: list[memoryview] = []
        self.headers: list[BatchHeader] = []
        self.slots: list[int] = []  # whose outcome depends on the write
        self.size_bytes = 0
        self.end_offset = end_offset
        self._before: list[ProducerEntry | None] = []

    def add(self, batch: memoryview, header: BatchHeader, producers: ProducerState, now_ms: int) -> None:
        self._before.append(producers.get(header.producer_id))
        self.buffers.append(batch)
        self.headers.append(header)
        self.size_bytes += len(batch)
        producers.apply(header, self.end_offset, now_ms)
        self.end_offset += header.last_offset_delta + 1

    def mark(self) -> Mark:
        return Mark(len(self.buffers), self.end_offset)

    def take_back(self, mark: Mark, producers: ProducerState) -> None:
        """Forget what was added since ``mark``."""
        while len(self.buffers) > mark.batches:
            self.size_bytes -= len(self.buffers.pop())
            producers.restore(self.headers.pop().producer_id, self._before.pop())
        if mark.end_offset is not None:
            self.end_offset = producers.end_offset = mark.end_offset
