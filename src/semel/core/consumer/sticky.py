"""The strategies that leave partitions where they are as far as balance allows (KIP-54, KIP-429).

Invariants, each with a property test of its name:

- ``balanced``: no chain of moves, each to a member that subscribes to the partition's topic, could take one from a
  member to another one that has fewer by two or more. (A division without such a chain is the most even one that the
  subscriptions allow: Harvey et al., "Semi-matchings for bipartite graphs and load balancing".)
- ``sticky``: where everybody subscribes to the same, no member loses a partition that its share has room for.
- ``held_back``: a partition that somebody owns, and that is to go to somebody else, goes to nobody yet. Its owner
  sees that it has it no more, lets go of it and joins again; only then it is given (Kafka's
  ``CooperativeStickyAssignor.adjustAssignment``).

The balance is that of Kafka's ``AbstractStickyAssignor``; which of two equal members gets a partition may differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from semel.core.consumer.subscription import (
    Assignments,
    PartitionCounts,
    Subscription,
    in_order,
    partitions_of,
)
from semel.types import TopicPartition


def cooperative_sticky(counts: PartitionCounts, members: Sequence[Subscription]) -> Assignments:
    """As :func:`sticky`, without what somebody else still owns."""
    assigned = sticky(counts, members)
    owners: dict[TopicPartition, set[str]] = {}
    for member in members:
        for tp in member.owned:
            owners.setdefault(tp, set()).add(member.member_id)
    return {
        member_id: [tp for tp in tps if owners.get(tp, set()) <= {member_id}]
        for member_id, tps in assigned.items()
    }


def sticky(counts: PartitionCounts, members: Sequence[Subscription]) -> Assignments:
    """Everybody keeps what it owned, as far as an even division allows."""
    wanted = {topic for member in members for topic in member.topics if counts.get(topic, 0)}
    owners = _owners(counts, members)
    division = _Division(members, wanted, owners)
    division.place([tp for tp in partitions_of(counts, wanted) if tp not in owners])
    division.balance()
    return {member_id: sorted(tps) for member_id, tps in division.shares().items()}


def _owners(counts: PartitionCounts, members: Sequence[Subscription]) -> dict[TopicPartition, str]:
    """Who may keep what: the claim of the youngest generation counts; of two in one generation neither does."""
    claims: dict[TopicPartition, list[Subscription]] = {}
    for member in members:
        for tp in member.owned:
            if tp.topic in member.topics and 0 <= tp.partition < counts.get(tp.topic, 0):
                claims.setdefault(tp, []).append(member)
    owners = {}
    for tp, claimants in claims.items():
        youngest = max(member.generation_id for member in claimants)
        valid = [member for member in claimants if member.generation_id == youngest]
        if len(valid) == 1:
            owners[tp] = valid[0].member_id
    return owners


class _Division:
    """Who has what, by topic; it begins with what is owned."""

    def __init__(
        self, members: Sequence[Subscription], topics: set[str], owners: Mapping[TopicPartition, str]
    ) -> None:
        ordered = in_order(members)
        self._places = {member.member_id: place for place, member in enumerate(ordered)}
        self._takers = {
            topic: [member.member_id for member in ordered if topic in member.topics] for topic in topics
        }
        self._owners = owners
        self._held: dict[str, dict[str, set[TopicPartition]]] = {member.member_id: {} for member in ordered}
        self._loads = dict.fromkeys(self._held, 0)
        for tp, member_id in owners.items():
            self._put(tp, member_id)

    def shares(self) -> dict[str, list[TopicPartition]]:
        return {
            member_id: [tp for tps in by_topic.values() for tp in tps]
            for member_id, by_topic in self._held.items()
        }

    def place(self, free: Sequence[TopicPartition]) -> None:
        """Give what nobody owns, each to whoever has least; what few may have goes first."""
        groups: dict[tuple[str, ...], list[TopicPartition]] = {}
        for tp in free:
            groups.setdefault(tuple(self._takers[tp.topic]), []).append(tp)
        for takers, tps in sorted(groups.items(), key=lambda group: (len(group[0]), group[0])):
            least = [(self._loads[member_id], self._places[member_id], member_id) for member_id in takers]
            heapify(least)
            for tp in tps:
                load, place, member_id = heappop(least)
                self._put(tp, member_id)
                heappush(least, (load + 1, place, member_id))

    def balance(self) -> None:
        """Relieve members, those with most first, until no chain of moves could."""
        relieved = True
        while relieved:
            relieved = False
            for giver in sorted(
                self._loads, key=lambda member_id: (-self._loads[member_id], self._places[member_id])
            ):
                while (chain := self._chain(giver)) is not None:
                    self._move_along(chain)
                    relieved = True

    def _chain(self, giver: str) -> list[tuple[str, str, str]] | None:
        """The shortest way from ``giver`` to one with at least two fewer: (from, to, topic) for each move."""
        bound = self._loads[giver] - 2
        came: dict[str, tuple[str, str]] = {}
        seen = {giver}
        line = deque([giver])
        tried: set[str] = set()  # of a topic all takers are seen at its first visit
        while line:
            member_id = line.popleft()
            fits = []
            for topic in sorted(topic for topic, tps in self._held[member_id].items() if tps):
                if topic in tried:
                    continue
                tried.add(topic)
                for taker in self._takers[topic]:
                    if taker not in seen:
                        seen.add(taker)
                        came[taker] = (member_id, topic)
                        line.append(taker)
                        if self._loads[taker] <= bound:
                            fits.append(taker)
            if fits:
                return self._way(min(fits, key=lambda found: (self._loads[found], self._places[found])), came)
        return None

    def _way(self, end: str, came: Mapping[str, tuple[str, str]]) -> list[tuple[str, str, str]]:
        moves = []
        while end in came:
            giver, topic = came[end]
            moves.append((giver, end, topic))
            end = giver
        return moves

    def _move_along(self, chain: Sequence[tuple[str, str, str]]) -> None:
        for giver, taker, topic in chain:
            tps = self._held[giver][topic]
            # What is not the giver's own moves first, and best of all what goes home.
            tp = min(
                tps,
                key=lambda tp: (self._owners.get(tp) == giver, self._owners.get(tp) != taker, -tp.partition),
            )
            tps.remove(tp)
            self._loads[giver] -= 1
            self._put(tp, taker)

    def _put(self, tp: TopicPartition, member_id: str) -> None:
        self._held[member_id].setdefault(tp.topic, set()).add(tp)
        self._loads[member_id] += 1
