"""Where a connection's answers leave: through its transport, or past it, from a file into the socket.

``sendfile`` spares both copies of the records, most of what a large fetch costs. uvloop has none, so it is
called here on the transport's own descriptor, and only while the transport itself has nothing left to write.

Invariants
- Bytes leave in the order in which they were given. What the kernel does not take at once goes through the
  transport, which bounds it, and tells the connection, as ever.
- The descriptor is the transport's, which closes it: this lets go of it before.
- Once an answer has begun to leave, only closing the connection can tell of a bad disk: ``OSError``.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Final

from semel.server.storage.outcome import Slice
from semel.wire.frames import Buffer

_JOIN_BYTES_MAX: Final = 64 * 1024  # below this, copying parts together is cheaper than a vectored write
_MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)  # else what precedes the records is a packet of its own


class Outlet:
    """One connection's way out."""

    __slots__ = ("_socket", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket: socket.socket | None = None  # on the transport's descriptor, once it is wanted

    def let_go(self) -> None:
        """The transport is about to close its descriptor."""
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def write(self, parts: Sequence[Buffer]) -> None:
        """All of it through the transport."""
        if len(parts) > 1 and sum(map(len, parts)) > _JOIN_BYTES_MAX:
            self._transport.writelines(parts)
        else:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def send(self, parts: Sequence[Buffer | Slice]) -> None:
        """The same with records that are still in their files."""
        waiting: list[Buffer] = []
        for part in parts:
            if isinstance(part, Slice):
                waiting = self._send_directly(waiting, part)
            else:
                waiting.append(part)
        if waiting:
            self.write(waiting)

    def _send_directly(self, before: list[Buffer], records: Slice) -> list[Buffer]:
        """As much of both as the socket takes now; what is left of them, in memory."""
        if self._transport.get_write_buffer_size() or sum(map(len, before)) > _JOIN_BYTES_MAX:
            return [*before, records.read_whole()]
        if not self._has_socket():
            return [*before, records.read_whole()]
        head = b"".join(before)
        sent_bytes = self._send(head)
        if sent_bytes < len(head):
            return [head[sent_bytes:], records.read_whole()]
        sent_bytes = self._send_file(records)
        return [records.read_whole(sent_bytes)] if sent_bytes < len(records) else []

    def _has_socket(self) -> bool:
        """Whether there is one behind the transport: a simulated network has none."""
        if self._socket is None and (its := self._transport.get_extra_info("socket")) is not None:
            self._socket = socket.socket(fileno=its.fileno())
        return self._socket is not None

    def _send(self, head: bytes) -> int:
        assert self._socket is not None
        try:
            return self._socket.send(head, _MORE_FOLLOWS)
        except OSError:  # it is full, or broken: then the transport will hear of it, too
            return 0

    def _send_file(self, records: Slice) -> int:
        assert self._socket is not None
        descriptor, sent_bytes, end_bytes = self._socket.fileno(), 0, len(records)
        try:
            file = records.file.fileno()
            while sent_bytes < end_bytes:
                count = os.sendfile(descriptor, file, records.position + sent_bytes, end_bytes - sent_bytes)
                if not count:
                    break
                sent_bytes += count
        except OSError:  # as above; or the file cannot do it, which whoever reads the rest will see
            pass
        return sent_bytes
