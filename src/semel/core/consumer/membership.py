"""One consumer's membership in a group, in the classic protocol (KIP-62, KIP-345, KIP-394, KIP-429): decisions only.

What happens is handed to :meth:`Membership.handle`, which says what is to be sent. What the owner has to do itself, in
its own time, stands in :attr:`Membership.handover` until it says that it has: a member lets go of partitions, and takes
them on, only while its owner polls, so that nobody else is given what it still works on.

Invariants, each held by a test of its name:

- ``let_go_first``: no JoinGroup leaves before what it would give to others is let go of: with an eager strategy
  everything, with a cooperative one what is subscribed to no more.
- ``lost_is_told``: who is expelled, fenced or silent for too long is told at its next poll that what it had is lost,
  before it joins again.
- ``one_at_a_time``: there is one JoinGroup or SyncGroup under way, and one heartbeat; an answer to an earlier one is
  nobody's.
- ``beats_while_member``: while it is a member, but not while it joins, a heartbeat is sent every interval (a join keeps
  the session by itself, ``AbstractCoordinator.HeartbeatThread``).

Kafka's counterparts: ``AbstractCoordinator``, ``ConsumerCoordinator``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from semel.core.consumer.events import (
    Beat,
    Beaten,
    CommitRefused,
    Divided,
    Effects,
    Event,
    HandedOver,
    Handover,
    Join,
    Joined,
    Leave,
    Polled,
    Refused,
    Subscribed,
    Sync,
    Synced,
    TopicsSeen,
    Unsubscribed,
)
from semel.core.consumer.places import (
    Ended,
    Joining,
    LettingGo,
    Outside,
    Place,
    Settling,
    Stable,
    Step,
    Syncing,
    Waiting,
    follow,
)
from semel.core.consumer.subscription import NO_GENERATION
from semel.errors import ErrorCode
from semel.types import TopicPartition

# The coordinator is another one, or not ready: the same request may succeed soon.
_MAY_PASS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """Kafka's, with its defaults. Times in milliseconds."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    group_instance_id: str | None = None
    is_cooperative: bool = True


