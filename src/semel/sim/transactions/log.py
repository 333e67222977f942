"""What the logs of a server add up to, of transactions: a second opinion, which knows what is durable."""

from __future__ import annotations

from dataclasses import dataclass, field

from semel.core.transaction.transaction import Transaction
from semel.types import TopicPartition


@dataclass(slots=True)
class OpenHere:
    """A transaction that has written to a partition, and has no marker there that is durable."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    marker_offset: int | None = None  # of one that is written


@dataclass(slots=True)
class PartitionLog:
    """One partition's."""

    is_open: dict[int, OpenHere] = field(default_factory=dict)  # by producer id
    is_ending: list[OpenHere] = field(default_factory=list)
    durable_end: int = 0

    def wrote(self, producer_id: int, producer_epoch: int, offset: int) -> None:
        self.is_open.setdefault(producer_id, OpenHere(producer_id, producer_epoch, offset))

    def marked(self, producer_id: int, offset: int) -> None:
        ended = self.is_open.pop(producer_id, None)
        if ended is not None:
            ended.marker_offset = offset
            self.is_ending.append(ended)

    def synced(self, durable_end: int) -> None:
        self.durable_end = durable_end
        self.is_ending = [
            one for one in self.is_ending if one.marker_offset is None or one.marker_offset >= durable_end
        ]

    def unended_of(self, producer_id: int) -> OpenHere | None:
        """What of its transaction may still be open after a power cut, or is open."""
        ending = (one for one in self.is_ending if one.producer_id == producer_id)
        return self.is_open.get(producer_id) or next(ending, None)

    @property
    def first_unstable(self) -> OpenHere | None:
        """Whatever readers of what is committed may not read on behind."""
        return min((*self.is_open.values(), *self.is_ending), key=lambda one: one.first_offset, default=None)


@dataclass(slots=True)
class Decided:
    """How a transaction was decided, and where that stands in ``__transaction_state``."""

    is_commit: bool
    place: int


@dataclass(slots=True)
class TransactionLog:
    """All of them. A *place* is a record's offset. A process that comes up finds all that there is."""

    states: dict[str, Transaction] = field(default_factory=dict)  # by transactional id
    places: dict[str, int] = field(default_factory=dict)  # of those
    decided: dict[str, Decided] = field(default_factory=dict)  # by the transaction's name
    durable_end: int = 0  # of the log of states
    partitions: dict[TopicPartition, PartitionLog] = field(default_factory=dict)

    def begin_anew(self, state_end: int) -> None:
        """What was written behind it is gone."""
        self.states.clear()
        self.places.clear()
        for name in [name for name, one in self.decided.items() if one.place >= state_end]:
            del self.decided[name]

    def of(self, tp: TopicPartition) -> PartitionLog:
        return self.partitions.setdefault(tp, PartitionLog())

    def by_producer(self, producer_id: int) -> Transaction | None:
        found = (
            one for one in self.states.values() if producer_id in (one.producer_id, one.previous_producer_id)
        )
        return next(found, None)

    def is_durable(self, transactional_id: str) -> bool:
        """Whether its newest record is."""
        return self.places.get(transactional_id, self.durable_end) < self.durable_end
