"""What the coordinator of transactions is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from semel.core.transaction.transaction import Transaction
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant, TopicPartition


@dataclass(frozen=True, slots=True)
class Init:
    """InitProducerId with a name: the right to write under it, and the end of whatever it has under way.

    With an id and its epoch, only if nobody was granted the name since. ``fresh_producer_id`` comes from a claimed
    block, and is wasted when it is not needed; without one whoever needs it is told to ask again.
    """

    transactional_id: str
    timeout_ms: int
    fresh_producer_id: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """These will be written in the transaction under way, which begins with the first of them.

    AddPartitionsToTxn and AddOffsetsToTxn; or Produce and TxnOffsetCommit themselves, by clients of KIP-890.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int
    fresh_producer_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was changed."""

    error_code: ErrorCode
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """It is decided, and once that is durable every partition is to have a marker: now, or after the next start."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Ended:
    """It ended so before; who asks did not hear of it."""

    grant: ProducerGrant


@dataclass(frozen=True, slots=True)
class Stray:
    """What is open in a partition though nobody has it under way: abort it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int


InitAnswer: TypeAlias = ProducerGrant | Ending | Refused
EndAnswer: TypeAlias = Ended | Ending | Refused
