"""The states of a group, and which may follow which (Kafka's ``ClassicGroupState``).

A group that is not there is told as *Dead*; none is ever in that state here, as nothing comes between a group's end and
the requests behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

DEAD: Final = "Dead"


class GroupState(Enum):
    """``value`` is what clients are told."""

    EMPTY = "Empty"  # no member
    PREPARING_REBALANCE = "PreparingRebalance"  # members are to join (again)
    COMPLETING_REBALANCE = "CompletingRebalance"  # they have; the leader's assignment is awaited
    STABLE = "Stable"  # it was given to all


VALID_PREVIOUS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
}
