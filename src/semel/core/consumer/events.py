"""What happens to a member of a group, and what it wants done: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semel.core.consumer.subscription import Subscription
from semel.errors import ErrorCode
from semel.types import TopicPartition

# -- in -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The owner asks for rows: it lives, and can be told what to let go of."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The topics to read from now on; by a pattern there may be none yet."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The owner wants to be no member any more, and has let go of everything."""

    reason: str


@dataclass(frozen=True, slots=True)
class Handover:
    """What the owner is to do, in this order: commit what it has read of ``revoked``, and let go of it; let go of
    ``lost``, of which somebody else may have read on already; take ``added`` on."""

    revoked: frozenset[TopicPartition] = frozenset()
    lost: frozenset[TopicPartition] = frozenset()
    added: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The owner has done what ``Membership.handover`` asked for."""

    handover: Handover


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """A member of generation ``generation_id``. ``members`` are those of the group, told to its leader alone.

    ``skips_division``: a leader that is static and came back need not divide anew, only watch (KIP-814).
    """

    generation_id: int
    member_id: str
    strategy: str
    is_leader: bool
    members: tuple[Subscription, ...] = ()
    skips_division: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """JoinGroup was answered."""

    attempt: int
    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Divided:
    """As leader it divides partitions of topics that have so many of them: another count asks for another division."""

    attempt: int
    partition_counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Synced:
    """SyncGroup was answered with the member's part."""

    attempt: int
    assigned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Refused:
    """JoinGroup or SyncGroup was refused, or (``code`` None) not answered. ``member_id``: to join with."""

    attempt: int
    code: ErrorCode | None
    why: str
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Beaten:
    """A heartbeat of that generation was answered, or (None) was not."""

    generation_id: int
    code: ErrorCode | None


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """A commit of that generation was refused."""

    generation_id: int
    code: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """How many partitions the newest metadata gives each topic that there is."""

    partition_counts: Mapping[str, int]


Event = (
    Tick
    | Polled
    | Subscribed
    | Unsubscribed
    | HandedOver
    | Joined
    | Divided
    | Synced
    | Refused
    | Beaten
    | CommitRefused
    | TopicsSeen
)

# -- out ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    """Send JoinGroup; it is answered by :class:`Joined` or :class:`Refused`."""

    attempt: int
    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    generation_id: int  # in which the owned ones were given to it
    reason: str


@dataclass(frozen=True, slots=True)
class Sync:
    """As leader divide (:class:`Divided`); send SyncGroup, answered by :class:`Synced` or :class:`Refused`."""

    attempt: int
    answer: JoinAnswer


@dataclass(frozen=True, slots=True)
class Beat:
    """Send Heartbeat; it is answered by :class:`Beaten`."""

    member_id: str
    generation_id: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Send LeaveGroup; whether it is answered makes no difference: the session ends by itself."""

    member_id: str
    reason: str


@dataclass(slots=True)
class Effects:
    """What the shell is to send, in this order."""

    leave: Leave | None = None
    join: Join | None = None
    sync: Sync | None = None
    beat: Beat | None = None
