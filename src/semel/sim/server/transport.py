"""A connection's transport over a simulated link."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from semel.server.connection import Connection
from semel.server.shell import Shell
from semel.sim.server.event_loop import SimulatedLoop
from semel.sim.world.network import Link
from semel.wire.frames import INT32, LENGTH_BYTES, Buffer


class SimulatedTransport:
    """What asyncio's transport is to the real connection. What it sends is taken at once, answer by answer."""

    def __init__(self, link: Link, loop: SimulatedLoop, shell: Shell) -> None:
        self._link = link
        self._loop = loop
        self._received = bytearray()  # and not read yet
        self._is_reading = True
        self._is_closing = False
        self._connection = Connection(shell)
        self._connection.connection_made(self)  # type: ignore[arg-type]

    def deliver(self, data: bytes) -> None:
        """From the network."""
        self._received += data
        self._read()

    def lost(self) -> None:
        """The network has closed it."""
        if not self._is_closing:
            self._is_closing = True
            self._connection.connection_lost(None)

    def _read(self) -> None:
        """What one read brings after the other, while anybody reads."""
        while self._received and self._is_reading and not self._is_closing:
            buffer = self._connection.get_buffer(-1)
            size_bytes = min(len(buffer), len(self._received))
            buffer[:size_bytes] = self._received[:size_bytes]
            del self._received[:size_bytes]
            self._connection.buffer_updated(size_bytes)

    # -- the connection's side

    def get_extra_info(self, name: str) -> Any:
        return {"peername": (self._link.name, 1), "sockname": ("simulated", 9092)}.get(name)

    def set_write_buffer_limits(self, *, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._read)

    def write(self, data: Buffer) -> None:
        """Whole answers; each is a frame of its own on the network, which may lose any."""
        view, position = memoryview(data), 0
        while position < len(view):
            end = position + LENGTH_BYTES + INT32.unpack_from(view, position)[0]
            self._link.send(bytes(view[position:end]))
            position = end

    def writelines(self, parts: Iterable[Buffer]) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._link.close()
            self._loop.call_soon(self._connection.connection_lost, None)
