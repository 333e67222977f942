"""What a partition remembers of one producer id.

Invariants:
- ``window`` holds the batches of the current ``producer_epoch`` only, oldest first, at most five.
- An empty window means that the epoch was raised by a marker and nothing was written in it yet, so that
  its first sequence is 0.

Entries never change; an append puts a new one in the place of the old. An append whose write fails is
undone by putting the old one back. Follows Kafka's ``ProducerStateEntry``, which keeps the same five batches
because a client may have five requests in flight.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from semel.types import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

WINDOW_BATCHES_MAX: Final = 5
NO_COORDINATOR_EPOCH: Final = -1


class BatchSpan(NamedTuple):
    """One batch as the window remembers it; both sequences inclusive."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class ProducerEntry(NamedTuple):
    """One producer id on one partition."""

    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = NO_TIMESTAMP  # of the last batch, by the records' own clock, as Kafka's
    window: tuple[BatchSpan, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The high-water mark of the current epoch, inclusive; ``NO_SEQUENCE`` before its first batch."""
        return self.window[-1].last_sequence if self.window else NO_SEQUENCE

    def with_batch(self, producer_epoch: int, span: BatchSpan, timestamp_ms: int) -> ProducerEntry:
        """The entry after ``span`` was appended."""
        same_epoch = producer_epoch == self.producer_epoch
        window = (*self.window[1 - WINDOW_BATCHES_MAX :], span) if same_epoch else (span,)
        return ProducerEntry(producer_epoch, self.coordinator_epoch, timestamp_ms, window)

    def with_marker(self, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int) -> ProducerEntry:
        """The entry after a marker: a raised epoch starts anew at sequence 0 and shuts the older ones out."""
        window = self.window if producer_epoch == self.producer_epoch else ()
        return ProducerEntry(producer_epoch, coordinator_epoch, timestamp_ms, window)
