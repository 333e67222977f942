"""A cable that counts the requests which change something, and stops the flow of things at one of them.

Whoever sends is behind it, in whatever process: so "the seventeenth request of a flow on Spark that changes something"
is a moment that a test can wait for, without a word in the program that it kills.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from semel.wire.api import ApiKey
from semel.wire.api_names import name_of

CHANGES: Final = (
    ApiKey.PRODUCE,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
)
_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">hhi")  # API, its version, correlation id


@dataclass(slots=True, eq=False)
class _Line:
    """One connection, both ways; both ends are closed by :meth:`close` alone."""

    client: socket.socket
    server: socket.socket
    caught: int | None = None  # the correlation id whose answer nobody gets

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass(slots=True)
class Step:
    """One request that changes something: the ``number``-th from now on, and whether it reaches the server.

    ``kinds``: of those alone.
    """

    number: int
    is_answered: bool
    kinds: tuple[ApiKey, ...] = CHANGES
    reached: threading.Event = field(default_factory=threading.Event)
    what: str = ""  # once it is reached


class Turnstile:
    """Forwards connections to ``target``; a server has to advertise ``address``."""

    def __init__(self, target: str = "") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = target
        self._lock = threading.Lock()
        self._step: Step | None = None
        self._left = 0
        self._held: _Line | None = None
        self._lines: set[_Line] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop_at(self, step: Step) -> None:
        """The connection of that request stands still, until :meth:`let_go`."""
        with self._lock:
            self._step, self._left = step, step.number

    def let_go(self) -> None:
        """Forget the step; the connection that stands still ends, without an answer."""
        with self._lock:
            held, self._held, self._step = self._held, None, None
        if held is not None:
            held.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        for line in list(self._lines):
            line.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, port = self.target.rsplit(":", 1)
                try:
                    line = _Line(client, socket.create_connection((host, int(port))))
                except OSError:
                    client.close()
                    continue
                for end in (line.client, line.server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._lines.add(line)
                for carry in (self._carry_requests, self._carry_answers):
                    threading.Thread(target=self._run, args=(line, carry), daemon=True).start()

    def _run(self, line: _Line, carry: Callable[[_Line], None]) -> None:
        with contextlib.suppress(OSError):
            carry(line)
        if line is not self._held:
            line.close()
        self._lines.discard(line)

    def _carry_requests(self, line: _Line) -> None:
        while (frame := _frame(line.client)) is not None:
            api_key, _, correlation_id = _REQUEST.unpack_from(frame, _SIZE.size)
            step = self._stopped_by(line, api_key)
            if step is None:
                line.server.sendall(frame)
                continue
            step.what = f"{name_of(api_key)}{_topic(frame)}"
            if not step.is_answered:
                step.reached.set()
                return
            line.caught = correlation_id
            line.server.sendall(frame)
            return

    def _carry_answers(self, line: _Line) -> None:
        while (frame := _frame(line.server)) is not None:
            if line.caught is not None and _SIZE.unpack_from(frame, _SIZE.size)[0] == line.caught:
                with self._lock:
                    step = self._step
                if step is not None:
                    step.reached.set()
                return
            line.client.sendall(frame)

    def _stopped_by(self, line: _Line, api_key: int) -> Step | None:
        with self._lock:
            step = self._step
            if step is None or self._held is not None or api_key not in step.kinds:
                return None
            self._left -= 1
            if self._left >= 0:
                return None
            self._held = line
            return step


def _frame(end: socket.socket) -> bytes | None:
    """A request or an answer with its size; ``None`` at the end of the connection."""
    start = _exactly(end, _SIZE.size)
    if start is None:
        return None
    body = _exactly(end, _SIZE.unpack(start)[0])
    return None if body is None else start + body


def _exactly(end: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        chunk = end.recv(size - len(received))
        if not chunk:
            return None
        received += chunk
    return bytes(received)


def _topic(frame: bytes) -> str:
    """What a flow's request goes to, as far as its own names tell it."""
    for mark, what in (
        (b"__semel_sinks", "the decisions"),
        (b".changelog", "a changelog"),
        (b".merge", "a merge log"),
    ):
        if mark in frame[:512]:
            return f" to {what}"
    return ""
