"""A real server in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_COMMAND = [sys.executable, "-m", "semel.server", "--listen=127.0.0.1:0"]


class ServerProcess:
    """``python -m semel.server`` with its log; ``send`` speaks raw frames to it."""

    def __init__(self, data_dir: Path, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.log_file = data_dir.with_suffix(".log")
        began = time.perf_counter()
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "semel.server",
                    "--listen=127.0.0.1:0",
                    f"--data-dir={data_dir}",
                    *flags,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        self.ready_s = time.perf_counter() - began
        found = re.search(r"ready on (\S+):(\d+),", self.ready_line)
        assert found, self.log
        self.host, self.port = found[1], int(found[2])

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def _wait(self) -> int:
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def read_frame(connection: socket.socket) -> bytes:
    """One answer without its length; empty when the server has closed."""
    head = _read(connection, 4)
    return _read(connection, struct.unpack(">i", head)[0]) if head else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        try:
            more = connection.recv(size - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            return b""
        data += more
    return data


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """``start_server(*flags)``: a server over the same data folder each time; all are gone afterwards."""
    started: list[ServerProcess] = []

    def start(*flags: str, environment: dict[str, str] | None = None) -> ServerProcess:
        server = ServerProcess(tmp_path / "data", *flags, environment=environment)
        started.append(server)
        return server

    yield start
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server()


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One for those of a module's tests that leave it as it was, but for topics with names of their own."""
    server = ServerProcess(tmp_path_factory.mktemp("lasting") / "data")
    yield server
    server.kill()


@pytest.fixture
def frame_reader() -> Callable[[socket.socket], bytes]:
    return read_frame
