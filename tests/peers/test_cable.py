"""A cable that is pulled carries nothing, and one that is plugged in again does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.peers.cable import Cable

TIMEOUT_S = 30.0


@pytest.fixture
def cable() -> Iterator[Cable]:
    """In front of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        with contextlib.closing(Cable(f"127.0.0.1:{listener.getsockname()[1]}")) as cable:
            yield cable
        listener.shutdown(socket.SHUT_RDWR)


def echo(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(100):
            connection.sendall(data)


def connected(cable: Cable) -> socket.socket:
    host, port = cable.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def comes_back(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
        return connection.recv(1) == b"x"
    except (ConnectionResetError, BrokenPipeError):
        return False


def test_a_pulled_cable_ends_its_connections_and_new_ones_until_it_is_plugged_in(cable: Cable) -> None:
    with connected(cable) as before:
        assert comes_back(before)
        cable.pull()
        assert not comes_back(before)
    with connected(cable) as meanwhile:
        assert not comes_back(meanwhile)
    cable.plug_in()
    with connected(cable) as after:
        assert comes_back(after)
