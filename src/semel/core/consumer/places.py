"""A member's places in its group, and the one table of what leads from which to which.

A place carries what is true only while it lasts. A step that has no row for a place cannot come there, and is an error
of the program. Kafka's counterparts are ``AbstractCoordinator.MemberState`` and the flags beside it (``rejoinNeeded``,
``needsJoinPrepare``, ``joinFuture``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.moves import made_anew
from semel.errors import ErrorCode
from semel.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places of a member."""


@dataclass(frozen=True, slots=True)
class Outside(Place):
    """Not in the group, and not wanting to be: nothing is subscribed to."""


@dataclass(frozen=True, slots=True)
class Waiting(Place):
    """The group is to be joined, for the first time or again, as soon as its owner polls.

    ``has_let_go``: an attempt came to nothing; what is to be let go of before a join was, and it joins by itself.
    """

    not_before_ms: int
    has_let_go: bool = False


@dataclass(frozen=True, slots=True)
class LettingGo(Place):
    """The owner polls: before the join it lets go of partitions, those that others may be given by it."""


@dataclass(frozen=True, slots=True)
class Joining(Place):
    """JoinGroup is under way; its coordinator answers once all members have joined."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Syncing(Place):
    """It is a member of the new generation, and SyncGroup is under way, for the leader's division."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Settling(Place):
    """Its partitions are known: once its owner polls, it lets go of some and takes the others on."""

    assigned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Stable(Place):
    """It reads its partitions."""


@dataclass(frozen=True, slots=True)
class Ended(Place):
    """It cannot be a member as it is; its owner is told at each poll."""

    code: ErrorCode
    why: str


class Step(Enum):
    """What may happen to a member, each by the words that describe it."""

    SUBSCRIBED = "Its owner subscribes, where nothing was subscribed to, or where it had ended."
    REBALANCING = "The group is dividing its partitions anew, or has to."
    POLLED = "Its owner polls."
    AGAIN = "The pause behind a failed attempt is over."
    LET_GO = "Its owner has let go of what has to be let go of before a join."
    NAMED = "The coordinator gives it a member id, to join with (KIP-394)."
    ADMITTED = "JoinGroup is answered: there is a new generation, with it."
    FAILED = "JoinGroup or SyncGroup failed in a way that may pass."
    ASSIGNED = "SyncGroup is answered: its partitions are known."
    SETTLED = "Its owner has let go and taken on what the division says."
    EXPELLED = "The coordinator counts it as a member no more, or it has left for its owner's silence."
    ENDED = "It is fenced, or refused for good."
    LEFT = "Its owner unsubscribes or closes."


TABLE: Final[Mapping[Step, Mapping[type[Place], type[Place]]]] = {
    Step.SUBSCRIBED: {Outside: Waiting, Ended: Waiting},
    Step.REBALANCING: {Stable: Waiting},
    Step.POLLED: {Waiting: LettingGo},
    Step.AGAIN: {Waiting: Joining},
    Step.LET_GO: {LettingGo: Joining},
    Step.NAMED: {Joining: Joining},
    Step.ADMITTED: {Joining: Syncing},
    Step.FAILED: {Joining: Waiting, Syncing: Waiting},
    Step.ASSIGNED: {Syncing: Settling},
    Step.SETTLED: {Settling: Stable},
    Step.EXPELLED: dict.fromkeys((Waiting, LettingGo, Joining, Syncing, Settling, Stable), Waiting),
    Step.ENDED: dict.fromkeys((Waiting, LettingGo, Joining, Syncing, Settling, Stable), Ended),
    Step.LEFT: dict.fromkeys(
        (Outside, Waiting, LettingGo, Joining, Syncing, Settling, Stable, Ended), Outside
    ),
}


def follow(place: Place, step: Step, **told: object) -> Place:
    """The place that ``step`` leads to; it knows what the step tells, and nothing of the place before."""
    return made_anew(TABLE, place, step, **told)
