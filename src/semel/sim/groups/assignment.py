"""What members say that they read, what their leader makes of it, and what a commit says of who sent it.

The heads are those of Kafka's consumer protocol, which the coordinator looks into; behind them is JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from semel.sim.groups.story import Strategy
from semel.types import TopicPartition

_HEAD = struct.Struct(">hi")  # version, how many topics
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_SEPARATOR = "|"


def encode_subscription(topics: Sequence[str], owned: Sequence[TopicPartition]) -> bytes:
    """``owned``: what the member does not let go of by joining (none of an eager one)."""
    names = b"".join(_INT16.pack(len(topic)) + topic.encode() for topic in topics)
    data = json.dumps(sorted(owned)).encode()
    return _HEAD.pack(1, len(topics)) + names + _INT32.pack(len(data)) + data


def decode_owned(subscription: bytes) -> list[TopicPartition]:
    """What the member says that it owns."""
    _, count = _HEAD.unpack_from(subscription)
    position = _HEAD.size
    for _ in range(count):
        position += _INT16.size + _INT16.unpack_from(subscription, position)[0]
    return [TopicPartition(*each) for each in json.loads(subscription[position + _INT32.size :])]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One member's part, and in which generation it was made."""

    generation_id: int
    partitions: tuple[TopicPartition, ...]

    def encode(self) -> bytes:
        return json.dumps([self.generation_id, self.partitions]).encode()


def decode_assignment(data: bytes) -> Assignment | None:
    """``None``: the leader has not named this member."""
    if not data:
        return None
    generation_id, partitions = json.loads(data)
    return Assignment(generation_id, tuple(TopicPartition(*each) for each in partitions))


def assign(
    strategy: Strategy,
    subscriptions: Mapping[str, bytes],
    partition_counts: Mapping[str, int],
    random: Random,
) -> dict[str, list[TopicPartition]]:
    """Everybody's part, by member id; each partition is in one of them, or (to be let go of first) in none."""
    tps = [
        TopicPartition(topic, n) for topic, count in sorted(partition_counts.items()) for n in range(count)
    ]
    members = sorted(subscriptions)
    if strategy is Strategy.ARBITRARY:
        random.shuffle(members)
        random.shuffle(tps)
    parts: dict[str, list[TopicPartition]] = {member: [] for member in members}
    if strategy is not Strategy.COOPERATIVE:
        for number, tp in enumerate(tps):
            parts[members[number % len(members)]].append(tp)
        return parts
    claimed: dict[TopicPartition, str] = {}
    for member in members:
        for tp in decode_owned(subscriptions[member]):
            claimed.setdefault(tp, member)
    share = -(-len(tps) // len(members))
    for tp in tps:
        if tp in claimed and len(parts[claimed[tp]]) < share:
            parts[claimed[tp]].append(tp)
    given = {tp for part in parts.values() for tp in part}
    for tp in tps:
        if tp not in given and tp not in claimed:
            parts[min(members, key=lambda member: len(parts[member]))].append(tp)
    return parts


class CommitNote(NamedTuple):
    """The text beside a committed offset: which commit it is, and of whom. No two commits have the same."""

    name: str
    number: int
    generation_id: int
    member_id: str

    def encode(self) -> str:
        return _SEPARATOR.join(map(str, self))


def decode_note(text: str) -> CommitNote | None:
    """``None``: of somebody who writes none."""
    parts = text.split(_SEPARATOR)
    if len(parts) != len(CommitNote._fields):
        return None
    name, number, generation_id, member_id = parts
    return CommitNote(name, int(number), int(generation_id), member_id)