class Membership:
    """The state machine of one member; ``owned`` is what its owner reads, as far as it has said so."""

    def __init__(self, settings: MembershipSettings) -> None:
        self._settings = settings
        self.place: Place = Outside()
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.owned: frozenset[TopicPartition] = frozenset()
        self._owned_in = NO_GENERATION
        self._topics: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] = frozenset()
        self._divided: Mapping[str, int] | None = None  # the counts that its division as leader stands on
        self._attempt = 0
        self._must_rejoin = False
        self._reason = ""
        self._polled_ms: int | None = None
        self._beat_due_ms = 0
        self._beating: int | None = None  # the generation of the heartbeat that is under way

    # -- what the shell looks at ------------------------------------------------------------------------

    @property
    def handover(self) -> Handover | None:
        """What the owner is to do now, as it polls; the machine goes on when it hears :class:`HandedOver`."""
        if isinstance(self.place, Ended):
            return Handover(lost=self.owned) if self.owned else None
        if isinstance(self.place, LettingGo):
            if self.generation_id == NO_GENERATION:
                return Handover(lost=self.owned)
            if not self._settings.is_cooperative:
                return Handover(revoked=self.owned)
            return Handover(revoked=frozenset(tp for tp in self.owned if tp.topic not in self._topics))
        if isinstance(self.place, Settling):
            assigned = self.place.assigned
            return Handover(revoked=self.owned - assigned, added=assigned - self.owned)
        return None

    @property
    def divided_topics(self) -> Collection[str]:
        """Of all members, if this one divided them: it has to look how many partitions they have."""
        return (self._divided or {}).keys()

    @property
    def is_rebalancing(self) -> bool:
        """Whether its partitions are being divided anew, so that the owner should poll soon."""
        return not isinstance(self.place, Stable | Outside | Ended)

    def next_deadline_ms(self) -> int | None:
        """When a :class:`Tick` has something to do."""
        deadlines = []
        if self._beats:
            if self._beating is None:
                deadlines.append(self._beat_due_ms)
            if self._polled_ms is not None:
                deadlines.append(self._polled_ms + self._settings.max_poll_interval_ms)
        if isinstance(self.place, Waiting) and self.place.has_let_go:
            deadlines.append(self.place.not_before_ms)
        return min(deadlines, default=None)

    # -- what happens -----------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> Effects:
        effects = Effects()
        match event:
            case Polled():
                self._polled_ms = now_ms
                self._go_on(effects)
            case Subscribed(topics):
                self._subscribe(topics, now_ms)
            case Unsubscribed(reason):
                self._leave(effects, reason)
                self._topics, self.owned = frozenset(), frozenset()
                self.place = follow(self.place, Step.LEFT)
            case HandedOver(handover):
                self._handed_over(handover, effects, now_ms)
            case Joined() if self._is_answer_to(event.attempt, Joining):
                self._admit(event, effects, now_ms)
            case Divided() if self._is_answer_to(event.attempt, Syncing):
                self._divided = dict(event.partition_counts)
            case Synced() if self._is_answer_to(event.attempt, Syncing):
                self.place = follow(self.place, Step.ASSIGNED, assigned=event.assigned)
            case Refused() if self._is_answer_to(event.attempt, Joining, Syncing):
                self._refuse(event, effects, now_ms)
            case Beaten():
                self._beaten(event, now_ms)
            case CommitRefused(generation_id, code) if self._is_of_now(generation_id):
                self._hear(code, now_ms, "a commit was refused")
            case TopicsSeen(counts):
                self._look_at(counts, now_ms)
            case _:
                pass  # time passed, or an answer that nobody waits for any more
        self._keep_time(effects, now_ms)
        return effects

    def _subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        self._topics = topics
        if isinstance(self.place, Outside | Ended):
            self.place = follow(self.place, Step.SUBSCRIBED, not_before_ms=now_ms)
        elif isinstance(self.place, Stable) and topics != self._joined_topics:
            self._rebalance(now_ms, "the subscription changed")

    def _go_on(self, effects: Effects) -> None:
        """The owner polls: begin a join that is due, unless it is told to wait after a failure."""
        if isinstance(self.place, Waiting) and not self.place.has_let_go:
            self.place = follow(self.place, Step.POLLED)
            if self.handover == Handover():
                self._join(effects)

    def _handed_over(self, handover: Handover, effects: Effects, now_ms: int) -> None:
        """What the owner did it did, also if the member was expelled meanwhile: then it is asked anew."""
        self.owned = self.owned - handover.revoked - handover.lost | handover.added
        if isinstance(self.place, LettingGo):
            self._join(effects)
        elif isinstance(self.place, Settling):
            self._settle(handover, now_ms)

    def _settle(self, handover: Handover, now_ms: int) -> None:
        self.place = follow(self.place, Step.SETTLED)
        self._owned_in = self.generation_id
        if self._settings.is_cooperative and handover.revoked:
            self._rebalance(now_ms, "partitions were let go of for others")
        elif self._must_rejoin or self._topics != self._joined_topics:
            self._rebalance(now_ms, self._reason or "the subscription changed")

    def _join(self, effects: Effects) -> None:
        self._attempt += 1
        self._must_rejoin = False
        self._joined_topics = self._topics
        self._divided = None
        steps = {Joining: Step.NAMED, Waiting: Step.AGAIN, LettingGo: Step.LET_GO}
        self.place = follow(self.place, steps[type(self.place)], attempt=self._attempt)
        effects.join = Join(
            self._attempt, self.member_id, self._topics, self.owned, self._owned_in, self._reason
        )

    def _admit(self, event: Joined, effects: Effects, now_ms: int) -> None:
        answer = event.answer
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        self._beat_due_ms = now_ms + self._settings.heartbeat_interval_ms
        self._reason = ""
        self.place = follow(self.place, Step.ADMITTED, attempt=event.attempt)
        effects.sync = Sync(event.attempt, answer)

    def _refuse(self, event: Refused, effects: Effects, now_ms: int) -> None:
        code = event.code
        if code is ErrorCode.MEMBER_ID_REQUIRED and isinstance(self.place, Joining):
            self.member_id = event.member_id
            self._join(effects)
        elif code is None or code in _MAY_PASS or code.retriable:
            is_overtaken = code is ErrorCode.REBALANCE_IN_PROGRESS and isinstance(self.place, Syncing)
            pause_ms = 0 if is_overtaken else self._settings.retry_backoff_ms
            self.place = follow(self.place, Step.FAILED, not_before_ms=now_ms + pause_ms, has_let_go=True)
        elif not self._expelled_by(code, now_ms, event.why):
            self.place = follow(self.place, Step.ENDED, code=code, why=event.why)

    def _beaten(self, event: Beaten, now_ms: int) -> None:
        if event.generation_id != self._beating:
            return
        self._beating = None
        if not self._is_of_now(event.generation_id):
            return
        code = event.code
        if code is None or (code in _MAY_PASS and code is not ErrorCode.REBALANCE_IN_PROGRESS):
            self._beat_due_ms = now_ms + self._settings.retry_backoff_ms
        elif code is not ErrorCode.NONE:
            self._hear(code, now_ms, "the group divides its partitions anew")

    def _hear(self, code: ErrorCode, now_ms: int, why: str) -> None:
        """A refusal that says how the member stands."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rebalance(now_ms, why)
        else:
            self._expelled_by(code, now_ms, why)

    def _rebalance(self, now_ms: int, why: str) -> None:
        """Join again; while a join is under way its own answer says whether that is still needed."""
        self._reason = why
        if isinstance(self.place, Stable):
            self.place = follow(self.place, Step.REBALANCING, not_before_ms=now_ms)
        elif isinstance(self.place, Settling):
            self._must_rejoin = True

    def _expelled_by(self, code: ErrorCode, now_ms: int, why: str) -> bool:
        """Whether ``code`` means that it is a member no more; a fence is the end."""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget()
            self.place = follow(self.place, Step.ENDED, code=code, why=why)
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._expel(now_ms, keeps_id=False)
        elif code is ErrorCode.ILLEGAL_GENERATION:
            self._expel(now_ms, keeps_id=True)
        else:
            return False
        return True

    def _expel(self, now_ms: int, *, keeps_id: bool) -> None:
        member_id = self.member_id
        self._forget()
        self.member_id = member_id if keeps_id else ""
        self._reason = "the membership was lost"
        self.place = follow(self.place, Step.EXPELLED, not_before_ms=now_ms)

    def _forget(self) -> None:
        self.member_id, self.generation_id, self._divided = "", NO_GENERATION, None
        self._must_rejoin = False

    def _leave(self, effects: Effects, reason: str) -> None:
        """A static member does not say that it goes: it may be back before its session is over (KIP-345)."""
        if self.member_id and self._settings.group_instance_id is None:
            effects.leave = Leave(self.member_id, reason)
        self._forget()

    def _look_at(self, counts: Mapping[str, int], now_ms: int) -> None:
        """As leader it answers for topics that grow, come and go; others hear of it by a rebalance."""
        if self._divided is None:
            return
        if any(counts.get(topic, 0) != count for topic, count in self._divided.items()):
            self._rebalance(now_ms, "topics of the group have other partitions")

    # -- time -------------------------------------------------------------------------------------------

    @property
    def _beats(self) -> bool:
        """Whether heartbeats are due: not while it joins, nor between two attempts, which hold the session."""
        if self.generation_id == NO_GENERATION:
            return False
        place = self.place
        if isinstance(place, Waiting):
            return not place.has_let_go
        return isinstance(place, LettingGo | Syncing | Settling | Stable)

    def _keep_time(self, effects: Effects, now_ms: int) -> None:
        place = self.place
        if isinstance(place, Waiting) and place.has_let_go and now_ms >= place.not_before_ms:
            self._join(effects)  # nothing is left that only the owner could do
        if not self._beats:
            return
        if self._polled_ms is not None and now_ms >= self._polled_ms + self._settings.max_poll_interval_ms:
            self._leave(effects, "its owner did not poll for max_poll_interval_ms")
            self._reason = "the membership was given up"
            self.place = follow(self.place, Step.EXPELLED, not_before_ms=now_ms)
        elif self._beating is None and now_ms >= self._beat_due_ms:
            self._beating = self.generation_id
            self._beat_due_ms = now_ms + self._settings.heartbeat_interval_ms
            effects.beat = Beat(self.member_id, self.generation_id)

    def _is_of_now(self, generation_id: int) -> bool:
        is_over = isinstance(self.place, Ended)  # what is heard of it comes too late
        return not is_over and generation_id == self.generation_id != NO_GENERATION

    def _is_answer_to(self, attempt: int, *places: type[Joining] | type[Syncing]) -> bool:
        return isinstance(self.place, places) and self.place.attempt == attempt
