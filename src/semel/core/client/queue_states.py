"""The states that one partition's queue goes through, and the one table of what leads from which to which.

A queue is in three states at once, of regions that know nothing of each other: what its :class:`Line` waits for,
which :class:`Hold` it has on a grant, whether its :class:`Sequences` have a gap. A state carries what is true only
while it lasts; whatever leaves the state leaves that behind, too. Each event belongs to one region; one that has no
row for the state cannot come there, and is an error of the program. docs/producer-states.md is made from this file
by ``tools/make_producer_states.py``.

That the lease of a grant is over is no state: the clock says it at any moment (``PartitionQueue.is_over``), while a
state that had to be told would be late.

Kafka's counterparts are spread over ``TransactionManager`` and ``RecordAccumulator`` as flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from semel.core.client.batch import ProducerBatch
from semel.core.moves import moved
from semel.errors import ErrorCode
from semel.types import ProducerGrant


@dataclass(frozen=True, slots=True)
class State:
    """One of the states of a queue."""


# -- what the line waits for ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line(State):
    """What has to come before the next batch is sent."""


@dataclass(frozen=True, slots=True)
class Sending(Line):
    """Nothing: batches are sent, as many as may be unanswered."""


@dataclass(frozen=True, slots=True)
class Recovering(Line):
    """A batch came back: the answers to those behind it have to come in before anything is sent."""


@dataclass(frozen=True, slots=True)
class Asking(Line):
    """The log is asked whether it has the front batch: nothing is sent until it is heard."""

    batch: ProducerBatch
    refusal: tuple[ErrorCode, str] | None  # why the batch fails, should the log have nothing of it


@dataclass(frozen=True, slots=True)
class Stopped(Line):
    """No batch is sent any more: what is there is settled, and so is what comes back or is added."""

    code: ErrorCode
    why: str


# -- under which grant ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hold(State):
    """Under which grant new batches get their sequences, and until when by our clock."""

    grant: ProducerGrant | None = None
    ends_ms: int | None = None  # when its lease is over, if it is one


@dataclass(frozen=True, slots=True)
class Ungranted(Hold):
    """There is no grant yet, or the one there was is left: the next one is adopted when every answer is in."""


@dataclass(frozen=True, slots=True)
class Holding(Hold):
    """The partition writes under its grant."""


@dataclass(frozen=True, slots=True)
class Moving(Hold):
    """There is a newer grant: this one only finishes what was begun under it."""


@dataclass(frozen=True, slots=True)
class ShutOut(Hold):
    """We have shut the lease out of the partition ourselves, to read back from the log what is stored of it."""


# -- whether the sequences have a gap -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sequences(State):
    """Whether the sequences that were given follow each other in the log."""


@dataclass(frozen=True, slots=True)
class Dense(Sequences):
    """They do: no batch is missing."""


@dataclass(frozen=True, slots=True)
class Gapped(Sequences):
    """A batch failed for good: none behind it is sent until those in front are settled."""

    at_sequence: int  # to go on with


@dataclass(frozen=True, slots=True)
class GappedInDoubt(Gapped):
    """The same, and that batch may be stored, or come to be: its sequences are never given again."""


class QueueEvent(Enum):
    """What may happen to a queue, each by the words that describe it."""

    CAME_BACK = "A batch that is not settled takes its place in the line again."
    ALL_ANSWERED = "Nothing is in flight any more."
    ASKED = "The log is asked about the front batch."
    HEARD = "The question is answered, will not be, or is of no use any more."
    STOPPED = "A failure, a newer copy or a close ends the partition."

    ADOPTED = "A grant is taken, as no batch of an older one is unsettled."
    NEWER_GRANTED = "There is a newer grant, but batches of the older one are unsettled."
    ENDED_EARLY = "The leader says that the lease is over, before our clock does."
    FOUND_ALIVE = "The log's server says how long the lease still lives, after our clock called it over."
    SHUT_OUT = "Only the log itself can say what is stored of the lease: its id is shut out there."
    LEFT = "What its sequences stand for is settled, or is to go under another grant."

    FAILED = "A batch is refused for good, and the partition goes on."
    FAILED_IN_DOUBT = "A batch is given up that may be stored, and the partition goes on."
    TAKEN_BEHIND = "A log that did not know the producer has taken a batch from behind the gap."
    CLOSED = "Nothing behind the gap was ever sent: its sequences are given to what waits."
    PASSED = "The grant is left, and with it the gap."


TABLE: Final[Mapping[QueueEvent, Mapping[type[State], type[State]]]] = {
    QueueEvent.CAME_BACK: {Sending: Recovering, Recovering: Recovering, Asking: Asking, Stopped: Stopped},
    QueueEvent.ALL_ANSWERED: {Recovering: Sending},
    QueueEvent.ASKED: {Sending: Asking, Recovering: Asking, Stopped: Stopped},
    QueueEvent.HEARD: {Sending: Sending, Recovering: Recovering, Asking: Recovering, Stopped: Stopped},
    QueueEvent.STOPPED: {Sending: Stopped, Recovering: Stopped, Asking: Stopped, Stopped: Stopped},
    QueueEvent.ADOPTED: {Ungranted: Holding, Holding: Holding, Moving: Holding},
    QueueEvent.NEWER_GRANTED: {Ungranted: Ungranted, Holding: Moving, Moving: Moving, ShutOut: ShutOut},
    QueueEvent.ENDED_EARLY: {Holding: Holding, Moving: Moving, ShutOut: ShutOut},
    QueueEvent.FOUND_ALIVE: {Holding: Holding, Moving: Moving},
    QueueEvent.SHUT_OUT: {Holding: ShutOut, Moving: ShutOut, ShutOut: ShutOut},
    QueueEvent.LEFT: {Ungranted: Ungranted, Holding: Ungranted, Moving: Ungranted, ShutOut: Ungranted},
    QueueEvent.FAILED: {Dense: Gapped, Gapped: Gapped, GappedInDoubt: GappedInDoubt},
    QueueEvent.FAILED_IN_DOUBT: {Dense: GappedInDoubt, Gapped: GappedInDoubt, GappedInDoubt: GappedInDoubt},
    QueueEvent.TAKEN_BEHIND: {Gapped: Gapped, GappedInDoubt: GappedInDoubt},
    QueueEvent.CLOSED: {Gapped: Dense},
    QueueEvent.PASSED: {Dense: Dense, Gapped: Dense, GappedInDoubt: Dense},
}

S = TypeVar("S", bound=State)


def follow(state: S, event: QueueEvent, **told: object) -> S:
    """The state that ``event`` leads to; it knows what the event tells, and else what the one before it knew."""
    return moved(TABLE, state, event, **told)
