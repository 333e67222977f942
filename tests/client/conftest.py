"""A cable between client and server that a test can pull, at the moment that hurts most."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import semel


class Cable:
    """Forwards connections to ``target``; every client sees only the cable's own address."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target: str = ""
        self.answers_swallowed = 0
        self._swallow = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow_answers(self, count: int) -> None:
        """The next ``count`` answers arrive at nobody: each takes its connection with it."""
        with self._lock:
            self._swallow = count

    def hold(self) -> None:
        """Keep back what the server answers, connections stay open."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.set()
        self._listener.close()
        for end in list(self._sockets):
            _close(end)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, port = self.target.rsplit(":", 1)
                try:
                    server = socket.create_connection((host, int(port)))
                except OSError:
                    client.close()
                    continue
                self._sockets |= {client, server}
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                if is_answer:
                    self._open.wait()
                    with self._lock:
                        swallow, self._swallow = self._swallow > 0, max(0, self._swallow - 1)
                        self.answers_swallowed += swallow
                    if swallow:
                        break
                sink.sendall(chunk)
        for end in (source, sink):
            _close(end)
            self._sockets.discard(end)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@pytest.fixture
def cable_to(semel_server_factory: Callable[..., semel.LocalLog]) -> Iterator[Callable[..., Cable]]:
    """``cable_to(**settings)``: a server behind a cable, whose address it tells its clients."""
    cables = []

    def lay(**settings: str | int | bool) -> Cable:
        cable = Cable()
        cables.append(cable)
        cable.target = semel_server_factory(advertised=cable.bootstrap, **settings).bootstrap
        return cable

    yield lay
    for cable in cables:
        cable.close()


@pytest.fixture
def cable(cable_to: Callable[..., Cable]) -> Cable:
    return cable_to()
