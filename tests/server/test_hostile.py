"""Hostile and broken clients beside an honest one, which goes on producing and reading and feels nothing."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.wire import api_versions, fetch, messages, produce
from semel.wire.api import ApiKey
from semel.wire.frames import encode_request_header

pytestmark = pytest.mark.thorough  # some fill the machine

FrameReader = Callable[[socket.socket], bytes]
LARGE_BYTES = 700_000  # more than one read: needs room in the server's budget
VERSIONS = bytes(api_versions.encode_request(3, "test", "1"))
ROUND_S = 8.0  # by then something is stuck


def request(api_key: ApiKey, version: int, correlation_id: int, body: bytes) -> bytes:
    head = encode_request_header(api_key, version, correlation_id, "test")
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_request(correlation_id: int, value: bytes) -> bytes:
    item = produce.ProducePartition("t", 0, memoryview(encode_batch([Record(0, 1, None, value)])))
    body = b"".join(produce.encode_request(9, produce.ProduceRequest(None, -1, 1000, [item])))
    return request(ApiKey.PRODUCE, 9, correlation_id, body)


def fetch_request(
    correlation_id: int, offset: int, *, wait_ms: int = 0, max_bytes: int = 10**7, partitions: int = 1
) -> bytes:
    wanted = [fetch.FetchPartition("t", n, offset, max_bytes) for n in range(partitions)]
    body = bytes(fetch.encode_request(11, fetch.FetchRequest(wait_ms, 1, max_bytes, 0, wanted)))
    return request(ApiKey.FETCH, 11, correlation_id, body)


class HonestClient(threading.Thread):
    """Appends a large record and reads it back, over and over, until it is stopped."""

    def __init__(self, connection: socket.socket, read: FrameReader) -> None:
        super().__init__(daemon=True)
        self.connection, self.read = connection, read
        self.stopped = threading.Event()
        self.rounds = 0
        self.failure: str | None = None
        self.round_done = threading.Condition()

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.round()
        except OSError as error:
            self.failure = repr(error)

    def round(self) -> None:
        self.connection.sendall(produce_request(1, b"%020d" % self.rounds + b"x" * LARGE_BYTES))
        (result,), _ = produce.decode_response(9, self.read(self.connection)[5:])
        if result.error_code:
            self.failure = f"produce: {result.error_code} {result.error_message}"
            raise ConnectionError(self.failure)
        self.connection.sendall(fetch_request(2, result.base_offset, max_bytes=10**6))
        (answer,) = fetch.decode_response(11, self.read(self.connection)[4:]).partitions
        if b"%020d" % self.rounds not in bytes(answer.records or b""):
            self.failure = f"fetch: {answer.error_code}, and not what was written"
            raise ConnectionError(self.failure)
        with self.round_done:
            self.rounds += 1
            self.round_done.notify_all()

    def feels_nothing(self, rounds: int = 5) -> None:
        """Wait for so many more rounds."""
        goal = self.rounds + rounds
        with self.round_done:
            arrived = self.round_done.wait_for(
                lambda: self.rounds >= goal or self.failure is not None, timeout=rounds * ROUND_S
            )
        assert self.failure is None, self.failure
        assert arrived, f"{self.rounds} of {goal} rounds"

    def __enter__(self) -> HonestClient:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.join(30)


@pytest.fixture
def tight(start_server: Callable[..., Any]) -> Any:
    """A server with little room, so that little is enough to take it."""
    return start_server(
        "-X", "queued.max.request.bytes=8000000",
        "-X", "socket.request.max.bytes=5000000",
        "-X", "max.frame.arrival.ms=4000",
        "-X", "log.retention.bytes=30000000",
        "-X", "max.connections=1500",
    )  # fmt: skip


@pytest.fixture
def honest(tight: Any, frame_reader: FrameReader) -> Iterator[HonestClient]:
    with tight.connect() as connection:
        fields = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
        fields["include_topic_authorized_operations"] = False
        fields["include_cluster_authorized_operations"] = False
        body = messages.encode_request(ApiKey.METADATA, 9, fields)
        connection.sendall(request(ApiKey.METADATA, 9, 1, body))
        assert frame_reader(connection)
        with HonestClient(connection, frame_reader) as client:
            client.feels_nothing(1)
            yield client
            client.feels_nothing(1)
    assert "Traceback" not in tight.log


def good_connection(server: Any, read: FrameReader) -> socket.socket:
    """One that may send large frames: its first request was good."""
    connection: socket.socket = server.connect()
    connection.sendall(request(ApiKey.API_VERSIONS, 3, 1, VERSIONS))
    assert read(connection)
    return connection


def test_room_that_is_claimed_and_not_used_is_taken_back(
    tight: Any, honest: HonestClient, frame_reader: FrameReader
) -> None:
    """Twelve bytes each claim millions; nothing follows."""
    with ExitStack() as stack:
        for _ in range(20):
            hostile = stack.enter_context(good_connection(tight, frame_reader))
            hostile.sendall(struct.pack(">ihhi", 2_600_000, 0, 9, 1))
        honest.feels_nothing()
    assert "comes in too slowly while others wait" in tight.log


def test_readers_that_never_read_keep_nobody_from_sending(
    tight: Any, honest: HonestClient, frame_reader: FrameReader
) -> None:
    honest.feels_nothing(3)
    with ExitStack() as stack:
        for _ in range(20):
            hostile = stack.enter_context(good_connection(tight, frame_reader))
            for n in range(20):
                hostile.sendall(fetch_request(n, max(0, honest.rounds - 3)))
        honest.feels_nothing()


def test_slow_drips_and_silence_hurt_nobody(
    tight: Any, honest: HonestClient, frame_reader: FrameReader
) -> None:
    with ExitStack() as stack:
        drips = [stack.enter_context(tight.connect()) for _ in range(300)]
        for drip in drips:
            drip.sendall(struct.pack(">ihh", 60_000, 18, 3))
        for _ in range(3):
            for drip in drips:
                with contextlib.suppress(OSError):
                    drip.send(b"x")
            honest.feels_nothing(1)


def test_a_thousand_connections_hurt_nobody(
    tight: Any, honest: HonestClient, frame_reader: FrameReader
) -> None:
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(tight.connect())
        honest.feels_nothing(2)
    honest.feels_nothing(1)


def test_hostile_arrays_hurt_nobody(tight: Any, honest: HonestClient, frame_reader: FrameReader) -> None:
    """Counts that are not there, things named many times, and more things than there can be."""
    names = b"".join(b"\x02t\x00" for _ in range(150_000))  # compact string "t", no tags
    many_topics = b"\xf1\x93\x09" + names + b"\x01\x00\x00\x00"  # 150,000 + 1, as a varint
    counts = {
        ApiKey.METADATA: struct.pack(">i", 2**31 - 1),
        ApiKey.LIST_OFFSETS: struct.pack(">ibi", -1, 0, 2**31 - 1),
        ApiKey.FETCH: struct.pack(">iiiibiii", -1, 0, 1, 100, 0, 0, -1, 2**31 - 1),
        ApiKey.PRODUCE: struct.pack(">hhii", -1, -1, 1000, 2**31 - 1),
        ApiKey.CREATE_TOPICS: struct.pack(">i", 2**31 - 1),
    }
    versions = {
        ApiKey.METADATA: 8,
        ApiKey.LIST_OFFSETS: 3,
        ApiKey.FETCH: 7,
        ApiKey.PRODUCE: 8,
        ApiKey.CREATE_TOPICS: 4,
    }
    hostile = [request(api_key, versions[api_key], 1, body) for api_key, body in counts.items()]
    hostile.append(request(ApiKey.METADATA, 9, 1, many_topics))
    hostile.append(fetch_request(1, 0, wait_ms=60_000, partitions=30_000))
    for sent in hostile:
        with good_connection(tight, frame_reader) as connection:
            connection.sendall(sent)
            assert frame_reader(connection) == b"", "closed"
        honest.feels_nothing(1)


def bad_batches() -> Iterator[tuple[str, bytes | None, ErrorCode]]:
    good = bytes(encode_batch([Record(0, 1, None, b"v")]))
    yield "old magic", good[:16] + b"\1" + good[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    yield "wrong CRC", good[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE
    yield "huge length", good[:8] + b"\x7f\xff\xff\xff" + good[12:], ErrorCode.CORRUPT_MESSAGE
    yield "unknown codec", good[:22] + b"\7" + good[23:], ErrorCode.CORRUPT_MESSAGE
    yield "two batches", good + good, ErrorCode.INVALID_RECORD
    yield "none", None, ErrorCode.INVALID_RECORD
    yield "half a header", good[:30], ErrorCode.CORRUPT_MESSAGE
    yield "future", bytes(encode_batch([Record(0, 2**60, None, b"v")])), ErrorCode.INVALID_TIMESTAMP


def test_bad_batches_are_refused_and_cost_no_connection(
    tight: Any, honest: HonestClient, frame_reader: FrameReader
) -> None:
    with good_connection(tight, frame_reader) as connection:
        for what, batch, expected in bad_batches():
            records = None if batch is None else memoryview(bytearray(batch))
            wanted = produce.ProduceRequest(None, -1, 1000, [produce.ProducePartition("t", 0, records)])
            body = b"".join(produce.encode_request(9, wanted))
            connection.sendall(request(ApiKey.PRODUCE, 9, 1, body))
            (result,), _ = produce.decode_response(9, frame_reader(connection)[5:])
            assert (result.error_code, result.base_offset) == (expected, -1), what
