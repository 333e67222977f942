"""One connection of the load generator: an endless stream of requests, with so many allowed unanswered."""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from bench.load import Load
from bench.load.frames import (
    CROWD_IDS_FROM,
    INT16,
    INT32,
    INT64,
    NOBODY,
    CrowdRing,
    FrameRing,
    NobodysRing,
    batch_of,
    fetch_reply_head,
    fetch_request,
    init_producer_id_request,
    produce_reply,
)
from semel.errors import ErrorCode
from semel.types import ProducerGrant

PATIENCE_S: Final = 30.0  # an answer that takes longer than this is a hang
_RECEIVE_BYTES: Final = 64 * 1024
_NOTHING_SAMPLED: Final = -1
_DROPPED: Final = bytearray(1024 * 1024)  # never written to: how much one call may drop


class Connection:
    """What the two kinds share. Of the latencies it keeps a sample: one request at a time is watched."""

    records_per_request = 0

    def __init__(self, bootstrap: str) -> None:
        self.sock = connect(bootstrap)
        self.blocked = False  # the socket takes no more bytes for now
        self.answered = 0
        self.payload_bytes = 0
        self.latencies_s: list[float] = []
        self._watched = _NOTHING_SAMPLED
        self._watched_since_s = 0.0

    def _watch(self, request: int) -> None:
        if self._watched == _NOTHING_SAMPLED:
            self._watched, self._watched_since_s = request, time.perf_counter()

    def _now_answered(self, count: int) -> None:
        self.answered += count
        if self._watched != _NOTHING_SAMPLED and self.answered > self._watched:
            self.latencies_s.append(time.perf_counter() - self._watched_since_s)
            self._watched = _NOTHING_SAMPLED


