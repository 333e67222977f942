"""A TCP proxy that loses one answer: what a write came to can then only be read back."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Final, Self

_CHUNK_BYTES: Final = 65_536


class CuttingProxy:
    """Between a client and ``target_port``. After ``cut_after(marker)`` the next request that holds ``marker``
    reaches the server, and its answer is thrown away together with the connection."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._marker: bytes | None = None
        self.cuts = 0

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut_after(self, marker: bytes) -> None:
        self._marker = marker

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                return
            is_cut = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, is_cut), daemon=True).start()
            threading.Thread(target=self._answers, args=(client, server, is_cut), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(_CHUNK_BYTES):
                if self._marker is not None and self._marker in chunk:
                    self._marker = None
                    self.cuts += 1
                    is_cut.set()
                server.sendall(chunk)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()

    def _answers(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(_CHUNK_BYTES):
                if is_cut.is_set():  # the server has answered, so the write has landed
                    break
                client.sendall(chunk)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()
