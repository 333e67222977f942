"""A proxy between a real client and a real log that can tell the client another answer than the log's.

Everything passes through unchanged, but for one attempt at a Produce of a client that a :class:`Strike` names.
Clients are told apart by their client id. Each writes to one partition, one batch in a request; anything else
ends its connection, and :meth:`Proxy.attempts` says so.

The log has to advertise the proxy's address, or clients would go round it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID

from semel.errors import ErrorCode
from semel.record.batch import decode_header, decode_records
from semel.wire import produce
from semel.wire.api import ApiKey
from semel.wire.frames import (
    INT32,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_response_header,
)
from semel.wire.produce import ProducedPartition

COMPANY_TIMEOUT_S: Final = 15.0  # until the attempts that go together have all come and been answered


@dataclass(slots=True)
class Attempt:
    """One Produce request as it came from the client, and what the client was told."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    values: tuple[bytes | None, ...]
    error_code: ErrorCode | None = None  # None: it got no answer


@dataclass(frozen=True, slots=True)
class Strike:
    """What befalls the ``nth`` attempt (from 1) of a client.

    So many attempts as ``together`` says, the struck one first, are answered in one write: a client that sends
    on without waiting has always done so when it hears of the first. ``answer`` takes the place of the log's
    own; with ``forwarded`` false the log never sees the batch. ``lost``: there is no answer to any of them,
    the connection ends, and before the log sees another attempt ``before_more`` runs, in a thread.
    """

    nth: int
    together: int = 1
    answer: ErrorCode | None = None
    forwarded: bool = True
    lost: bool = False
    before_more: Callable[[], None] | None = None


@dataclass(slots=True)
class _Story:
    """What is known of one client."""

    strike: Strike
    attempts: list[Attempt] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    gate: asyncio.Future[None] | None = None


@dataclass(slots=True, eq=False)
class _Owed:
    """An answer that a connection waits for; answers go out in the order of the requests."""

    header: RequestHeader
    answer: asyncio.Future[bytes]
    topic: str | UUID = ""  # of a produce request, as it names it
    story: _Story | None = None
    attempt: Attempt | None = None
    strike: Strike | None = None


