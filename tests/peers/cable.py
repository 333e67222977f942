"""A cable between client and server that a test can pull, at the moment that hurts most."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Trap:
    """What happens at the next request that holds ``marker``."""

    marker: bytes
    forwards: bool  # whether the server gets the request
    cuts: bool  # whether the connection goes with the answer; else it stays open, and nothing goes through


@dataclass(slots=True, eq=False)
class _Line:
    """One connection, both ways."""

    client: socket.socket
    server: socket.socket
    is_cut: bool = False  # at the next answer
    is_dead: bool = False
    before: bytes = b""  # the end of the last chunk: a marker may come in two pieces

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Cable:
    """Forwards connections to ``target``; every client sees only the cable's own address."""

    def __init__(self, target: str = "") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = target
        self.answers_swallowed = 0
        self.caught = threading.Event()  # the request of :meth:`go_dead_at` or :meth:`cut_after` came by
        self._swallow = 0
        self._trap: _Trap | None = None
        self._lock = threading.Lock()
        self._lines: set[_Line] = set()
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._accept, daemon=True).start()

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
                self._lines.add(line)
                for source, carry in ((client, self._carry_request), (line.server, self._carry_answer)):
                    threading.Thread(target=self._pump, args=(line, source, carry), daemon=True).start()

    def _pump(self, line: _Line, source: socket.socket, carry: Callable[[_Line, bytes], bool]) -> None:
        with contextlib.suppress(OSError):
            while (chunk := source.recv(_CHUNK_BYTES)) and carry(line, chunk):
                pass
        line.close()
        self._lines.discard(line)

    def _carry_request(self, line: _Line, chunk: bytes) -> bool:
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
        return True

    def _carry_answer(self, line: _Line, chunk: bytes) -> bool:
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
