"""The strategies by which a group's leader divides partitions among the members; pure functions, by Kafka's names.

Invariants of each: every partition of a topic that somebody subscribes to goes to exactly one of its subscribers
(but for those that :func:`~semel.core.consumer.sticky.cooperative_sticky` holds back until they are let go), and
nobody gets a partition of a topic that he did not subscribe to. ``range`` and ``roundrobin`` give what Kafka's own
give, member for member, so that it does not matter who leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from semel.core.consumer.sticky import cooperative_sticky, sticky
from semel.core.consumer.subscription import (
    Assignments,
    PartitionCounts,
    Subscription,
    in_order,
    partitions_of,
)
from semel.types import TopicPartition

Assign = Callable[[PartitionCounts, Sequence[Subscription]], Assignments]


def by_range(counts: PartitionCounts, members: Sequence[Subscription]) -> Assignments:
    """Of each topic consecutive partitions, the first members one more (Kafka's ``RangeAssignor``, without racks)."""
    assigned: Assignments = {member.member_id: [] for member in members}
    for topic in sorted({topic for member in members for topic in member.topics}):
        takers = in_order(member for member in members if topic in member.topics)
        share, more = divmod(counts.get(topic, 0), len(takers))
        first = 0
        for place, member in enumerate(takers):
            count = share + (place < more)
            assigned[member.member_id] += [
                TopicPartition(topic, number) for number in range(first, first + count)
            ]
            first += count
    return assigned


def round_robin(counts: PartitionCounts, members: Sequence[Subscription]) -> Assignments:
    """All partitions in turn, passing over who did not subscribe (Kafka's ``RoundRobinAssignor``)."""
    assigned: Assignments = {member.member_id: [] for member in members}
    takers = cycle(in_order(members))
    topics = {topic for member in members for topic in member.topics}
    for tp in partitions_of(counts, topics):
        member = next(taker for taker in takers if tp.topic in taker.topics)
        assigned[member.member_id].append(tp)
    return assigned


@dataclass(frozen=True, slots=True)
class Strategy:
    """``is_cooperative``: members keep what they read while they join, but for what goes elsewhere (KIP-429)."""

    name: str
    assign: Assign
    is_cooperative: bool = False


STRATEGIES: Final[dict[str, Strategy]] = {
    strategy.name: strategy
    for strategy in (
        Strategy("cooperative-sticky", cooperative_sticky, is_cooperative=True),
        Strategy("range", by_range),
        Strategy("roundrobin", round_robin),
        Strategy("sticky", sticky),
    )
}


def are_cooperative(names: Iterable[str]) -> bool:
    """Whether a member that offers these may keep what it reads while it joins.

    Only if each may be chosen so: one that is not may be chosen, too, and then others get what this one reads
    (Kafka's ``ConsumerPartitionAssignor.RebalanceProtocol``).
    """
    return all(STRATEGIES[name].is_cooperative for name in names)
