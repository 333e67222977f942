"""A cable between client and server that a test can pull, at the moment that hurts most."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from tests.peers.forwarder import Forwarder, Line

_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Trap:
    """What happens at the next request that holds ``marker``."""

    marker: bytes
    forwards: bool  # whether the server gets the request
    cuts: bool  # whether the connection goes with the answer; else it stays open, and nothing goes through


class _Line(Line):
    is_cut = False  # at the next answer
    is_dead = False
    before = b""  # the end of the last chunk: a marker may come in two pieces


class Cable(Forwarder[_Line]):
    """Forwards bytes as they come, but for what it was told to do to some."""

    def __init__(self, target: str = "") -> None:
        self.answers_swallowed = 0
        self.caught = threading.Event()  # the request of :meth:`go_dead_at` or :meth:`cut_after` came by
        self._swallow = 0
        self._trap: _Trap | None = None
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._open.set()
        super().__init__(_Line, target)

    def swallow_answers(self, count: int) -> None:
        """The next ``count`` answers arrive at nobody: each takes its connection with it."""
        with self._lock:
            self._swallow = count

    def cut_after(self, marker: bytes) -> None:
        """The next request that holds ``marker`` arrives; its answer does not, and takes the connection with it."""
        self._trap = _Trap(marker, forwards=True, cuts=True)

    def go_dead_at(self, marker: bytes, *, forwards: bool) -> None:
        """From the next request that holds ``marker`` on, nothing goes through on its connection, which stays open.

        ``forwards``: this one request still does.
        """
        self._trap = _Trap(marker, forwards, cuts=False)

    def hold(self) -> None:
        """Keep back what the server answers, connections stay open."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.set()
        super().close()

    def carry_requests(self, line: _Line) -> None:
        while chunk := line.client.recv(_CHUNK_BYTES):
            self._carry_request(line, chunk)

    def carry_answers(self, line: _Line) -> None:
        while (chunk := line.server.recv(_CHUNK_BYTES)) and self._carry_answer(line, chunk):
            pass

    def _carry_request(self, line: _Line, chunk: bytes) -> None:
        is_forwarded = not line.is_dead
        trap = self._trap
        if trap is not None and is_forwarded:
            seen = line.before + chunk
            line.before = seen[1 - len(trap.marker) :]
            if trap.marker in seen:
                self._trap, is_forwarded = None, trap.forwards
                line.is_cut, line.is_dead = trap.cuts, not trap.cuts
                self.caught.set()
        if is_forwarded:
            line.server.sendall(chunk)

    def _carry_answer(self, line: _Line, chunk: bytes) -> bool:
        """Whether the connection goes on."""
        self._open.wait()
        with self._lock:
            is_swallowed = line.is_cut or self._swallow > 0
            self._swallow = max(0, self._swallow - 1)
            self.answers_swallowed += is_swallowed
        if is_swallowed:
            return False
        if not line.is_dead:
            line.client.sendall(chunk)
        return True
