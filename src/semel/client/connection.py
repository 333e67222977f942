"""One connection to one broker: requests go out in call order, answers come back in that order.

Kafka answers a connection's requests strictly in order, so an answer with another number than the oldest
open request's means that the stream is broken. A connection that failed once stays failed: whoever needs the
broker opens a new one, and every open request ends in :class:`~semel.errors.ConnectionLost`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, cast

from semel.errors import ConnectionLost, CorruptRecordBatch
from semel.wire.api import ApiKey
from semel.wire.frames import (
    FRAME_MAX_BYTES,
    Buffer,
    decode_response_header,
    encode_request_header,
    frame_of,
)

_HEAD_BYTES: Final = 4
_TLS_RECORDS: Final = (0x15, 0x16)  # an alert, a handshake
_TLS_MAJOR: Final = 3
_CORRELATION_MODULUS: Final = 2**31
_WRITE_JOIN_BYTES_MAX: Final = 16_384


class Connection(asyncio.BufferedProtocol):
    """Frames over one socket."""

    def __init__(self, client_id: str, name: str) -> None:
        self._client_id, self.name = client_id, name
        self._transport: asyncio.Transport | None = None
        self._head = bytearray(_HEAD_BYTES)
        self._body: bytearray | None = None
        self._filled = 0
        self._correlation_id = 0
        self._open: deque[tuple[int, ApiKey, int, asyncio.Future[memoryview]]] = deque()
        self._lost: str | None = None

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def send(
        self, api_key: ApiKey, version: int, parts: list[Buffer], *, answered: bool = True
    ) -> asyncio.Future[memoryview]:
        """Write one request now; the future is its answer's body (at once an empty one if none will come)."""
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        if self._lost is not None or self._transport is None:
            raise ConnectionLost(f"{self.name}: {self._lost or 'not connected'}")
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) % _CORRELATION_MODULUS
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        if answered:
            self._open.append((correlation_id, api_key, version, future))
        else:
            future.set_result(memoryview(b""))
        frame = frame_of(header, *parts)
        if sum(map(len, frame)) <= _WRITE_JOIN_BYTES_MAX:
            self._transport.write(b"".join(frame))
        else:
            self._transport.writelines(frame)
        return future

    async def ask(self, api_key: ApiKey, version: int, parts: list[Buffer], timeout_ms: float) -> memoryview:
        """Send and wait. A request that gets no answer in time takes the connection with it."""
        future = self.send(api_key, version, parts)
        return await self.wait(future, timeout_ms)

    async def wait(self, future: asyncio.Future[memoryview], timeout_ms: float) -> memoryview:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(future)
        except TimeoutError:
            why = f"no answer within {timeout_ms:.0f} ms"
            future.cancel()
            self.fail(why)
            raise ConnectionLost(f"{self.name}: {why}") from None
        except asyncio.CancelledError:
            if not future.done():
                future.cancel()
            raise

    def fail(self, why: str, *, not_kafka: bool = False) -> None:
        """Give the connection up; every open request is lost."""
        if self._lost is None:
            self._lost = why
            if self._transport is not None:
                self._transport.abort()
        while self._open:
            *_, future = self._open.popleft()
            if not future.done():
                lost = ConnectionLost(f"{self.name}: {why}")
                lost.not_kafka = not_kafka
                future.set_exception(lost)
                future.exception()  # the waiter may be gone; that is no error of its own

    # -- asyncio.BufferedProtocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"the connection broke: {exc}" if exc else "the broker closed the connection")

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._head if self._body is None else self._body)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._body is None:
            if self._filled < _HEAD_BYTES:
                return
            size_bytes = int.from_bytes(self._head, "big", signed=True)
            if not _HEAD_BYTES <= size_bytes <= FRAME_MAX_BYTES:
                self.fail(_not_kafka(bytes(self._head), size_bytes), not_kafka=True)
                return
            self._body, self._filled = bytearray(size_bytes), 0
        elif self._filled == len(self._body):
            frame, self._body, self._filled = self._body, None, 0
            self._answered(frame)

    def _answered(self, frame: bytearray) -> None:
        if not self._open:
            self.fail("an answer that was not asked for")
            return
        expected, api_key, version, future = self._open.popleft()
        try:
            correlation_id, position = decode_response_header(frame, api_key, version)
        except CorruptRecordBatch as error:
            self._open.appendleft((expected, api_key, version, future))
            self.fail(str(error))
            return
        if correlation_id != expected:
            self._open.appendleft((expected, api_key, version, future))
            self.fail(f"answer {correlation_id} where {expected} was due")
        elif not future.done():
            future.set_result(memoryview(frame)[position:])


def _not_kafka(head: bytes, size_bytes: int) -> str:
    """What a port speaks whose answer begins with ``head``."""
    if head[0] in _TLS_RECORDS and head[1] == _TLS_MAJOR:
        return "this port speaks TLS; semel speaks PLAINTEXT only so far: name a listener of that protocol"
    if head == b"HTTP":
        return "this port speaks HTTP, not Kafka's protocol: name the broker's own port"
    return f"an answer of {size_bytes} bytes is not Kafka's protocol"
