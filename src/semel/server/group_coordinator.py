"""The coordinator of consumer groups: its core beside its log, who waits for it, and when it is to be called again.

Invariants
- An answer goes out once all that was decided before it is durable.
- Each request that waits ends exactly once: with the core's answer, or, as the server stops, with none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, NamedTuple
from uuid import UUID

from semel.core.decision import Decision
from semel.core.group.groups import Groups
from semel.core.group.records import GroupKey, decode_key
from semel.core.group.requests import (
    Answer,
    Codes,
    CommitOffsets,
    DeleteOffsets,
    Effects,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Sync,
    SyncAnswer,
)
from semel.errors import ErrorCode
from semel.server.coordinator import NOT_STORED, Coordinator
from semel.server.operation import Happened, Synced
from semel.server.storage.partition import Partition
from semel.server.storage.state_log import StateLog, Submitted
from semel.types import ProducerGrant, TopicPartition

_WAIT_MAX_MS: Final = 2**31 - 1  # the core's own deadline comes before


class _Answered(NamedTuple):
    answer: Answer
    sync_offset: int


@dataclass(slots=True)
class _Commit:
    """One that is to be written; ``submitted`` once it is, or the log has refused it."""

    request: CommitOffsets
    time_of_day_ms: int
    submitted: Submitted[Codes] | None = None


class _Ticket(NamedTuple):
    """What a request that waits is woken by."""

    number: int


class GroupCoordinator(Coordinator):
    """One server's."""

    def __init__(
        self,
        groups: Groups,
        log: StateLog,
        monotonic_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
        storage_failed: Callable[[Partition, str | None], None],
        is_there: Callable[[TopicPartition], bool] = lambda partition: True,
    ) -> None:
        """``is_there``: whether a partition that offsets are committed of still is."""
        super().__init__(log, monotonic_ms, storage_failed)
        self.groups: Final = groups
        self._new_uuid = new_uuid
        self._is_there = is_there
        self._tickets = count()
        self._waiting: dict[int, _Answered | None] = {}
        self._commits: list[_Commit] = []
        self._soon: Callable[[Callable[[], None]], object] = lambda work: work()

    def write_in(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """``soon`` does a piece of work in the loop's next turn."""
        self._soon = soon

    def member_id_for(self, name: str) -> str:
        """A fresh one (Kafka's ``generateMemberId``)."""
        return f"{name}-{self._new_uuid()}"

    # -- members

    async def join(self, make: Callable[[int], Join], time_of_day_ms: int) -> JoinAnswer:
        request = make(next(self._tickets))
        self._waiting[request.ticket] = None
        membership = self.groups.membership
        self._carry_out(membership.join(request, self._monotonic_ms(), time_of_day_ms), time_of_day_ms)
        answer = await self._answer_to(request.ticket)
        return answer if isinstance(answer, JoinAnswer) else JoinAnswer(NOT_STORED, request.member_id)

    async def sync(self, make: Callable[[int], Sync], time_of_day_ms: int) -> SyncAnswer:
        request = make(next(self._tickets))
        self._waiting[request.ticket] = None
        membership = self.groups.membership
        self._carry_out(membership.sync(request, self._monotonic_ms(), time_of_day_ms), time_of_day_ms)
        answer = await self._answer_to(request.ticket)
        return answer if isinstance(answer, SyncAnswer) else SyncAnswer(NOT_STORED)

    def heartbeat(self, request: Heartbeat) -> ErrorCode:
        return self.groups.membership.heartbeat(request, self._monotonic_ms())

    async def leave(self, request: Leave, time_of_day_ms: int) -> ErrorCode | list[ErrorCode] | None:
        """The code for each of the members that are named, or one for all; as for all below, None where the log has
        not taken what it rests on.
        """
        codes, effects = self.groups.membership.leave(request, self._monotonic_ms(), time_of_day_ms)
        self._carry_out(effects, time_of_day_ms)
        return await self._durably(self.log.submit(Decision((), codes), time_of_day_ms))

    # -- offsets

    async def commit(self, request: CommitOffsets, time_of_day_ms: int) -> Codes | None:
        """The code for each partition that is still there.

        Commits of one turn of the loop come into the log together: each alone would cost several times as much.
        """
        commit = _Commit(request, time_of_day_ms)
        self._commits.append(commit)
        if len(self._commits) == 1:
            self._soon(self._write_commits)
        while commit.submitted is None:
            await Synced((self.log.partition,))
        return await self._durably(commit.submitted)

    def _write_commits(self) -> None:
        commits, self._commits = self._commits, []
        now_ms = self._monotonic_ms()
        decisions = [
            self.groups.commit(self._of_what_is_there(each.request), now_ms, each.time_of_day_ms)
            for each in commits
        ]
        records = tuple(record for decision in decisions for record in decision.records)
        submitted = self.log.submit(Decision(records, None), commits[0].time_of_day_ms)
        for commit, decision in zip(commits, decisions, strict=True):
            commit.submitted = Submitted(decision.response, submitted.sync_offset, submitted.error_message)
        self._tell_deadline()

    def _of_what_is_there(self, request: CommitOffsets) -> CommitOffsets:
        """A topic may have gone, with all its offsets, since the request came."""
        left = [each for each in request.offsets if self._is_there(each.partition)]
        return request if len(left) == len(request.offsets) else replace(request, offsets=left)

    async def commit_in_transaction(
        self, request: CommitOffsets, grant: ProducerGrant, time_of_day_ms: int
    ) -> Codes | None:
        """The same in the producer's transaction, which its coordinator knows of."""
        decision = self.groups.commit(request, self._monotonic_ms(), time_of_day_ms)
        submitted = self.log.submit_pending(decision, grant, time_of_day_ms)
        self._tell_deadline()
        return await self._durably(submitted)

    async def delete_offsets(self, request: DeleteOffsets, time_of_day_ms: int) -> ErrorCode | Codes | None:
        return await self._durably(self.log.submit(self.groups.delete_offsets(request), time_of_day_ms))

    async def delete_group(self, group_id: str, time_of_day_ms: int) -> ErrorCode | None:
        return await self._durably(self.log.submit(self.groups.delete_group(group_id), time_of_day_ms))

    # -- within

    async def _answer_to(self, ticket: int) -> Answer | None:
        while self._waiting[ticket] is None:
            if not await Happened((_Ticket(ticket),), _WAIT_MAX_MS):
                break  # the server stops
        answered = self._waiting.pop(ticket)
        if answered is None:
            return None
        return await self._durably(Submitted(answered.answer, answered.sync_offset, None))

    def _do_due(self, time_of_day_ms: int) -> None:
        self._carry_out(self.groups.membership.tick(self._monotonic_ms(), time_of_day_ms), time_of_day_ms)

    def _next_due_ms(self, now_ms: int) -> int | None:
        return self.groups.membership.next_deadline_ms()

    def _carry_out(self, effects: Effects, time_of_day_ms: int) -> None:
        """Write, then answer. What the log refuses is answered so, and its groups go back to joining."""
        submitted = self.log.submit(Decision(tuple(effects.records), None), time_of_day_ms)
        answers = list(effects.answers)
        if submitted.error_message is not None:
            self._storage_failed(self.log.partition, submitted.error_message)
            answers = [(ticket, _not_stored(answer)) for ticket, answer in answers]
            keys = [decode_key(record.key) for record in effects.records]
            for group_id in {key.group_id for key in keys if isinstance(key, GroupKey)}:
                refused = self.groups.membership.was_not_stored(
                    group_id, self._monotonic_ms(), time_of_day_ms
                )
                answers += refused.answers
        sync_offset = 0 if submitted.error_message is not None else submitted.sync_offset
        woken = []
        for ticket, answer in answers:
            if ticket in self._waiting:
                self._waiting[ticket] = _Answered(answer, sync_offset)
                woken.append(_Ticket(ticket))
        self._wake(woken)
        self._tell_deadline()


def _not_stored(answer: Answer) -> Answer:
    if isinstance(answer, SyncAnswer):
        return SyncAnswer(NOT_STORED)
    return JoinAnswer(NOT_STORED, answer.member_id)
