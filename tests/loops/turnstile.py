"""A cable that counts the requests which change something, and stops the flow of things at one of them.

Whoever sends is behind it, in whatever process: so "the seventeenth request of a flow on Spark that changes something"
is a moment that a test can wait for, without a word in the program that it kills.
"""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Final

from tests.peers.forwarder import Forwarder, Line

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


class _Line(Line):
    caught: int | None = None  # the correlation id whose answer nobody gets


@dataclass(slots=True)
class Step:
    """One request that changes something: the ``number``-th from now on, of these ``kinds``."""

    number: int
    is_sent: bool  # to the server; its client is not answered in either case
    kinds: tuple[ApiKey, ...] = CHANGES
    reached: threading.Event = field(default_factory=threading.Event)
    what: str = ""  # once it is reached


class Turnstile(Forwarder[_Line]):
    """Forwards request by request, and holds the connection of the one that it was told to stop at."""

    def __init__(self, target: str = "") -> None:
        self._lock = threading.Lock()
        self._step: Step | None = None
        self._left = 0
        self._held: _Line | None = None
        super().__init__(_Line, target)

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

    def is_kept(self, line: _Line) -> bool:
        return line is self._held

    def carry_requests(self, line: _Line) -> None:
        while (frame := _frame(line.client)) is not None:
            api_key, _, correlation_id = _REQUEST.unpack_from(frame, _SIZE.size)
            step = self._stopped_by(line, api_key)
            if step is None:
                line.server.sendall(frame)
                continue
            step.what = f"{name_of(api_key)}{_topic(frame)}"
            if not step.is_sent:
                step.reached.set()
                return
            line.caught = correlation_id
            line.server.sendall(frame)
            return

    def carry_answers(self, line: _Line) -> None:
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
