"""The coordinator over a real log, with a loop and a disk that a test moves by hand."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.core.group.members import REBALANCE_MS, SESSION_MS

from semel.core.group.group import Protocol
from semel.core.group.requests import (
    CommitOffsets,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Leaving,
    OffsetToCommit,
    Sync,
    SyncAnswer,
)
from semel.core.group.states import GroupState
from semel.errors import ErrorCode
from semel.server.group_coordinator import GroupCoordinator
from semel.server.operation import Happened, Synced
from semel.server.storage.filesystem import OsFileSystem
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import TopicPartition

A0 = TopicPartition("a", 0)


class Coordinated:
    """Requests as coroutines that wait until a test lets them go on."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.now_ms = 0
        self.due_in_ms: int | None = None
        self.failures: list[str | None] = []
        self.woken: list[Hashable] = []
        self.soon: list[Callable[[], None]] = []
        self.gone: set[TopicPartition] = set()
        self.coordinator = GroupCoordinator(
            storage.groups,
            storage.group_log,
            lambda: self.now_ms,
            lambda: UUID(int=7),
            lambda partition, reason: self.failures.append(reason),
            lambda partition: partition not in self.gone,
        )
        self.coordinator.when_happened(self._wake)
        self.coordinator.when_due(self._due)
        self.coordinator.write_in(self.soon.append)

    def _wake(self, keys: Iterable[Hashable]) -> None:
        self.woken += keys

    def _due(self, delay_ms: int) -> None:
        self.due_in_ms = delay_ms

    def join(self, fresh_id: str, member_id: str = "") -> Steps:
        def make(ticket: int) -> Join:
            return Join(
                ticket, "g", member_id, None, "c", "/h", SESSION_MS, REBALANCE_MS, "consumer",
                [Protocol("range", b"")], fresh_id, needs_known_id=False, can_skip_assignment=True,
            )  # fmt: skip

        return Steps(self.coordinator.join(make, 5))

    def sync(self, member_id: str, generation_id: int, **assignments: bytes) -> Steps:
        def make(ticket: int) -> Sync:
            return Sync(ticket, "g", generation_id, member_id, None, None, None, assignments)

        return Steps(self.coordinator.sync(make, 5))

    def commit(self, offset: int, **how: Any) -> Steps:
        request = CommitOffsets("g", [OffsetToCommit(A0, offset, -1, "")], **how)
        return Steps(self.coordinator.commit(request, 5))

    def begin_generation(self) -> JoinAnswer:
        steps = self.join("m")
        self.coordinator.tick(5)
        answer = steps.result(self.storage)
        assert isinstance(answer, JoinAnswer)
        return answer


class Steps:
    """One operation."""

    def __init__(self, steps: Any) -> None:
        self._steps = steps
        self.awaited: Any = None
        self._result: Any = None
        self.is_done = False
        self.go_on()

    def go_on(self) -> None:
        try:
            self.awaited = self._steps.send(None)
        except StopIteration as ended:
            self._result, self.is_done = ended.value, True

    def result(self, storage: Storage) -> Any:
        """Let it go on to its end, with every sync that it wants; its answer must be there."""
        while not self.is_done:
            if isinstance(self.awaited, Synced):
                storage.group_log.partition.sync()
            else:
                self.awaited.happened = True
            self.go_on()
        return self._result


class Disk(OsFileSystem):
    """One that can be full."""

    is_full = False

    def open(self, path: Path, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        write = file.pwritev

        def pwritev(buffers: Any, position: int) -> int:
            if self.is_full:
                raise OSError(errno.ENOSPC, "no space left")
            return write(buffers, position)

        class Guarded:
            def __getattr__(self, name: str) -> Any:
                return pwritev if name == "pwritev" else getattr(file, name)

        return Guarded()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def coordinated(tmp_path: Path, disk: Disk) -> Coordinated:
    return Coordinated(Storage.open(tmp_path / "data", disk, StorageSettings(), now_ms=5))


def test_a_join_waits_for_its_generation(coordinated: Coordinated) -> None:
    steps = coordinated.join("m")
    assert isinstance(steps.awaited, Happened)
    assert coordinated.due_in_ms == 0
    coordinated.coordinator.tick(5)
    assert coordinated.woken == list(steps.awaited.keys)
    answer = steps.result(coordinated.storage)
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, "m")


def test_an_assignment_is_told_once_it_is_durable(coordinated: Coordinated) -> None:
    coordinated.begin_generation()
    steps = coordinated.sync("m", 1, m=b"all")
    assert isinstance(steps.awaited, Synced)
    assert steps.result(coordinated.storage) == SyncAnswer(ErrorCode.NONE, "consumer", "range", b"all")


