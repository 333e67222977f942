"""What a partition remembers of one producer id.

Invariants:
- ``window`` holds the batches of the current ``producer_epoch`` only, oldest first, at most five.
- An empty window means that the epoch was raised by a marker, or begun by the server's own batch without a sequence,
  and that the producer has written nothing in it yet, so that its first sequence is 0.

Entries never change. They are kept as rows (:mod:`semel.core.producer_state.row`) and made where somebody wants to
look into one. Follows Kafka's ``ProducerStateEntry``, which keeps the same five batches
because a client may have five requests in flight.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from semel.record.batch import Buffer
from semel.record.control import decode_marker
from semel.types import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

WINDOW_BATCHES_MAX: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
NO_TRANSACTION: Final = -1  # instead of the first offset of one


def coordinator_epoch_in(control_batch: Buffer) -> int:
    """Of the marker in it, if it is one."""
    marker = decode_marker(control_batch)
    return NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch


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
    current_txn_first_offset: int = NO_TRANSACTION  # of its transaction that is open here

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of it is open on the partition."""
        return self.current_txn_first_offset != NO_TRANSACTION

    @property
    def last_sequence(self) -> int:
        """The last sequence of the current epoch, inclusive; ``NO_SEQUENCE`` before its first batch."""
        return self.window[-1].last_sequence if self.window else NO_SEQUENCE
