"""What an error code says about the batch it answers: the one table that retries and exceptions follow.

The producer, the sinks of Spark and a resume look codes up here.

Two questions are kept apart, because the codes answer them apart: *may this attempt have been appended?*
and *what comes next?* A refusal that precedes the append (``MESSAGE_TOO_LARGE``) is definite; one that may
follow it (``REQUEST_TIMED_OUT``, ``NOT_ENOUGH_REPLICAS_AFTER_APPEND``, ``KAFKA_STORAGE_ERROR``, a lost
connection) leaves the attempt in doubt until a later answer settles it. Follows Kafka's
``Sender.completeBatch`` and KIP-360, with the difference that a sequence error never raises the producer
epoch blindly: the log is asked first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from semel.errors import ErrorCode
from semel.types import ProducerGrant


class Next(Enum):
    """What the pipeline does with a batch that was refused."""

    ACCEPT = auto()  # it is stored
    RETRY = auto()  # the same again, after a pause
    RETRY_ELSEWHERE = auto()  # the same again, after asking who leads the partition
    SPLIT = auto()  # halves, with the same sequences
    ASK_THE_LOG = auto()  # a sequence error: what is the last sequence that is stored?
    ASK_OR_FAIL = auto()  # refused for ever, but some of its rows may be stored
    NEW_GRANT = auto()  # the log forgot this producer id
    FENCED = auto()  # a newer copy writes with this identity
    FAIL = auto()  # will be refused for ever


_NEXT: Final = {
    ErrorCode.NONE: Next.ACCEPT,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Next.ACCEPT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Next.RETRY_ELSEWHERE,
    ErrorCode.LEADER_NOT_AVAILABLE: Next.RETRY_ELSEWHERE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Next.RETRY_ELSEWHERE,
    ErrorCode.NETWORK_EXCEPTION: Next.RETRY_ELSEWHERE,
    ErrorCode.REQUEST_TIMED_OUT: Next.RETRY_ELSEWHERE,  # of a leader that has lost its replicas to another one
    ErrorCode.KAFKA_STORAGE_ERROR: Next.RETRY_ELSEWHERE,
    ErrorCode.FENCED_LEADER_EPOCH: Next.RETRY_ELSEWHERE,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Next.RETRY_ELSEWHERE,
    ErrorCode.UNKNOWN_TOPIC_ID: Next.RETRY_ELSEWHERE,
    ErrorCode.MESSAGE_TOO_LARGE: Next.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: Next.SPLIT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Next.ASK_THE_LOG,
    ErrorCode.INVALID_RECORD: Next.ASK_OR_FAIL,
    ErrorCode.UNKNOWN_PRODUCER_ID: Next.NEW_GRANT,
    ErrorCode.INVALID_PRODUCER_EPOCH: Next.FENCED,
    ErrorCode.PRODUCER_FENCED: Next.FENCED,
}

MAYBE_APPENDED: Final = frozenset(
    {
        ErrorCode.UNKNOWN,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # also from a leader that lost its office while replicas caught up
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def next_step(code: ErrorCode) -> Next:
    """What to do about ``code`` on a Produce answer."""
    step = _NEXT.get(code)
    if step is not None:
        return step
    return Next.RETRY if code.retriable else Next.FAIL


@dataclass(frozen=True, slots=True)
class Stored:
    """The batch is in the log. ``base_offset`` is None when only the fact is known (a duplicate's answer)."""

    grant: ProducerGrant | None
    base_sequence: int
    base_offset: int | None
    log_append_time_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The batch is not in the log and no copy of it can come to be there."""

    code: ErrorCode
    why: str


@dataclass(frozen=True, slots=True)
class InDoubt:
    """Some attempt may have been appended, and nobody answered who could tell."""

    code: ErrorCode
    why: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """A newer copy of the identity writes; ``maybe_stored`` when an earlier attempt went unanswered."""

    code: ErrorCode
    grant: ProducerGrant | None
    newer_epoch: int | None
    maybe_stored: bool


@dataclass(frozen=True, slots=True)
class Parts:
    """The batch was too large and went as several: the first row and the fate of each, in order."""

    parts: tuple[tuple[int, Stored | Refused | InDoubt | Fenced], ...]

    def of_row(self, row: int) -> tuple[int, Stored | Refused | InDoubt | Fenced]:
        """The first row of the part that holds ``row``, and that part's fate."""
        return next(part for part in reversed(self.parts) if part[0] <= row)


PartFate = Stored | Refused | InDoubt | Fenced
Fate = PartFate | Parts
