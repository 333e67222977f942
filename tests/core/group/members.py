"""A group with members that a test moves by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from struct import pack

from semel.core.group.group import Protocol
from semel.core.group.groups import Groups
from semel.core.group.requests import (
    NOBODY,
    Answer,
    Effects,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Leaving,
    Sync,
    SyncAnswer,
)
from semel.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(topics: Sequence[str]) -> bytes:
    """As consumers send it: version 0, without user data."""
    named = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", 0, len(topics)) + named + pack(">i", -1)


class Members:
    """Of one group. Each join is of an old client's, which gets its member id with the answer, unless told."""

    def __init__(
        self,
        groups: Groups,
        group_id: str,
        *,
        topics: Sequence[str] = ("a",),
        protocol_type: str = "consumer",
    ) -> None:
        self.groups = groups
        self.group_id = group_id
        self.now_ms = self.time_of_day_ms = 1_000
        self.answers: dict[int, Answer] = {}
        self._protocol_type = protocol_type
        self._protocols = [Protocol("range", subscription(topics))]
        self._tickets = count()

    def begin_join(
        self,
        fresh_id: str,
        member_id: str = NOBODY,
        *,
        instance_id: str | None = None,
        protocols: Sequence[Protocol] | None = None,
        needs_known_id: bool = False,
        can_skip_assignment: bool = True,
        session_ms: int = SESSION_MS,
    ) -> int:
        """Ask; the ticket."""
        ticket = next(self._tickets)
        self._take(
            self.groups.membership.join(
                Join(
                    ticket,
                    self.group_id,
                    member_id,
                    instance_id,
                    "client",
                    "/host",
                    session_ms,
                    REBALANCE_MS,
                    self._protocol_type,
                    self._protocols if protocols is None else protocols,
                    fresh_id,
                    needs_known_id,
                    can_skip_assignment,
                ),
                self.now_ms,
                self.time_of_day_ms,
            )
        )
        return ticket

    def join(self, fresh_id: str, **how: object) -> JoinAnswer:
        """Ask, let the first rebalance's delay pass, and have the answer."""
        ticket = self.begin_join(fresh_id, **how)  # type: ignore[arg-type]
        self.pass_ms(0)
        return self.joined(ticket)

    def joined(self, ticket: int) -> JoinAnswer:
        answer = self.answers.pop(ticket)
        assert isinstance(answer, JoinAnswer)
        return answer

    def begin_sync(
        self,
        member_id: str,
        generation_id: int | None = None,
        assignments: dict[str, bytes] | None = None,
        instance_id: str | None = None,
    ) -> int:
        ticket = next(self._tickets)
        if generation_id is None:
            group = self.groups.membership.get(self.group_id)
            generation_id = group.generation_id if group is not None else 0
        sync = Sync(
            ticket,
            self.group_id,
            generation_id,
            member_id,
            instance_id,
            self._protocol_type,
            "range",
            assignments or {},
        )
        self._take(self.groups.membership.sync(sync, self.now_ms, self.time_of_day_ms))
        return ticket

    def synced(self, ticket: int) -> SyncAnswer:
        answer = self.answers.pop(ticket)
        assert isinstance(answer, SyncAnswer)
        return answer

    def assign(self, leader: str, **assignments: bytes) -> SyncAnswer:
        return self.synced(self.begin_sync(leader, assignments=assignments))

    def heartbeat(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        beat = Heartbeat(self.group_id, generation_id, member_id, instance_id)
        return self.groups.membership.heartbeat(beat, self.now_ms)

    def leave(self, *member_ids: str, instance_id: str | None = None) -> list[ErrorCode]:
        leave = Leave(self.group_id, [Leaving(each, instance_id) for each in member_ids])
        codes, effects = self.groups.membership.leave(leave, self.now_ms, self.time_of_day_ms)
        self._take(effects)
        return [codes] * len(member_ids) if isinstance(codes, ErrorCode) else codes

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and what is due happen when it is."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.groups.membership.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._take(self.groups.membership.tick(self.now_ms, self.time_of_day_ms))
        self.now_ms = end_ms

    def _take(self, effects: Effects) -> None:
        for record in effects.records:
            assert self.groups.apply(record)
        for ticket, answer in effects.answers:
            assert ticket not in self.answers, "answered twice"
            self.answers[ticket] = answer
