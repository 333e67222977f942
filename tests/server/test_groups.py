"""Groups' requests, without a socket on a clock that a test moves, and over sockets: who waits, and for what."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.server.failing_disk import Disk

from semel.config import Address, ServerSettings
from semel.core.group.states import GroupState
from semel.errors import ErrorCode
from semel.server.broker import Broker
from semel.server.operation import Awaited, Happened, Synced
from semel.server.outcome import Answer, Call, Operation
from semel.server.router import handle
from semel.server.storage.aside import Aside, at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import TopicPartition
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.frames import encode_request_header

NOW_MS = 1_700_000_000_000
SESSION_MS, REBALANCE_MS = 10_000, 30_000
A0 = TopicPartition("a", 0)

FrameReader = Callable[[socket.socket], bytes]


def join_fields(member_id: str = "", **given: Any) -> dict[str, Any]:
    """Of version 3, whose members need not know their ids before."""
    return {
        "group_id": "g",
        "session_timeout": SESSION_MS,
        "rebalance_timeout": REBALANCE_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
        **given,
    }


class Asked:
    """A request that is under way."""

    def __init__(self, api_key: ApiKey, version: int, operation: Operation) -> None:
        self._kind = api_key, version
        self._steps = operation.steps
        self.awaits: Awaited | None = None
        self.answer: Any = None
        self.go_on()

    def go_on(self) -> None:
        try:
            self.awaits = self._steps.send(None)
        except StopIteration as ended:
            self.awaits = None
            self.answer = messages.decode_response(*self._kind, b"".join(map(bytes, ended.value.parts)))


class Server:
    """A broker over a folder, its requests under way, and its clocks."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self.passed_ms = 0
        self._woken: set[object] = set()
        self._due_ms: int | None = None
        self.under_way: list[Asked] = []
        self._open()

    def _open(self) -> None:
        self.broker = Broker(
            ServerSettings(),
            Storage.open(
                self.folder,
                self.disk,
                StorageSettings(),
                now_ms=self.now_ms,
                monotonic_ms=lambda: self.passed_ms,
            ),
        )
        self.broker.coordinator.when_happened(self._woken.update)
        self.broker.coordinator.when_due(self._note_due)

    @property
    def now_ms(self) -> int:
        return NOW_MS + self.passed_ms

    def restart(self) -> None:
        self.broker.storage.close(now_ms=self.now_ms)
        self._due_ms = None
        self._open()

    def _note_due(self, delay_ms: int) -> None:
        self._due_ms = self.passed_ms + delay_ms

    def begin(self, api_key: ApiKey, version: int, **fields: Any) -> Asked:
        """Ask; it goes as far as it goes by itself."""
        call = Call(int(api_key), version, "test", Address("127.0.0.1", 9092), self.now_ms, lambda: 10**7)
        body = messages.encode_request(api_key, version, fields)
        outcome = handle(self.broker, call, body)
        if isinstance(outcome, Answer):
            outcome = Operation(_already(outcome))
        assert isinstance(outcome, Operation)
        asked = Asked(api_key, version, outcome)
        self.under_way.append(asked)
        return asked

    def run(self) -> None:
        """Until nobody goes on without time passing or another request."""
        while any(self._step(asked) for asked in self.under_way):
            pass
        self.under_way = [asked for asked in self.under_way if asked.answer is None]

    def _step(self, asked: Asked) -> bool:
        match asked.awaits:
            case Synced(partitions=partitions):
                for partition in partitions:
                    partition.sync()
            case Aside():
                asked.awaits.run()
            case Happened(keys=keys) if self._woken.intersection(keys):
                asked.awaits.happened = True
            case _:
                return False
        asked.go_on()
        return True

    def ask(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        asked = self.begin(api_key, version, **fields)
        self.run()
        assert asked.answer is not None, "it waits"
        return asked.answer

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.passed_ms + duration_ms
        while self._due_ms is not None and self._due_ms <= end_ms:
            self.passed_ms, self._due_ms = self._due_ms, None
            self.broker.coordinator.tick(self.now_ms)
            self.run()
        self.passed_ms = end_ms

    def stop_waiting(self) -> None:
        """What a server that stops does first."""
        for asked in self.under_way:
            asked.go_on()
        self.run()

    # -- members

    def begin_join(self, member_id: str = "", **given: Any) -> Asked:
        asked = self.begin(ApiKey.JOIN_GROUP, 3, **join_fields(member_id, **given))
        self.run()
        self.pass_ms(0)
        return asked

    def join(self, member_id: str = "", **given: Any) -> Any:
        asked = self.begin_join(member_id, **given)
        assert asked.answer is not None, "it waits"
        return asked.answer

    def begin_sync(
        self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None
    ) -> Asked:
        return self.begin(
            ApiKey.SYNC_GROUP,
            2,
            group_id="g",
            generation_id=generation_id,
            member_id=member_id,
            assignments=[
                {"member_id": name, "assignment": part} for name, part in (assignments or {}).items()
            ],
        )

    def settle(self) -> str:
        """One member that has all; its id."""
        member_id = self.join().member_id
        self.begin_sync(member_id, 1, {member_id: b"all"})
        self.run()
        assert isinstance(member_id, str)
        return member_id

    def heartbeat(self, member_id: str, generation_id: int) -> int:
        fields = {"group_id": "g", "generation_id": generation_id, "member_id": member_id}
        return int(self.ask(ApiKey.HEARTBEAT, 2, **fields).error_code)

    def commit(self, version: int, offset: int, **given: Any) -> int:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        fields = {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "retention_time": -1,
            "topics": [{"name": "a", "partitions": [partition]}],
            **given,
        }
        answer = self.ask(ApiKey.OFFSET_COMMIT, version, **fields)
        return int(answer.topics[0].partitions[0].error_code)

    @property
    def state(self) -> GroupState:
        group = self.broker.coordinator.groups.membership.get("g")
        assert group is not None
        return group.state


async def _already(answer: Answer) -> Answer:
    return answer


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def server(tmp_path: Path, disk: Disk) -> Iterator[Server]:
    server = Server(tmp_path / "data", disk)
    at_once(server.broker.create_topic("a", 1, {}, server.now_ms))
    yield server
    server.broker.storage.close(now_ms=server.now_ms)


def test_a_join_waits_until_all_have_come(server: Server) -> None:
    leader = server.settle()
    second = server.begin_join()
    assert second.answer is None
    assert server.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    first = server.join(leader)
    assert (first.generation_id, len(first.members)) == (2, 2)
    assert (second.answer.generation_id, second.answer.leader) == (2, leader)


def test_an_assignment_is_answered_once_it_is_durable(server: Server) -> None:
    member_id = server.join().member_id
    synced = server.begin_sync(member_id, 1, {member_id: b"all"})
    assert isinstance(synced.awaits, Synced)
    log = server.broker.storage.group_log.partition
    assert log.high_watermark < log.log_end_offset
    server.run()
    assert synced.answer.assignment == b"all"


def test_a_follower_waits_for_the_leaders_assignment(server: Server) -> None:
    leader = server.settle()
    second = server.begin_join()
    server.join(leader)
    follower = second.answer.member_id
    waiting = server.begin_sync(follower, 2)
    server.run()
    assert waiting.answer is None
    server.begin_sync(leader, 2, {follower: b"to the second"})
    server.run()
    assert waiting.answer.assignment == b"to the second"


def test_who_does_not_join_again_in_time_is_left_out(server: Server) -> None:
    leader = server.settle()
    second = server.begin_join()
    for _ in range(REBALANCE_MS // 5_000):
        assert second.answer is None
        server.heartbeat(leader, 1)
        server.pass_ms(5_000)
    assert (second.answer.generation_id, len(second.answer.members)) == (2, 1)
    assert server.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_not_heard_of_is_gone_with_its_session(server: Server) -> None:
    server.settle()
    server.pass_ms(SESSION_MS - 1)
    assert server.state is GroupState.STABLE
    server.pass_ms(1)
    assert server.state is GroupState.EMPTY


def test_a_stable_group_outlives_a_restart(server: Server) -> None:
    member_id = server.settle()
    server.restart()
    assert server.state is GroupState.STABLE
    assert server.heartbeat(member_id, 1) == ErrorCode.NONE
    again = server.begin_sync(member_id, 1)
    server.run()
    assert again.answer.assignment == b"all"
    server.pass_ms(SESSION_MS)
    assert server.state is GroupState.EMPTY, "its members live as long as they say so"


def test_a_commit_is_kept_for_as_long_as_it_says(server: Server) -> None:
    """In the versions that say it; else for as long as the server's setting says."""
    offsets = server.broker.storage.groups.offsets
    for version in (2, 3, 4):
        assert server.commit(version, version, retention_time=1_000) == ErrorCode.NONE
        server.pass_ms(999)
        server.broker.storage.maintain(server.now_ms)
        assert offsets("g")[A0].committed_offset == version
        server.pass_ms(1)
        server.broker.storage.maintain(server.now_ms)
        assert not offsets("g")
    server.commit(5, 5)
    server.pass_ms(1_000)
    server.broker.storage.maintain(server.now_ms)
    assert offsets("g")[A0].committed_offset == 5


def test_an_assignment_that_the_disk_refuses_is_nobodys(server: Server, disk: Disk) -> None:
    member_id = server.join().member_id
    disk.write_error = OSError(errno.ENOSPC, "no room")
    synced = server.begin_sync(member_id, 1, {member_id: b"all"})
    server.run()
    assert synced.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert server.state is GroupState.PREPARING_REBALANCE
    disk.write_error = None
    assert server.join(member_id).generation_id == 2


def test_a_commit_that_is_not_synced_is_not_answered_as_if_it_were(server: Server, disk: Disk) -> None:
    disk.sync_error = OSError(errno.EIO, "sync failed")
    assert server.commit(7, 5) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_who_waits_while_the_server_stops_is_told_to_look_for_another(server: Server) -> None:
    leader = server.settle()
    joining = server.begin_join()
    server.stop_waiting()
    assert joining.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    server.join(leader)  # the member is there still, and what it is owed finds nobody


# -- over sockets


def _framed(api_key: ApiKey, version: int, correlation_id: int, fields: dict[str, Any]) -> bytes:
    head = encode_request_header(api_key, version, correlation_id, "test")
    body = messages.encode_request(api_key, version, fields)
    return struct.pack(">i", len(head) + len(body)) + head + body


class Connection:
    def __init__(self, server: Any, read: FrameReader) -> None:
        self._socket = server.connect()
        self._read = read

    def send(self, api_key: ApiKey, version: int, fields: dict[str, Any]) -> None:
        self._socket.sendall(_framed(api_key, version, 1, fields))
        self._kind = api_key, version

    def receive(self) -> Any:
        frame = self._read(self._socket)
        assert frame, "the server closed the connection"
        return messages.decode_response(*self._kind, frame[4:])

    def ask(self, api_key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
        self.send(api_key, version, fields)
        return self.receive()

    def is_closed(self) -> bool:
        return not self._read(self._socket)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def connect(frame_reader: FrameReader) -> Iterator[Callable[[Any], Connection]]:
    with ExitStack() as stack:

        def open_one(server: Any) -> Connection:
            connection = Connection(server, frame_reader)
            stack.callback(connection.close)
            return connection

        yield open_one


def _described(connection: Connection) -> Any:
    (group,) = connection.ask(
        ApiKey.DESCRIBE_GROUPS, 4, {"groups": ["g"], "include_authorized_operations": False}
    ).groups
    return group


def _until_called(connection: Connection) -> None:
    """Until the group's members are to join again."""
    give_up_s = time.monotonic() + 30
    while (state := _described(connection).group_state) != "PreparingRebalance":
        assert time.monotonic() < give_up_s, state
        time.sleep(0.002)


@pytest.mark.thorough
def test_a_join_that_waits_holds_up_nobody_and_leaves_nothing_behind(
    start_server: Callable[..., Any], connect: Callable[[Any], Connection]
) -> None:
    server = start_server("-X", "group.min.session.timeout.ms=1")
    first, second, third = (connect(server) for _ in range(3))
    leader = first.ask(ApiKey.JOIN_GROUP, 3, join_fields()).member_id
    assignment = {"member_id": leader, "assignment": b"all"}
    first.ask(
        ApiKey.SYNC_GROUP,
        2,
        {"group_id": "g", "generation_id": 1, "member_id": leader, "assignments": [assignment]},
    )
    second.send(ApiKey.JOIN_GROUP, 3, join_fields(session_timeout=300))
    _until_called(third)
    second.close()
    # Whoever has gone is a member until its session ends, as its next connection may be on its way.
    joined = first.ask(ApiKey.JOIN_GROUP, 3, join_fields(leader))
    assert len(joined.members) == 2
    _until_called(third)
    third.send(ApiKey.JOIN_GROUP, 3, join_fields())
    alone = first.ask(ApiKey.JOIN_GROUP, 3, join_fields(leader))
    assert (alone.generation_id, len(alone.members)) == (3, 2)
    assert third.receive().generation_id == 3
    assert "Traceback" not in server.log


def test_a_join_that_waits_is_answered_when_the_server_stops(
    start_server: Callable[..., Any], connect: Callable[[Any], Connection]
) -> None:
    server = start_server()
    first, second = (connect(server) for _ in range(2))
    first.ask(ApiKey.JOIN_GROUP, 3, join_fields())
    second.send(ApiKey.JOIN_GROUP, 3, join_fields())
    _until_called(first)
    assert server.stop() == 0
    assert second.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert second.is_closed() and first.is_closed()
    assert "Traceback" not in server.log
