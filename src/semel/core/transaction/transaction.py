"""One transactional id's: to whom it is granted, and the transaction that is under way (``TransactionMetadata``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.core.transaction.states import TransactionState
from semel.types import NO_PRODUCER_ID, NO_TIMESTAMP, PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition

# Of the protocols of KIP-890: from this one on the epoch rises with each transaction, and Produce itself registers
# its partitions. Below it, partitions are added beforehand, and the epoch stays.
EPOCH_BUMP_FROM: Final = 2


@dataclass(frozen=True, slots=True)
class Transaction:
    """As of its newest record.

    While it is prepared, ``producer_epoch`` is the one that its markers have. ``next_producer_id`` is granted when
    that has used up the epochs, and ``previous_producer_id`` is the one that was granted before, after that.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = NO_TIMESTAMP
    started_ms: int = NO_TIMESTAMP  # when its first partition came
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0  # of the protocol that its client speaks

    @property
    def grant(self) -> ProducerGrant:
        """What whoever ended it writes with from now on."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerGrant(self.next_producer_id, 0)
        return ProducerGrant(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no further epoch for a client: the last one is for whoever fences it."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1

    @property
    def is_commit(self) -> bool:
        """Of one that is prepared: what its markers say."""
        return self.state is TransactionState.PREPARE_COMMIT
