"""What a member of a group tells of itself when it joins, and what its leader is asked to divide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from semel.types import TopicPartition

NO_GENERATION: Final = -1

PartitionCounts = Mapping[str, int]  # of the topics that there are; a topic that is not has no partition
Assignments = dict[str, list[TopicPartition]]  # by member id; each member that takes part has an entry


@dataclass(frozen=True, slots=True)
class Subscription:
    """One member's, as it joins.

    ``owned`` are the partitions that it reads, or read last (``generation_id``: when they were given to it); a member
    whose strategy is eager has let go of them by then, and they only say what it would like to have.
    """

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None


def in_order(members: Iterable[Subscription]) -> list[Subscription]:
    """Static members first, by their own names, then the others by their ids (Kafka's ``MemberInfo.compareTo``).

    So a static member gets the same partitions when it comes back under another member id.
    """

    def place(member: Subscription) -> tuple[bool, str]:
        name = member.group_instance_id
        return (name is None, member.member_id if name is None else name)

    return sorted(members, key=place)


def partitions_of(counts: PartitionCounts, topics: Iterable[str]) -> Iterator[TopicPartition]:
    """The partitions of ``topics`` in their order, as far as there are any."""
    for topic in sorted(topics):
        for number in range(counts.get(topic, 0)):
            yield TopicPartition(topic, number)
