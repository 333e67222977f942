"""The shape of a log-backed core: decide, write, apply.

``decide(request, now_ms)`` changes nothing: it says which records are to be written and what is then to be
answered. Only ``apply(record)`` changes the state, so that a restart, a follower and the simulator go the
same way as the live server. Nothing is answered before its records are durable. Follows Kafka's
``CoordinatorResult``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class StateRecord(NamedTuple):
    """One change of a state: the newest record of a key counts, and ``None`` removes it."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Decision(Generic[ResponseT_co]):
    """What to write, and what to answer once that is durable."""

    records: tuple[StateRecord, ...]
    response: ResponseT_co


class LogBacked(Protocol):
    """A state that is the sum of its records."""

    def apply(self, record: StateRecord) -> bool:
        """Take one record in; ``False`` when its key belongs to another state."""

    def live_records(self) -> Iterable[StateRecord]:
        """The records that alone make this state: what a compacted log would hold."""


class Transactional(Protocol):
    """A state some of whose records come in transactions: each counts once its producer's is committed."""

    def apply_pending(self, producer_id: int, record: StateRecord) -> bool:
        """Take one in that may come to count; ``False`` when its key belongs to another state."""

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """The transaction of a producer has ended."""
