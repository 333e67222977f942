"""What stands between client and server in a test: accepts connections, and opens one of its own for each."""

from __future__ import annotations

import contextlib
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar


class Line:
    """One connection, both ways; both ends are closed by :meth:`close`."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


L = TypeVar("L", bound=Line)


class Forwarder(ABC, Generic[L]):
    """Forwards connections to ``target``; a server has to advertise ``address``, which alone its clients see."""

    def __init__(self, line: type[L], target: str = "") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = target
        self._line = line
        self._lines: set[L] = set()
        self._pulled = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @abstractmethod
    def carry_requests(self, line: L) -> None:
        """Until the client has no more, in a thread of its own."""

    @abstractmethod
    def carry_answers(self, line: L) -> None:
        """Until the server has no more, in a thread of its own."""

    def is_kept(self, line: L) -> bool:
        """Whether a line stays open that is carried no further."""
        return False

    def pull(self) -> None:
        """End all connections, and every new one at once, until :meth:`plug_in`."""
        self._pulled.set()
        self._close_lines()

    def plug_in(self) -> None:
        """Forward again what comes from now on."""
        self._pulled.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self._close_lines()

    def _close_lines(self) -> None:
        for line in list(self._lines):
            line.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._pulled.is_set():
                    client.close()
                    continue
                host, port = self.target.rsplit(":", 1)
                try:
                    line = self._line(client, socket.create_connection((host, int(port))))
                except OSError:
                    client.close()
                    continue
                for end in (line.client, line.server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._lines.add(line)
                for carry in (self.carry_requests, self.carry_answers):
                    threading.Thread(target=self._run, args=(line, carry), daemon=True).start()
                if self._pulled.is_set():  # since it was looked at above
                    line.close()

    def _run(self, line: L, carry: Callable[[L], None]) -> None:
        with contextlib.suppress(OSError):
            carry(line)
        if not self.is_kept(line):
            line.close()
        self._lines.discard(line)
