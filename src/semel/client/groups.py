"""What the client answers about consumer groups: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from semel.types import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One line of the list. ``state`` is Kafka's word: Empty, Stable, PreparingRebalance, CompletingRebalance, Dead.

    ``state`` and ``kind`` (classic, consumer, share …) are "" where the brokers are too old to say.
    """

    group: str
    state: str
    protocol_type: str  # "consumer"; "" of a group that only commits
    kind: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member as its coordinator knows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]
    topics: tuple[str, ...] = ()  # that it subscribes to; () while the group divides its partitions anew


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and who is in it; ``strategy`` is how its partitions were divided."""

    group: str
    state: str
    protocol_type: str
    strategy: str
    coordinator: int  # node id
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group has come in one partition. ``lag`` counts offsets up to ``end_offset``, never below 0.

    ``committed_offset`` is None where nothing was committed: the lag is then not known (None). ``end_offset`` is the
    last stable offset, where a consumer of committed rows comes to its end.
    """

    tp: TopicPartition
    committed_offset: int | None
    start_offset: int
    end_offset: int
    lag: int | None
    metadata: str | None = None
    member: GroupMember | None = None  # who reads it now


class Membership(NamedTuple):
    """As whom a request speaks: a member of a generation; the default is a group that only commits."""

    member_id: str = ""
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None


class Offset(NamedTuple):
    """What is committed of a partition: the next offset to be read, and what its committer wrote beside it.

    ``leader_epoch`` is that of the row in front of it, or a later one, under which the log had that row too; -1 where
    none is known (KIP-320).
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1


Offsets = Mapping[TopicPartition, int | tuple[int, str | None] | Offset]
