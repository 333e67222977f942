"""The transactions of a history: what their clients sent, asked and were told, and what readers read.

A row's value names its transaction and its number there, so that whoever reads one knows what belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from semel.sim.transactions.log import TransactionLog
from semel.types import ProducerGrant, TopicPartition

_SEPARATOR: Final = ":"


class Protocol(Enum):
    """Which of KIP-890's transaction versions a client speaks."""

    OLDER = 1  # partitions are added beforehand, and the epoch stays
    NEWER = 2  # Produce registers its partitions, and the epoch rises with each end


class Offsets(NamedTuple):
    """The input that a transaction has read, and commits as read: from ``start_offset`` to before ``end_offset``."""

    group_id: str
    tp: TopicPartition
    start_offset: int
    end_offset: int


@dataclass(slots=True)
class Row:
    """One that was sent; ``record_offset`` once its client was told where it is."""

    tp: TopicPartition
    value: bytes
    record_offset: int | None = None


@dataclass(slots=True, eq=False)
class Txn:
    """One transaction, as its client has it."""

    name: str
    number: int  # they rise in the order in which transactions begin: of a name, those that commit come so
    transactional_id: str
    grant: ProducerGrant  # under which it is written
    began_ms: int
    rows: list[Row] = field(default_factory=list)  # in the order of sending
    polled: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    offsets: Offsets | None = None
    asked: bool | None = None  # whether its client has asked to commit it, or to abort it
    told: bool | None = None  # that it is committed, or aborted
    told_ms: int = 0

    @property
    def may_be_committed(self) -> bool:
        return self.asked is True and self.told is not False

    def send(self, tp: TopicPartition) -> Row:
        row = Row(tp, f"{self.name}{_SEPARATOR}{len(self.rows)}".encode())
        self.rows.append(row)
        return row


def transaction_of(value: bytes) -> str:
    """The name of the one that a row belongs to."""
    return value.decode().rsplit(_SEPARATOR, 1)[0]


class Poll(NamedTuple):
    """What a reader was given of one partition, and has made of it: ``rows`` are those that it hands on."""

    reader: str  # one life of it
    tp: TopicPartition
    is_committed: bool  # it wants no open transaction's rows
    from_offset: int
    next_offset: int
    rows: tuple[tuple[int, bytes], ...]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """One transactional id, as all who have it understand it."""

    transactional_id: str
    group_id: str
    input: TopicPartition
    timeout_ms: int
    protocols: tuple[Protocol, ...]  # each life has one of them
    rows_max: int  # of a transaction
    commits: float  # the share that its clients want to commit
    first: ProducerGrant | None = None  # that it had before the history begins; None: nobody had it


@dataclass(slots=True)
class TransactionStory:
    """Of one history. ``topics`` with their partitions."""

    plans: tuple[TransactionPlan, ...]
    topics: dict[str, int]
    config: Mapping[str, str]  # of the topics
    committed_readers: int
    txns: dict[str, Txn] = field(default_factory=dict)
    polls: list[Poll] = field(default_factory=list)
    log: TransactionLog = field(default_factory=TransactionLog)
    inits: dict[str, int] = field(default_factory=dict)  # how often each id was asked for
    lost_ms: int = -1  # what was begun by then may have lost rows that were not durable; -1: nothing has
    is_repeated: bool = False  # requests may arrive once more, long after they were answered
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)  # at the end
    final_offsets: dict[str, str | None] = field(default_factory=dict)  # the note that each group's has then
    steady_readers: set[str] = field(default_factory=set)  # those that never read anything twice
    _by_grant: dict[ProducerGrant, list[Txn]] = field(default_factory=dict)

    @property
    def tps(self) -> list[TopicPartition]:
        return [TopicPartition(name, n) for name, count in self.topics.items() for n in range(count)]

    @property
    def has_older_clients(self) -> bool:
        return any(Protocol.OLDER in plan.protocols for plan in self.plans)

    def begin(self, transactional_id: str, life: str, grant: ProducerGrant, now_ms: int) -> Txn:
        number = len(self.txns)
        txn = Txn(f"{life}.{number}", number, transactional_id, grant, now_ms)
        self.txns[txn.name] = txn
        self._by_grant.setdefault(grant, []).append(txn)
        return txn

    def newest_under(self, grant: ProducerGrant) -> Txn | None:
        """The one that was begun last by who holds it."""
        begun = self._by_grant.get(grant)
        return begun[-1] if begun else None

    def plan_of(self, transactional_id: str) -> TransactionPlan | None:
        return next((plan for plan in self.plans if plan.transactional_id == transactional_id), None)

    def seen(self) -> Iterator[tuple[Poll, int, bytes]]:
        """Every row that a reader of what is committed was given."""
        return ((poll, *row) for poll in self.polls if poll.is_committed for row in poll.rows)
