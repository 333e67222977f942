"""A server that only answers: how fast the load generator is when nothing holds it up.

``python -m bench.load.sink LOAD-AS-JSON`` says where it listens. It counts bytes, never looks at them (the
kernel drops them), and answers each whole request with the same prebuilt bytes.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys

from bench.load import Load
from bench.load.frames import (
    INIT_PRODUCER_ID,
    INT16,
    INT32,
    INT64,
    batch_of,
    fetch_reply_head,
    produce_reply,
)
from semel.types import ProducerGrant

_SCRATCH = memoryview(bytearray(1024 * 1024))
_REPLIES_MAX = 64
_PRODUCER = INT32.pack(20) + INT32.pack(0) + INT32.pack(0) + INT16.pack(0) + INT64.pack(1) + INT16.pack(0)


class Answering:
    """One connection: its requests all have the size of the first (after the one for a producer id)."""

    def __init__(self, sock: socket.socket, load: Load, answers: Answers) -> None:
        self.sock, self._answers = sock, answers
        self._request_bytes = 0
        self._counted_bytes = 0
        self._unsent_bytes = 0
        self.blocked = False

    def receive(self) -> bool:
        """False once the other side has gone."""
        if self._request_bytes:
            self._counted_bytes += (count := self.sock.recv_into(_SCRATCH, len(_SCRATCH), socket.MSG_TRUNC))
        else:
            self._counted_bytes = count = self.sock.recv_into(_SCRATCH)
            if not count:
                return False
            size, api_key = struct.unpack_from(">ih", _SCRATCH)
            if api_key == INIT_PRODUCER_ID:
                self.sock.send(_PRODUCER)
                self._counted_bytes = 0
                return True
            self._request_bytes = 4 + size
        whole, self._counted_bytes = divmod(self._counted_bytes, self._request_bytes)
        self._unsent_bytes += whole * self._answers.reply_bytes
        return bool(count)

    def send(self) -> None:
        self.blocked = False
        while self._unsent_bytes:
            # Every stretch of replies ends where one reply ends.
            begin = -self._unsent_bytes % self._answers.reply_bytes
            try:
                self._unsent_bytes -= self._answers.send(self.sock, begin, self._unsent_bytes)
            except BlockingIOError:
                self.blocked = True
                return


class Answers:
    """Replies one behind the other, in memory or (the large ones) in a file that ``sendfile`` takes them from."""

    def __init__(self, load: Load) -> None:
        if load.mode == "produce":
            reply, _ = produce_reply(load.topic)
            self._replies = memoryview(reply * _REPLIES_MAX)
            self._file = -1
        else:
            batch = batch_of(load.batch_bytes, ProducerGrant(0, 0))
            count = load.fetch_bytes // len(batch.encoded)
            # A high watermark right behind the records sends the reader back to offset 0.
            head = fetch_reply_head(load.topic, count * batch.records, count * len(batch.encoded))
            reply = head + batch.encoded * count
            self._file = os.memfd_create("reply")
            os.write(self._file, reply)
        self.reply_bytes = len(reply)

    def send(self, sock: socket.socket, begin: int, count: int) -> int:
        if self._file < 0:
            return sock.send(self._replies[begin : begin + count])
        return os.sendfile(sock.fileno(), self._file, begin, min(count, self.reply_bytes - begin))


def serve(listener: socket.socket, load: Load) -> None:
    """Until the process is ended."""
    answers = Answers(load)
    poller = select.epoll()
    poller.register(listener.fileno(), select.EPOLLIN)
    connections: dict[int, Answering] = {}
    while True:
        for descriptor, events in poller.poll():
            if descriptor == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[sock.fileno()] = Answering(sock, load, answers)
                poller.register(sock.fileno(), select.EPOLLIN)
                continue
            connection = connections[descriptor]
            if events & ~select.EPOLLOUT:
                try:
                    is_open = connection.receive()
                except ConnectionError:
                    is_open = False
                if not is_open:
                    poller.unregister(descriptor)
                    connections.pop(descriptor).sock.close()
                    continue
            was_blocked = connection.blocked
            connection.send()
            if connection.blocked != was_blocked:
                poller.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if connection.blocked else 0))


def main() -> None:
    load = Load(**json.loads(sys.argv[1]))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
        serve(listener, load)


if __name__ == "__main__":
    main()