class ProduceConnection(Connection):
    """One producer that writes to one partition, or many to many, acks=all. Any error ends the run."""

    def __init__(self, bootstrap: str, load: Load, number: int) -> None:
        super().__init__(bootstrap)
        crowd = range(number, load.producers, load.connections)
        grant = _init_producer_id(self.sock)  # by which the client is known, too, and may send large requests
        if crowd:
            grant = ProducerGrant(CROWD_IDS_FROM, 0)
        batch = batch_of(load.batch_bytes, grant if load.idempotent else NOBODY)
        ring = FrameRing if load.idempotent else NobodysRing
        self.sock.setblocking(False)
        self.records_per_request = batch.records
        self._batch_bytes = len(batch.encoded)
        self._ring = (
            CrowdRing(load.topic, load.partitions, batch, crowd, load.turns_before)
            if crowd
            else ring(load.topic, number % load.partitions, batch, load.in_flight)
        )
        reply, self._error_at = produce_reply(load.topic)
        self._reply_bytes = len(reply)
        self._in_flight = load.in_flight
        self._requests_max = load.requests or 2**62
        self._ring.refill(0)
        self._lap_began_bytes = 0
        self._sent_bytes = 0
        self._received = bytearray(_RECEIVE_BYTES)
        self._received_view = memoryview(self._received)
        self._left_bytes = 0

    @property
    def finished(self) -> bool:
        return self.answered >= self._requests_max

    def allow(self, requests: int) -> None:
        """So many more than are answered by now: for a run in bursts, on one connection."""
        self._requests_max = self.answered + requests

    def stop(self) -> None:
        """Send the rest of the request that is on its way, and no other."""
        self._requests_max = min(self._requests_max, -(-self._sent_bytes // self._ring.frame_bytes))

    def send(self) -> None:
        """All that is allowed and that the socket takes."""
        ring = self._ring
        ring_bytes = len(ring.view)
        allowed_bytes = min(self.answered + self._in_flight, self._requests_max) * ring.frame_bytes
        self.blocked = False
        while self._sent_bytes < allowed_bytes:
            position = self._sent_bytes - self._lap_began_bytes
            if position == ring_bytes:
                self._lap_began_bytes, position = self._sent_bytes, 0
                ring.refill(self._sent_bytes // ring.frame_bytes)
            end = min(ring_bytes, allowed_bytes - self._lap_began_bytes)
            self._watch(self._sent_bytes // ring.frame_bytes)
            try:
                self._sent_bytes += self.sock.send(ring.view[position:end])
            except BlockingIOError:
                self.blocked = True
                return

    def receive(self) -> None:
        left_bytes = self._left_bytes
        count = self.sock.recv_into(self._received_view[left_bytes:] if left_bytes else self._received)
        if count == 0:
            raise ConnectionError("the server closed the connection")
        filled = left_bytes + count
        whole = filled // self._reply_bytes
        end = whole * self._reply_bytes
        for low_byte in (0, 1):
            if any(self._received[self._error_at + low_byte : end : self._reply_bytes]):
                (error_code,) = INT16.unpack_from(self._received, self._error_at)
                raise RuntimeError(f"produce was answered with an error ({error_code} in the first answer)")
        self._left_bytes = filled - end
        if end != filled:
            self._received[: self._left_bytes] = self._received[end:filled]
        self.payload_bytes += whole * self._batch_bytes
        self._now_answered(whole)


class FetchConnection(Connection):
    """Reads one partition from its start, over and over, one request at a time; all batches are alike.

    Only whole batches count: what else an answer brings is fetched again. Each answer has to begin with the
    offset that was asked for; of the records no more is looked at. The kernel drops the rest without a copy
    (MSG_TRUNC), or the generator's copying would be what is measured.
    """

    def __init__(self, bootstrap: str, load: Load, number: int) -> None:
        super().__init__(bootstrap)
        self.sock.setblocking(False)
        stored = batch_of(load.batch_bytes, ProducerGrant(0, 0))
        self.records_per_request = load.fetch_bytes // len(stored.encoded) * stored.records
        self._batch_bytes, self._batch_records = len(stored.encoded), stored.records
        self._request, self._offset_at = fetch_request(load.topic, number % load.partitions, load.fetch_bytes)
        self._records_at = len(fetch_reply_head(load.topic, 0, 0))
        self._head = memoryview(bytearray(self._records_at + 8))  # up to the first batch's base offset
        self._requests_max = load.requests or 2**62
        self._received_bytes = 0
        self._answer_bytes = len(self._head)
        self._sent = 0
        self._next_offset = 0

    @property
    def finished(self) -> bool:
        return self.answered >= self._requests_max

    def stop(self) -> None:
        self._requests_max = min(self._requests_max, self._sent)

    def send(self) -> None:
        if self._sent > self.answered or self._sent >= self._requests_max:
            return
        INT64.pack_into(self._request, self._offset_at, self._next_offset)
        self._watch(self._sent)
        self.sock.send(self._request)  # less than a hundred bytes into an empty socket: it takes them
        self._sent += 1

    def receive(self) -> None:
        head = self._head
        if self._received_bytes < len(head):
            count = self.sock.recv_into(head[self._received_bytes :])
            if self._received_bytes + count >= 4:
                self._answer_bytes = 4 + INT32.unpack_from(head)[0]
        else:
            missing_bytes = min(self._answer_bytes - self._received_bytes, len(_DROPPED))
            count = self.sock.recv_into(_DROPPED, missing_bytes, socket.MSG_TRUNC)
        if count == 0:
            raise ConnectionError("the server closed the connection")
        self._received_bytes += count
        if self._received_bytes >= self._answer_bytes:
            self._received_bytes, self._answer_bytes = 0, len(head)
            self._take_answer()

    def _take_answer(self) -> None:
        error_code, high_watermark = struct.unpack_from(">hq", self._head, self._records_at - 26)
        (records_bytes,) = INT32.unpack_from(self._head, self._records_at - 4)
        whole = records_bytes // self._batch_bytes
        if error_code or not whole:
            raise RuntimeError(f"fetch was answered with error {error_code} and {records_bytes} bytes")
        (base_offset,) = INT64.unpack_from(self._head, self._records_at)
        if base_offset != self._next_offset:
            raise RuntimeError(f"asked for offset {self._next_offset}, got {base_offset}")
        self._next_offset += whole * self._batch_records
        if self._next_offset >= high_watermark:
            self._next_offset = 0
        self.payload_bytes += whole * self._batch_bytes
        self._now_answered(1)


def connect(bootstrap: str) -> socket.socket:
    host, port = bootstrap.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _init_producer_id(sock: socket.socket) -> ProducerGrant:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        sock.sendall(init_producer_id_request())
        answer = b""
        while len(answer) < 4 or len(answer) < 4 + INT32.unpack_from(answer)[0]:
            answer += sock.recv(4096)
        error_code, producer_id, producer_epoch = struct.unpack_from(">hqh", answer, 12)
        if not error_code:
            return ProducerGrant(producer_id, producer_epoch)
        if not ErrorCode.of(error_code).retriable or time.monotonic() > give_up_s:
            raise RuntimeError(f"no producer id: error {error_code}")
        time.sleep(0.1)  # a node that has just started loads its blocks of ids first