def test_an_assignment_for_which_there_is_no_room_counts_for_nobody(
    coordinated: Coordinated, disk: Disk
) -> None:
    coordinated.begin_generation()
    disk.is_full = True
    answer = coordinated.sync("m", 1, m=b"all").result(coordinated.storage)
    assert answer == SyncAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert "no space left" in str(coordinated.failures[0])
    group = coordinated.coordinator.groups.membership.get("g")
    assert group is not None and group.state is GroupState.PREPARING_REBALANCE
    disk.is_full = False
    again = coordinated.join("", "m").result(coordinated.storage)
    assert (
        coordinated.sync("m", again.generation_id, m=b"all").result(coordinated.storage).assignment == b"all"
    )


def test_a_stop_answers_whoever_waits_and_leaves_nothing(coordinated: Coordinated) -> None:
    steps = coordinated.join("m")
    steps.awaited.happened = False
    steps.go_on()
    assert steps.result(coordinated.storage).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinated.coordinator.tick(5)
    assert not coordinated.woken, "nobody waits any more"


def test_commits_of_one_turn_come_into_the_log_together(coordinated: Coordinated) -> None:
    commits = [coordinated.commit(offset) for offset in range(5)]
    partition = coordinated.storage.group_log.partition
    assert partition.log_end_offset == 0 and len(coordinated.soon) == 1
    coordinated.soon.pop()()
    assert partition.log_end_offset == 5
    partition.sync()
    for each in commits:
        each.go_on()
        assert each.is_done, "one sync was enough for all"
        assert each.result(coordinated.storage) == {A0: ErrorCode.NONE}
    assert coordinated.storage.groups.offsets("g")[A0].committed_offset == 4


def test_a_commit_in_a_topic_that_goes_before_it_is_written_is_not(coordinated: Coordinated) -> None:
    """It would count in the next topic of that name."""
    steps = coordinated.commit(5)
    coordinated.gone.add(A0)
    coordinated.soon.pop()()
    assert steps.result(coordinated.storage) == {}
    assert not coordinated.storage.groups.offsets("g")


def test_a_sync_that_began_before_a_commit_was_written_does_not_cover_it(coordinated: Coordinated) -> None:
    commit = coordinated.commit(3)
    coordinated.storage.group_log.partition.sync()
    coordinated.soon.pop()()
    commit.go_on()
    assert not commit.is_done and isinstance(commit.awaited, Synced)
    assert commit.result(coordinated.storage) == {A0: ErrorCode.NONE}


def test_commits_for_which_there_is_no_room_are_refused_and_change_nothing(
    coordinated: Coordinated, disk: Disk
) -> None:
    disk.is_full = True
    commits = [coordinated.commit(offset) for offset in range(2)]
    coordinated.soon.pop()()
    assert [each.result(coordinated.storage) for each in commits] == [None, None]
    assert "no space left" in str(coordinated.failures[0])
    assert not coordinated.storage.groups.offsets("g")


def test_a_commit_puts_its_members_deadline_off(coordinated: Coordinated) -> None:
    coordinated.begin_generation()
    coordinated.sync("m", 1).result(coordinated.storage)
    coordinated.now_ms = SESSION_MS - 1
    commit = coordinated.commit(1, generation_id=1, member_id="m")
    coordinated.soon.pop()()
    assert commit.result(coordinated.storage) == {A0: ErrorCode.NONE}
    coordinated.now_ms = SESSION_MS
    coordinated.coordinator.tick(5)
    assert coordinated.coordinator.heartbeat(Heartbeat("g", 1, "m", None)) is ErrorCode.NONE


def test_it_is_called_again_when_the_next_session_ends(coordinated: Coordinated) -> None:
    coordinated.begin_generation()
    coordinated.due_in_ms = None
    coordinated.now_ms = 1
    coordinated.coordinator.tick(5)
    assert coordinated.due_in_ms == SESSION_MS - 1


def test_who_leaves_is_told_once_that_is_durable(coordinated: Coordinated) -> None:
    coordinated.begin_generation()
    coordinated.sync("m", 1).result(coordinated.storage)
    leave = Steps(coordinated.coordinator.leave(Leave("g", [Leaving("m", None)]), 5))
    assert isinstance(leave.awaited, Synced), "the group is empty now, which is written"
    assert leave.result(coordinated.storage) == [ErrorCode.NONE]
