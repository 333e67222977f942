"""What happens to the producer's pipeline, and what it wants done: values only.

Effects state their order: settle what is known, then ask, then send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.core.client.batch import ProducerBatch
from semel.core.client.fate import PartFate
from semel.core.client.transaction_events import AskCoordinator, TransactionEvent
from semel.errors import ErrorCode
from semel.types import NO_SEQUENCE, Lease, ProducerGrant, TopicPartition


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed, or rows were appended."""


@dataclass(frozen=True, slots=True)
class Granted:
    """InitProducerId answered."""

    grant: ProducerGrant


@dataclass(frozen=True, slots=True)
class Leased:
    """A lease was asked for at ``asked_ms``, before the first byte of the question left."""

    lease: Lease
    asked_ms: int


@dataclass(frozen=True, slots=True)
class LeaseRefused:
    """No new lease for now; the one that is held stays what it is."""

    why: str


@dataclass(frozen=True, slots=True)
class NoLeases:
    """There will never be a lease: whoever was asked knows of none, or refuses this one for good."""

    why: str
    code: ErrorCode = ErrorCode.UNSUPPORTED_VERSION


@dataclass(frozen=True, slots=True)
class LeadersKnown:
    """Metadata was asked about ``topics``: the node that leads each partition (missing: none is known)."""

    topics: frozenset[str]
    leaders: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """One partition's part of a Produce answer."""

    code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A Produce request was answered; a partition that the answer leaves out counts as unanswered."""

    request_id: int
    answers: Mapping[TopicPartition, Answer]


@dataclass(frozen=True, slots=True)
class Lost:
    """A Produce request will not be answered. ``sent`` is False when no byte of it left."""

    request_id: int
    sent: bool
    why: str


@dataclass(frozen=True, slots=True)
class LogAnswered:
    """DescribeProducers answered: what the partition's log knows of our producer id (None: nothing).

    ``asked_for`` repeats whom the question was about: an answer that comes after the partition moved on is
    about somebody else. ``lease_remaining_ms``: of a leased id, by its server, counted from ``asked_ms``.
    ``is_final``: the id was shut out first, so nothing of it comes in any more, and the log itself was read;
    ``is_cut``: not from where it had to be, for it begins later by now; ``is_compacted``: behind ``last_sequence``
    something was taken out of it. ``may_be_lost``: the leader tells of batches before they are committed, as Apache
    Kafka's does, and a broker that does not lead any more tells of them, too.
    """

    tp: TopicPartition
    newest_epoch: int | None
    last_sequence: int | None
    asked_for: ProducerGrant
    lease_remaining_ms: int | None = None
    asked_ms: int = 0
    is_final: bool = False
    is_cut: bool = False
    is_compacted: bool = False
    may_be_lost: bool = False

    @property
    def stored_to(self) -> int:
        """The last sequence that the log has of ``asked_for``, or NO_SEQUENCE."""
        if self.last_sequence is None or self.newest_epoch != self.asked_for.producer_epoch:
            return NO_SEQUENCE
        return self.last_sequence


@dataclass(frozen=True, slots=True)
class LogSilent:
    """What the log knows could not be learnt."""

    tp: TopicPartition
    why: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that sending needs could not be had; it is tried again. Told to whoever waits in vain."""

    why: str


Event = (
    Tick
    | Granted
    | Leased
    | LeaseRefused
    | NoLeases
    | LeadersKnown
    | Answered
    | Lost
    | LogAnswered
    | LogSilent
    | Trouble
    | TransactionEvent
)


@dataclass(frozen=True, slots=True)
class SendProduce:
    """Send these batches, one a partition, to ``node_id`` on its one connection, in this order."""

    request_id: int
    node_id: int
    batches: tuple[ProducerBatch, ...]


@dataclass(frozen=True, slots=True)
class LastStored:
    """The newest batch of ours that is in a log with all that was sent in front of it: where, and whose."""

    end_offset: int
    grant: ProducerGrant
    last_sequence: int


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Shut ``grant`` out of the partition, then look in its log what is stored of it.

    It is stored behind ``behind``, if at all; or, where that is in the log no more, anywhere. ``shuts_out``: else it
    stays in, and what is not there yet may still come.
    """

    tp: TopicPartition
    grant: ProducerGrant
    behind: LastStored | None
    shuts_out: bool = True


@dataclass(slots=True)
class Effects:
    """What the shell is to do, in this order."""

    settled: list[tuple[ProducerBatch, PartFate]] = field(default_factory=list)
    ask_grant: bool = False
    ask_lease: tuple[TopicPartition, ...] | None = None  # for these partitions
    ask_leaders_of: set[str] = field(default_factory=set)
    ask_log: list[tuple[TopicPartition, ProducerGrant]] = field(default_factory=list)
    read_back: list[ReadBack] = field(default_factory=list)
    ask_coordinator: AskCoordinator | None = None
    sends: list[SendProduce] = field(default_factory=list)
