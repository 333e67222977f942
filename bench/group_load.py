"""The worker whose members join groups, live and commit: ``python -m bench.group_load BOOTSTRAP``.

Raw sockets and the bare protocol, the same for either server: a client library has its own delays, and would hide
the server's. Heartbeats go out often while a group forms, so that a rebalance waits for nobody's interval.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from typing import Any, Final

from bench import worker
from bench.load.connections import PATIENCE_S, connect
from semel.errors import ErrorCode
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, encode_request_header

JOIN, SYNC, HEARTBEAT, COMMIT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT
_VERSIONS: Final = {
    JOIN: 5,
    SYNC: 3,
    HEARTBEAT: 3,
    COMMIT: 7,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
}  # with a fixed header
_HEADER_BYTES: Final = 4  # of an answer: its correlation id
_FORMING_BEAT_S: Final = 0.05
_IDLE_BEAT_S: Final = 3.0
_NO_ERROR: Final = b"\0\0"
_SESSION_MS: Final = 60_000
_SUBSCRIPTION: Final = bytes.fromhex("0000 00000001 0004") + b"rows" + bytes.fromhex("ffffffff")


class Peer:
    """A connection with one request under way."""

    def __init__(self, bootstrap: str) -> None:
        self.sock: Final[socket.socket] = connect(bootstrap)
        self._received = b""
        self._asked = ApiKey.API_VERSIONS

    def ask(self, api_key: ApiKey, **fields: Any) -> None:
        self._asked = api_key
        self.sock.sendall(self.frame(api_key, **fields))

    def frame(self, api_key: ApiKey, **fields: Any) -> bytes:
        version = _VERSIONS[api_key]
        body = messages.encode_request(api_key, version, fields)
        request = encode_request_header(api_key, version, 1, "bench") + body
        return INT32.pack(len(request)) + request

    def take(self) -> bytes | None:
        """The body of the answer, once it is there whole. There is something to read."""
        piece = self.sock.recv(1 << 20)
        if not piece:
            raise ConnectionError("the server has closed the connection")
        self._received += piece
        if len(self._received) < 4 or len(self._received) < 4 + INT32.unpack_from(self._received)[0]:
            return None
        body, self._received = self._received[4 + _HEADER_BYTES :], b""
        return body

    def decoded(self, body: bytes) -> Any:
        return messages.decode_response(self._asked, _VERSIONS[self._asked], body)


class GroupMember(Peer):
    """One that goes through join, sync and heartbeats by itself."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        super().__init__(bootstrap)
        self._group_id = group_id
        self._member_id = ""
        self._next_beat_s = 0.0
        self.generation_id = -1
        self.is_stable = False
        self.beat_at_s: float | None = None
        self.beat_every_s = _FORMING_BEAT_S
        self.join()

    def join(self) -> None:
        self.is_stable, self.beat_at_s = False, None
        self.ask(
            JOIN,
            group_id=self._group_id,
            session_timeout=_SESSION_MS,
            rebalance_timeout=_SESSION_MS,
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": _SUBSCRIPTION}],
        )

    def beat(self) -> None:
        assert self.beat_at_s is not None
        self._next_beat_s, self.beat_at_s = self.beat_at_s + self.beat_every_s, None
        self.ask(HEARTBEAT, group_id=self._group_id, **self._identity())

    def answered(self, body: bytes) -> None:
        answer = self.decoded(body)
        code = ErrorCode.of(int(answer.error_code))
        if self._asked is JOIN and code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            self.join()
        elif code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            self.join()
        elif code is not ErrorCode.NONE:
            raise RuntimeError(f"{self._asked.name} was answered {code.name}")
        elif self._asked is JOIN:
            self._member_id, self.generation_id = answer.member_id, answer.generation_id
            parts = [{"member_id": one.member_id, "assignment": b"part"} for one in answer.members]
            self.ask(SYNC, group_id=self._group_id, assignments=parts, **self._identity())
        elif self._asked is SYNC:
            self.is_stable = True
            self.beat_at_s = time.perf_counter() + self.beat_every_s
        else:
            self.beat_at_s = self._next_beat_s

    def _identity(self) -> dict[str, Any]:
        return {
            "generation_id": self.generation_id,
            "member_id": self._member_id,
            "group_instance_id": None,
        }


