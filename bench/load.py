"""The load generator: hand-framed, pipelined requests over raw sockets, the same bytes for either server.

A client library would be the slower side and hide the server. So each connection keeps a ring of prebuilt
Produce (v7) or Fetch (v4) requests, one a request in flight, and only patches what must differ: correlation
id, base sequence, CRC, fetch offset. Every producer is idempotent with an id of its own, acks=all; any error
code ends the run. Run as a program it prints one JSON object, so that it can be pinned to a core of its own.

    python -m bench.load produce|fetch BOOTSTRAP TOPIC PARTITIONS CONNECTIONS IN_FLIGHT BATCH_BYTES SECONDS
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

from crc32c import crc32c

from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.sequence import advance
from semel.types import ProducerGrant

KEY_BYTES: Final = 8
VALUE_BYTES: Final = 100
RECORD_BYTES: Final = KEY_BYTES + VALUE_BYTES + 10  # about what a record takes in a batch
RECEIVE_BYTES: Final = 8 * 1024 * 1024
CLIENT_ID: Final = b"bench"
LINGER_AFTER_S: Final = 30.0  # an answer that takes longer than this is a hang

_PRODUCE, _FETCH, _INIT_PRODUCER_ID = 0, 1, 22
_INT16, _INT32, _INT64, _UINT32 = (struct.Struct(code) for code in (">h", ">i", ">q", ">I"))
_BATCH_BASE_SEQUENCE_AT: Final = 53
_BATCH_CRC_AT: Final = 17
_BATCH_CHECKED_AT: Final = 21


@dataclass(frozen=True, slots=True)
class Load:
    """What was asked: ``batch_bytes`` 0 means batches of one record."""

    mode: str
    bootstrap: str
    topic: str
    partitions: int
    connections: int
    in_flight: int
    batch_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it, from the first request to the last answer."""

    requests: int
    records: int
    payload_bytes: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.payload_bytes / self.seconds / 1e6


