"""What is asked of a group's coordinator, and what it answers: values.

A ``ticket`` is the number of a request that may have to wait; its answer comes with an effect that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from semel.core.decision import StateRecord
from semel.core.group.group import Protocol
from semel.core.group.records import NEVER
from semel.errors import ErrorCode
from semel.types import TopicPartition

NO_GENERATION: Final = -1
NOBODY: Final = ""  # the member id of who has none yet


@dataclass(frozen=True, slots=True)
class Join:
    """JoinGroup. ``fresh_member_id`` is the id of a member that has none, should it become one."""

    ticket: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[Protocol]
    fresh_member_id: str
    needs_known_id: bool  # its member comes once more with the id that it is given (KIP-394)
    can_skip_assignment: bool  # its leader is told when no assignment is wanted of it (KIP-814)


@dataclass(frozen=True, slots=True)
class Sync:
    """SyncGroup. Of a leader with everybody's ``assignments``, by member id."""

    ticket: int
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None  # None: of a client that does not say
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None


class Leaving(NamedTuple):
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class Leave:
    """LeaveGroup. A static member may be named by its instance id alone."""

    group_id: str
    members: Sequence[Leaving]


class OffsetToCommit(NamedTuple):
    partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """OffsetCommit. ``retention_ms``: forget it so long after the commit, as clients before 2.1 could ask for."""

    group_id: str
    offsets: Sequence[OffsetToCommit]
    generation_id: int = NO_GENERATION
    member_id: str = NOBODY
    instance_id: str | None = None
    retention_ms: int = NEVER
    is_transactional: bool = False  # TxnOffsetCommit: they count once the transaction is committed


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """OffsetDelete."""

    group_id: str
    partitions: Sequence[TopicPartition]


class JoinedMember(NamedTuple):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    error_code: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NOBODY
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


Answer: TypeAlias = JoinAnswer | SyncAnswer
Codes: TypeAlias = dict[TopicPartition, ErrorCode]


class Effects(NamedTuple):
    """Write the records; give the answers once they, and all before them, are durable."""

    records: Sequence[StateRecord] = ()
    answers: Sequence[tuple[int, Answer]] = ()
