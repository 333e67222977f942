"""One client's connection to the server: requests numbered, answers matched, time-outs, reconnection.

What ``client/connection`` does with asyncio, in simulated time. Every request ends in exactly one call of its
``done``: the answer's body, or None when it will not come (time-out, reset, refused).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from semel.sim.world.network import Link, Network
from semel.sim.world.process import Process
from semel.sim.world.scheduler import Event
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, LENGTH_BYTES, Buffer, decode_response_header, encode_request_header

REQUEST_TIMEOUT_MS: Final = 1_000
RECONNECT_MS: Final = 40

Done = Callable[[memoryview | None], None]


class _Waiting:
    __slots__ = ("api_key", "done", "timeout_ms", "timer", "version")

    def __init__(self, api_key: ApiKey, version: int, done: Done, timeout_ms: int) -> None:
        self.api_key = api_key
        self.version = version
        self.done = done
        self.timeout_ms = timeout_ms
        self.timer: Event | None = None


class Session:
    """A client's side; connects when it is first needed, and again after a failure."""

    def __init__(self, name: str, process: Process, network: Network) -> None:
        self.name: Final = name
        self._process = process
        self._network = network
        self._link: Link | None = None
        self._connecting = False
        self._wanting: list[Callable[[bool], None]] = []  # a connection
        self._unsent: list[tuple[bytes, int, _Waiting]] = []
        self._waiting: dict[int, _Waiting] = {}
        self._received = bytearray()
        self._correlation_id = 0

    def request(
        self,
        api_key: ApiKey,
        version: int,
        body: Sequence[Buffer],
        done: Done,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Send a request, after those before it; its answer may overtake nothing."""
        self._correlation_id += 1
        correlation_id = self._correlation_id
        payload = b"".join((encode_request_header(api_key, version, correlation_id, self.name), *body))
        waiting = _Waiting(api_key, version, done, timeout_ms)
        self._unsent.append((INT32.pack(len(payload)) + payload, correlation_id, waiting))
        if self._link is not None:
            self._send_unsent()
        elif not self._connecting:
            self._connect()

    def when_connected(self, done: Callable[[bool], None]) -> None:
        """Have a connection; or, where none is to be had, do without."""
        if self._link is not None:
            done(True)
            return
        self._wanting.append(done)
        if not self._connecting:
            self._connect()

    def die(self) -> None:
        """The process has ended without a word: nothing is ever called again."""
        self._wanting.clear()
        self._waiting.clear()
        self._unsent.clear()
        if self._link is not None:
            self._network.died(self._link)
            self._link = None

    # -- the network's side -----------------------------------------------------------------------------

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        self._process.soon(lambda: self._take(link, data))

    def _take(self, link: Link, data: bytes) -> None:
        if link is not self._link:
            return
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + INT32.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            frame = memoryview(bytes(self._received[LENGTH_BYTES:end]))
            del self._received[:end]
            waiting = self._waiting.pop(INT32.unpack_from(frame)[0])
            if waiting.timer is not None:
                waiting.timer.cancel()
            if waiting.api_key is not ApiKey.PRODUCE:  # its rows count already
                self._network.counts.operations += 1
            _, start = decode_response_header(frame, waiting.api_key, waiting.version)
            waiting.done(frame[start:])
            if link is not self._link:
                return

    def link_closed(self, link: Link) -> None:
        self._process.soon(lambda: self._lose() if link is self._link else None)

    def _connect(self) -> None:
        self._connecting = True
        self._network.connect(self, self._connected, self._refused)

    def _connected(self, link: Link) -> None:
        self._connecting = False
        if not self._process.alive:
            self._network.died(link)
            return
        self._link = link
        self._received.clear()
        self._send_unsent()
        self._tell_who_wanted(True)

    def _refused(self) -> None:
        self._connecting = False
        if not self._process.alive:
            return
        unsent, self._unsent = self._unsent, []
        for _, _, waiting in unsent:
            waiting.done(None)
        self._tell_who_wanted(False)

    def _tell_who_wanted(self, is_connected: bool) -> None:
        wanting, self._wanting = self._wanting, []
        for done in wanting:
            done(is_connected)

    def _send_unsent(self) -> None:
        assert self._link is not None
        unsent, self._unsent = self._unsent, []
        for frame, correlation_id, waiting in unsent:
            self._waiting[correlation_id] = waiting
            waiting.timer = self._process.after(waiting.timeout_ms, self._timed_out)
            self._link.send(frame)

    def _timed_out(self) -> None:
        if self._link is not None:
            self._link.close()
            self._lose()

    def _lose(self) -> None:
        """The connection is of no more use: all that wait on it will not be answered."""
        self._link = None
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            if one.timer is not None:
                one.timer.cancel()
        for one in waiting.values():
            one.done(None)