class ProduceConnection:
    """One socket, one producer id, one partition, at most ``in_flight`` requests unanswered."""

    def __init__(self, load: Load, number: int) -> None:
        self.sock = _connect(load.bootstrap)
        partition = number % load.partitions
        grant = _init_producer_id(self.sock)
        count = max(1, load.batch_bytes // RECORD_BYTES)
        records = [
            Record(0, 1_700_000_000_000, b"%08d" % index, (b"%d-" % index * VALUE_BYTES)[:VALUE_BYTES])
            for index in range(count)
        ]
        batch = encode_batch(
            records, producer_id=grant.producer_id, producer_epoch=grant.producer_epoch, base_sequence=0
        )
        topic = _string(load.topic.encode())
        body = b"".join(
            (
                _INT16.pack(-1),  # no transactional id
                _INT16.pack(-1),  # acks=all
                _INT32.pack(30_000),
                _INT32.pack(1) + topic,
                _INT32.pack(1) + _INT32.pack(partition),
                _INT32.pack(len(batch)),
            )
        )
        head = _request_head(_PRODUCE, 7, len(body) + len(batch))
        self._batch_at = len(head) + len(body)
        self._slots = [bytearray(head + body + batch) for _ in range(load.in_flight)]
        self.records_per_request = count
        self.bytes_per_request = len(batch)
        # Size, correlation id, one topic, one partition: error code, three int64, then the throttle time.
        self._response_bytes = 4 + 4 + 4 + len(topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4
        self._error_at = 4 + 4 + 4 + len(topic) + 4 + 4
        self._sequence = 0
        self._sent = 0
        self._outbox: list[memoryview] = []
        self._received = bytearray()
        self.answered = 0
        self.sent_at_s: list[float] = [0.0] * load.in_flight
        self.latencies_s: list[float] = []

    @property
    def unanswered(self) -> int:
        return self._sent - self.answered

    @property
    def wants_to_send(self) -> bool:
        return bool(self._outbox)

    def fill(self) -> None:
        """Queue requests until ``in_flight`` are out, and send what the socket takes."""
        now_s = time.perf_counter()
        while self._sent - self.answered < len(self._slots):
            slot_number = self._sent % len(self._slots)
            slot = self._slots[slot_number]
            at = self._batch_at
            _INT32.pack_into(slot, 8, self._sent & 0x7FFFFFFF)
            _INT32.pack_into(slot, at + _BATCH_BASE_SEQUENCE_AT, self._sequence)
            view = memoryview(slot)
            _UINT32.pack_into(slot, at + _BATCH_CRC_AT, crc32c(view[at + _BATCH_CHECKED_AT :]))
            self._sequence = advance(self._sequence, self.records_per_request)
            self.sent_at_s[slot_number] = now_s
            self._outbox.append(view)
            self._sent += 1
        self.send()

    def send(self) -> None:
        while self._outbox:
            try:
                sent = self.sock.sendmsg(self._outbox)
            except BlockingIOError:
                return
            while sent:
                first = self._outbox[0]
                if sent < len(first):
                    self._outbox[0] = first[sent:]
                    break
                sent -= len(first)
                del self._outbox[0]

    def receive(self, scratch: memoryview) -> None:
        count = self.sock.recv_into(scratch)
        if count == 0:
            raise ConnectionError("the server closed the connection")
        self._received += scratch[:count]
        whole = len(self._received) // self._response_bytes
        now_s = time.perf_counter()
        for index in range(whole):
            (error_code,) = _INT16.unpack_from(self._received, index * self._response_bytes + self._error_at)
            if error_code:
                raise RuntimeError(f"produce was answered with error {error_code}")
            self.latencies_s.append(now_s - self.sent_at_s[self.answered % len(self._slots)])
            self.answered += 1
        del self._received[: whole * self._response_bytes]


class FetchConnection:
    """One socket that reads one partition from its start, over and over, one request at a time."""

    records_per_request = 0

    def __init__(self, load: Load, number: int) -> None:
        self.sock = _connect(load.bootstrap)
        topic = _string(load.topic.encode())
        body = b"".join(
            (
                _INT32.pack(-1),
                _INT32.pack(500) + _INT32.pack(1) + _INT32.pack(64 * 1024 * 1024),
                b"\0",  # read_uncommitted
                _INT32.pack(1) + topic,
                _INT32.pack(1) + _INT32.pack(number % load.partitions),
            )
        )
        head = _request_head(_FETCH, 4, len(body) + 12)
        self._offset_at = len(head) + len(body)
        self._request = bytearray(head + body + _INT64.pack(0) + _INT32.pack(load.batch_bytes))
        # Size, correlation id, throttle, one topic, one partition with an empty list of aborted transactions.
        self._error_at = 4 + 4 + 4 + 4 + len(topic) + 4 + 4
        self._records_at = self._error_at + 2 + 8 + 8 + 4 + 4
        self._buffer = bytearray(RECEIVE_BYTES)
        self._filled = 0
        self._next_offset = 0
        self._waiting = False
        self._sent_s = 0.0
        self.answered = 0
        self.read_bytes = 0
        self.latencies_s: list[float] = []

    wants_to_send = False

    @property
    def unanswered(self) -> int:
        return int(self._waiting)

    def fill(self) -> None:
        if not self._waiting:
            _INT64.pack_into(self._request, self._offset_at, self._next_offset)
            self._sent_s = time.perf_counter()
            self.sock.sendall(self._request)
            self._waiting = True

    def send(self) -> None:
        return

    def receive(self, scratch: memoryview) -> None:
        count = self.sock.recv_into(memoryview(self._buffer)[self._filled :])
        if count == 0:
            raise ConnectionError("the server closed the connection")
        self._filled += count
        if self._filled < 4 or self._filled < 4 + _INT32.unpack_from(self._buffer, 0)[0]:
            return
        (error_code,) = _INT16.unpack_from(self._buffer, self._error_at)
        if error_code:
            raise RuntimeError(f"fetch was answered with error {error_code}")
        (aborted,) = _INT32.unpack_from(self._buffer, self._records_at - 8)
        assert aborted <= 0, "the benchmark's topics hold no transactions"
        (records_bytes,) = _INT32.unpack_from(self._buffer, self._records_at - 4)
        self._next_offset = self._offset_after(self._records_at, self._records_at + records_bytes)
        self.read_bytes += records_bytes
        self.latencies_s.append(time.perf_counter() - self._sent_s)
        self.answered += 1
        self._filled = 0
        self._waiting = False

    def _offset_after(self, position: int, end: int) -> int:
        """The offset after the last whole batch; 0, the start again, when there was none."""
        next_offset = 0
        while position + 27 <= end:
            base_offset, batch_bytes = struct.unpack_from(">qi", self._buffer, position)
            if position + 12 + batch_bytes > end:
                break
            next_offset = base_offset + _INT32.unpack_from(self._buffer, position + 23)[0] + 1
            position += 12 + batch_bytes
        return next_offset


def run(load: Load) -> Measured:
    """Drive all connections from one thread until the time is over and every request is answered."""
    kind = ProduceConnection if load.mode == "produce" else FetchConnection
    connections = [kind(load, number) for number in range(load.connections)]
    selector = selectors.DefaultSelector()
    for connection in connections:
        if load.mode == "produce":
            connection.sock.setblocking(False)
        selector.register(connection.sock, selectors.EVENT_READ, connection)
    scratch = memoryview(bytearray(256 * 1024))
    started_s = time.perf_counter()
    end_s = started_s + load.seconds
    for connection in connections:
        connection.fill()
    running = True
    while running or any(connection.unanswered for connection in connections):
        for connection in connections:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_send else 0)
            if selector.get_key(connection.sock).events != wanted:
                selector.modify(connection.sock, wanted, connection)
        ready = selector.select(LINGER_AFTER_S)
        if not ready:
            raise TimeoutError("no answer")
        for key, events in ready:
            connection = key.data
            if events & selectors.EVENT_WRITE:
                connection.send()
            if events & selectors.EVENT_READ:
                connection.receive(scratch)
                if running:
                    connection.fill()
        running = running and time.perf_counter() < end_s
    seconds = time.perf_counter() - started_s
    latencies_s = sorted(latency for connection in connections for latency in connection.latencies_s)
    requests = sum(connection.answered for connection in connections)
    for connection in connections:
        connection.sock.close()
    if load.mode == "produce":
        payload_bytes = sum(each.answered * each.bytes_per_request for each in connections)
    else:
        payload_bytes = sum(each.read_bytes for each in connections)
    return Measured(
        requests=requests,
        records=requests * connections[0].records_per_request,
        payload_bytes=payload_bytes,
        seconds=seconds,
        p50_ms=1e3 * latencies_s[len(latencies_s) // 2],
        p99_ms=1e3 * latencies_s[len(latencies_s) * 99 // 100],
    )


def _connect(bootstrap: str) -> socket.socket:
    host, port = bootstrap.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), LINGER_AFTER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _init_producer_id(sock: socket.socket) -> ProducerGrant:
    body = _INT16.pack(-1) + _INT32.pack(60_000)
    give_up_s = time.monotonic() + LINGER_AFTER_S
    while True:
        sock.sendall(_request_head(_INIT_PRODUCER_ID, 1, len(body)) + body)
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + _INT32.unpack_from(answer)[0]:
            answer += sock.recv(4096)
        error_code, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, 12)
        if not error_code:
            return ProducerGrant(producer_id, producer_epoch)
        if not ErrorCode.of(error_code).retriable or time.monotonic() > give_up_s:
            raise RuntimeError(f"no producer id: error {error_code}")
        time.sleep(0.1)  # a node that has just started loads its blocks of ids first


def _request_head(api_key: int, api_version: int, body_bytes: int) -> bytes:
    head = struct.pack(">hhi", api_key, api_version, 0) + _string(CLIENT_ID)
    return _INT32.pack(len(head) + body_bytes) + head


def _string(text: bytes) -> bytes:
    return _INT16.pack(len(text)) + text


def main() -> None:
    mode, bootstrap, topic, partitions, connections, in_flight, batch_bytes, seconds = sys.argv[1:]
    load = Load(
        mode,
        bootstrap,
        topic,
        int(partitions),
        int(connections),
        int(in_flight),
        int(batch_bytes),
        float(seconds),
    )
    json.dump(asdict(run(load)), sys.stdout)


if __name__ == "__main__":
    main()
