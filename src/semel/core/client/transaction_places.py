"""The places that a producer's transactions go through, and the one table of what leads from which to which.

A place carries what is true only while it lasts. A step that has no row for a place cannot come there, and is an error
of the program. docs/producer-states.md is made from this file by ``tools/make_producer_states.py``.

Kafka's counterpart is ``TransactionManager.State``. Here a commit that nobody answers has a place of its own sort
(``Committing`` in doubt), and so has the question of who shut a producer out (``Judging``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.moves import moved
from semel.errors import ErrorCode
from semel.types import ProducerGrant


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a transaction cannot be committed."""

    code: ErrorCode
    why: str


class End(Enum):
    """Why a producer makes no more transactions. What became of the newest one is ``Ended.is_in_doubt``."""

    FENCED = "another copy has its transactional id"
    TIMED_OUT = "the coordinator aborted its transaction, for it took too long"
    EXPIRED = "the coordinator does not know its transactional id any more"
    UNANSWERED = "the coordinator did not answer in time"
    REFUSED = "the coordinator refused, for good"


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places of a producer's transactions."""


@dataclass(frozen=True, slots=True)
class Unstarted(Place):
    """Nothing was asked yet."""


@dataclass(frozen=True, slots=True)
class Starting(Place):
    """InitProducerId is asked, for the first time, or for the next epoch of what is held: nothing can be sent."""

    before: ProducerGrant | None = None


@dataclass(frozen=True, slots=True)
class Ready(Place):
    """There is no transaction, and one can be begun."""


@dataclass(frozen=True, slots=True)
class Open(Place):
    """Rows are sent, and offsets."""


@dataclass(frozen=True, slots=True)
class Broken(Place):
    """Something of the transaction failed: it can only be aborted."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Flushing(Place):
    """It is to be committed, once all of it is stored."""


@dataclass(frozen=True, slots=True)
class Committing(Place):
    """EndTxn is asked to commit. In doubt: some attempt was not answered, or not for good, and may have been heard."""

    is_in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class Aborting(Place):
    """What is under way is waited for, then EndTxn is asked to abort."""

    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Judging(Place):
    """Somebody shut this producer out: the coordinator is asked who, or what."""

    code: ErrorCode
    why: str
    is_in_doubt: bool = False


@dataclass(frozen=True, slots=True)
class Ended(Place):
    """It makes no more transactions. In doubt: its newest one may have been committed."""

    end: End
    code: ErrorCode
    why: str
    is_in_doubt: bool = False


class Step(Enum):
    """What may happen, each by the words that describe it."""

    STARTED = "The producer asks for its place."
    GRANTED = "The coordinator gave a producer id and an epoch: copies from before are shut out."
    BEGUN = "A transaction is begun."
    BROKE = (
        "A row, or a commit of offsets, failed for good; or the coordinator said that it can only be aborted."
    )
    COMMIT_ASKED = "All of it was handed in, and it shall count."
    ALL_STORED = "Every row is stored, and the offsets are taken down."
    DOUBTED = "A commit was asked for and not answered: it is asked for again."
    COMMITTED = "It counts (or there was nothing in it), and the next one may come."
    COMMITTED_IN_OLD_EPOCH = (
        "It counts; but some request was lost on the way, and must not meet the next one."
    )
    ABORT_ASKED = "It shall not count."
    ABORTED = "Nothing of it counts, and the next one may come."
    ABORTED_IN_OLD_EPOCH = "Nothing of it counts; a late row of it must not meet the next one."
    SHUT_OUT = "A leader or the coordinator knows a higher epoch of this transactional id."
    ENDED = "There will be no more transactions of this producer."


_ASKING: Final = (Starting, Open, Broken, Flushing, Committing, Aborting, Judging)

TABLE: Final[Mapping[Step, Mapping[type[Place], type[Place]]]] = {
    Step.STARTED: {Unstarted: Starting},
    Step.GRANTED: {Starting: Ready},
    Step.BEGUN: {Ready: Open},
    Step.BROKE: {Open: Broken, Broken: Broken, Flushing: Aborting, Committing: Aborting, Aborting: Aborting},
    Step.COMMIT_ASKED: {Open: Flushing, Broken: Aborting},
    Step.ALL_STORED: {Flushing: Committing},
    Step.DOUBTED: {Committing: Committing},
    Step.COMMITTED: {Flushing: Ready, Committing: Ready},
    Step.COMMITTED_IN_OLD_EPOCH: {Committing: Starting},
    Step.ABORT_ASKED: {Open: Aborting, Broken: Aborting, Flushing: Aborting},
    Step.ABORTED: {Aborting: Ready},
    Step.ABORTED_IN_OLD_EPOCH: {Aborting: Starting},
    Step.SHUT_OUT: {
        Starting: Judging,
        Open: Judging,
        Broken: Judging,
        Flushing: Judging,
        Committing: Judging,
        Aborting: Judging,
    },
    Step.ENDED: dict.fromkeys(_ASKING, Ended),
}


def follow(place: Place, step: Step, **told: object) -> Place:
    """The place that ``step`` leads to; it knows what the step tells, and else what the one before it knew."""
    return moved(TABLE, place, step, **told)