class Members:
    """All of one job: member by member into the next of the groups."""

    def __init__(self, bootstrap: str, members: int, groups: int) -> None:
        self._selector = selectors.DefaultSelector()
        names = [f"group-{number}-{time.time_ns()}" for number in range(groups)]
        self._groups = [[GroupMember(bootstrap, name) for _ in range(members // groups)] for name in names]
        self._all = [member for group in self._groups for member in group]
        for member in self._all:
            self._selector.register(member.sock, selectors.EVENT_READ, member)

    def live(self, seconds: float) -> None:
        """Answer what comes, and send the heartbeats that are due."""
        end_s = time.perf_counter() + seconds
        while (now_s := time.perf_counter()) < end_s:
            for key, _ in self._selector.select(min(0.01, end_s - now_s)):
                body = key.data.take()
                if body is not None:
                    key.data.answered(body)
            now_s = time.perf_counter()
            for member in self._all:
                if member.beat_at_s is not None and member.beat_at_s <= now_s:
                    member.beat()

    def settle(self) -> None:
        """Live until the members of each group are in one generation and have their parts of it."""
        give_up_s = time.perf_counter() + PATIENCE_S
        while not all(
            all(member.is_stable for member in group) and len({member.generation_id for member in group}) == 1
            for group in self._groups
        ):
            if time.perf_counter() > give_up_s:
                raise TimeoutError("a group does not become stable")
            self.live(0.005)

    def rest(self) -> None:
        """From now on each sends a heartbeat every three seconds, as Java's consumer does by default."""
        now_s = time.perf_counter()
        for number, member in enumerate(self._all):
            member.beat_every_s = _IDLE_BEAT_S
            member.beat_at_s = now_s + _IDLE_BEAT_S * number / len(self._all)

    def close(self) -> None:
        for member in self._all:
            member.sock.close()
        self._selector.close()


class Committer(Peer):
    """A consumer that assigns its partition itself, and commits after each record that it never read."""

    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        super().__init__(bootstrap)
        self._partition = number
        partition = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1}
        self._commit = self.frame(
            COMMIT,
            group_id=f"committer-{number}",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": topic, "partitions": [partition | {"committed_metadata": ""}]}],
        )

    def commit(self) -> None:
        self.sock.sendall(self._commit)

    def check(self, body: bytes) -> None:
        if body[-2:] != _NO_ERROR:  # the code of its only partition
            raise RuntimeError(f"a commit was answered {ErrorCode.of(int.from_bytes(body[-2:], 'big')).name}")


def commit(bootstrap: str, topic: str, connections: int, seconds: float) -> float:
    """Commits a second of so many consumers, each with one under way."""
    selector = selectors.DefaultSelector()
    committers = [Committer(bootstrap, topic, number) for number in range(connections)]
    for each in committers:
        selector.register(each.sock, selectors.EVENT_READ, each)
    commits, started_s = 0, time.perf_counter()
    for each in committers:
        each.commit()
    while (now_s := time.perf_counter()) < started_s + seconds:
        for key, _ in selector.select(PATIENCE_S):
            body = key.data.take()
            if body is not None:
                key.data.check(body)
                commits += 1
                key.data.commit()
    for each in committers:
        each.sock.close()
    selector.close()
    return commits / (now_s - started_s)


def main() -> None:
    bootstrap = sys.argv[1]
    crowd: Members | None = None

    def do(job: str, **how: Any) -> float:
        nonlocal crowd
        started_s = time.perf_counter()
        match job:
            case "commit":
                return commit(bootstrap, **how)
            case "join":
                crowd = Members(bootstrap, **how)
                crowd.settle()
            case "rest":
                assert crowd is not None
                crowd.rest()
            case "live":
                assert crowd is not None
                crowd.live(**how)
            case "leave":
                assert crowd is not None
                crowd.close()
        return time.perf_counter() - started_s

    worker.serve(do)


if __name__ == "__main__":
    main()