class Proxy:
    """Listens on a free loopback port from the start; give it its log with :meth:`forward_to`."""

    def __init__(self) -> None:
        self._stories: dict[str, _Story] = {}
        self._upstream = ("", 0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._connections: set[asyncio.Task[None]] = set()
        self._server = self._call(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.address = "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())

    def forward_to(self, address: str) -> None:
        """Where the log is."""
        host, port = address.rsplit(":", 1)
        self._upstream = host, int(port)

    def strike(self, client_id: str, strike: Strike) -> None:
        """Follow a client from now on, and strike it once."""
        self._stories[client_id] = _Story(strike)

    def attempts(self, client_id: str) -> list[Attempt]:
        """What the client has sent so far."""
        story = self._stories[client_id]
        if story.errors:
            raise ExceptionGroup(f"the proxy could not follow {client_id}", story.errors)
        return list(story.attempts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(COMPANY_TIMEOUT_S)

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._connections.add(this)
        try:
            log_in, log_out = await asyncio.open_connection(*self._upstream)
            await _Connection(self._stories, client_in, client_out, log_in, log_out).run()
        except (OSError, asyncio.CancelledError):
            client_out.close()  # the log does not answer, or all is over
        finally:
            self._connections.discard(this)


class _Connection:
    """One client's connection, and the one to the log that belongs to it."""

    def __init__(
        self,
        stories: dict[str, _Story],
        client_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        log_in: asyncio.StreamReader,
        log_out: asyncio.StreamWriter,
    ) -> None:
        self._stories = stories
        self._client_in, self._client_out = client_in, client_out
        self._log_in, self._log_out = log_in, log_out
        self._owed: asyncio.Queue[_Owed] = asyncio.Queue()
        self._asked: deque[_Owed] = deque()
        self._story: _Story | None = None

    async def run(self) -> None:
        """Until either side ends it."""
        tasks = [asyncio.create_task(each()) for each in (self._requests, self._log_answers, self._answers)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._log_out.close()
            self._client_out.close()
        for task in done:
            error = task.exception()
            ended = (asyncio.IncompleteReadError, ConnectionError)
            if isinstance(error, Exception) and not isinstance(error, ended) and self._story is not None:
                self._story.errors.append(error)

    async def _requests(self) -> None:
        while True:
            frame = await _read_frame(self._client_in)
            header, body_at = decode_request_header(frame)
            owed = _Owed(header, asyncio.get_running_loop().create_future())
            if header.api_key == ApiKey.PRODUCE and header.client_id in self._stories:
                self._story = owed.story = self._stories[header.client_id]
                await self._note(owed, self._story, frame[body_at:])
            strike = owed.strike
            if strike is not None and not strike.forwarded:
                owed.answer.set_result(_refusal(owed))
            else:
                self._asked.append(owed)
                self._log_out.write(INT32.pack(len(frame)) + frame)
            self._owed.put_nowait(owed)

    async def _note(self, owed: _Owed, story: _Story, body: bytes) -> None:
        (item,) = produce.decode_request(owed.header.api_version, body).partitions
        assert item.partition == 0 and item.records is not None
        owed.topic = item.topic
        header = decode_header(item.records)
        values = tuple(record.value for record in decode_records(item.records))
        owed.attempt = Attempt(header.producer_id, header.producer_epoch, header.base_sequence, values)
        story.attempts.append(owed.attempt)
        if len(story.attempts) == story.strike.nth:
            owed.strike = story.strike
        if story.gate is not None:
            await asyncio.shield(story.gate)

    async def _log_answers(self) -> None:
        while True:
            frame = await _read_frame(self._log_in)
            owed = self._asked.popleft()
            if owed.strike is not None and owed.strike.answer is not None:
                owed.answer.set_result(_refusal(owed))
                continue
            if owed.attempt is not None:
                (result,) = _results(owed, frame)
                owed.attempt.error_code = ErrorCode.of(result.error_code)
            owed.answer.set_result(INT32.pack(len(frame)) + frame)

    async def _answers(self) -> None:
        while True:
            owed = await self._owed.get()
            if owed.strike is None:
                self._client_out.write(await owed.answer)
                continue
            company = await self._company_of(owed, owed.strike)
            if not owed.strike.lost:
                self._client_out.write(b"".join([await each.answer for each in company]))
                continue
            for each in company:
                if each.attempt is not None:
                    each.attempt.error_code = None
            if owed.strike.before_more is not None:
                assert owed.story is not None
                owed.story.gate = asyncio.ensure_future(asyncio.to_thread(owed.strike.before_more))
            return  # which closes the connection

    async def _company_of(self, struck: _Owed, strike: Strike) -> list[_Owed]:
        """The struck attempt and those that are answered with it, once all of their answers are there."""
        company = [struck]
        async with asyncio.timeout(COMPANY_TIMEOUT_S):
            while sum(each.attempt is not None for each in company) < strike.together:
                company.append(await self._owed.get())
            for each in company:
                await each.answer
        return company


def _refusal(owed: _Owed) -> bytes:
    """The answer that takes the place of the log's: what semel would say with this code."""
    assert owed.strike is not None and owed.strike.answer is not None and owed.attempt is not None
    owed.attempt.error_code = owed.strike.answer
    header = owed.header
    refused = ProducedPartition(owed.topic, 0, owed.strike.answer, -1, log_start_offset=0)
    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
    body = produce.encode_response(header.api_version, [refused])
    return INT32.pack(len(head) + len(body)) + head + body


def _results(owed: _Owed, frame: bytes) -> list[ProducedPartition]:
    _, body_at = decode_response_header(frame, ApiKey.PRODUCE, owed.header.api_version)
    return produce.decode_response(owed.header.api_version, frame[body_at:])[0]


async def _read_frame(stream: asyncio.StreamReader) -> bytes:
    (size_bytes,) = INT32.unpack(await stream.readexactly(INT32.size))
    return await stream.readexactly(size_bytes)
