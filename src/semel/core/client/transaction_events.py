"""What happens to a producer's transactions, and what they ask of coordinators: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.errors import ErrorCode
from semel.types import ProducerGrant, TopicPartition

# -- from who uses the producer -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartAsked:
    """The producer was made: it asks for its place, and so ends what a copy before it left open."""


@dataclass(frozen=True, slots=True)
class BeginAsked:
    """``is_v2``: by the second protocol of transactions (KIP-890, part 2), as the cluster has it switched on now."""

    is_v2: bool


@dataclass(frozen=True, slots=True)
class TransactionOffsets:
    """What is to be committed for a group, and as whom (KIP-447)."""

    group: str
    offsets: Mapping[TopicPartition, tuple[int, str | None, int]]  # offset, metadata, leader epoch
    member_id: str
    generation_id: int
    group_instance_id: str | None


@dataclass(frozen=True, slots=True)
class OffsetsAsked:
    """These positions are to count with the transaction's rows."""

    offsets: TransactionOffsets


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Something that was to count with the rows cannot be had: the rows shall not count without it."""

    code: ErrorCode
    why: str


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """All rows were handed in: the transaction shall count."""


@dataclass(frozen=True, slots=True)
class AbortAsked:
    """The transaction shall be as if it had never been."""


# -- what is asked ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskProducerId:
    """InitProducerId: a place of one's own; or, with ``before``, the next epoch of the one that is held (KIP-360)."""

    before: ProducerGrant | None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn: these are going to be written to."""

    grant: ProducerGrant
    tps: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """AddOffsetsToTxn: this group's offsets are going to be committed."""

    grant: ProducerGrant
    group: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """TxnOffsetCommit."""

    grant: ProducerGrant
    offsets: TransactionOffsets
    is_v2: bool


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """EndTxn."""

    grant: ProducerGrant
    is_commit: bool
    is_v2: bool


@dataclass(frozen=True, slots=True)
class DescribeOwn:
    """DescribeTransactions: what has the coordinator made of our name?"""


CoordinatorQuestion = (
    AskProducerId | AddPartitions | AddOffsets | CommitOffsets | EndTransaction | DescribeOwn
)


@dataclass(frozen=True, slots=True)
class AskCoordinator:
    """One attempt, answered by :class:`CoordinatorAnswered` or :class:`CoordinatorLost` of this number."""

    request_id: int
    question: CoordinatorQuestion


# -- what comes back --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnDescription:
    """How our name stands with the coordinator. ``state`` is Kafka's word (``TransactionState``)."""

    state: str
    grant: ProducerGrant


@dataclass(frozen=True, slots=True)
class CoordinatorAnswered:
    """``grant``: what is held from now on, where the answer says; ``what``: the refused thing, for people."""

    request_id: int
    code: ErrorCode
    grant: ProducerGrant | None = None
    what: str = ""
    described: OwnDescription | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """There will be no answer. ``sent`` is False when no byte of the question left."""

    request_id: int
    sent: bool
    why: str


TransactionEvent = (
    StartAsked
    | BeginAsked
    | OffsetsAsked
    | GivenUp
    | CommitAsked
    | AbortAsked
    | CoordinatorAnswered
    | CoordinatorLost
)
