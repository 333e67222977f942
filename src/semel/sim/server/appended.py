"""All that a compacted log was ever given, also what the cleaner has taken since."""

from __future__ import annotations

from collections.abc import Sequence

from semel.sim.world.history import LoggedBatch


class Appended:
    """One log's, in order."""

    def __init__(self) -> None:
        self._batches: list[LoggedBatch] = []

    @property
    def end_offset(self) -> int:
        return self._batches[-1].header.last_offset + 1 if self._batches else 0

    def add(self, batch: LoggedBatch) -> None:
        self._batches.append(batch)

    def recovered(self, found: Sequence[LoggedBatch], end_offset: int) -> None:
        """A process has found these, up to there. What is new in it was written when the one before ended."""
        while self.end_offset > end_offset:
            self._batches.pop()
        known_to = self.end_offset
        self._batches += [batch for batch in found if batch.header.base_offset >= known_to]

    def since(self, log_start_offset: int) -> list[LoggedBatch]:
        """As the log would be read from there on, had nothing of it been compacted."""
        return [batch for batch in self._batches if batch.header.last_offset >= log_start_offset]
