"""Answers with records from files, over real sockets: nothing lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from semel.server.outlet import Outlet
from semel.server.storage.filesystem import OsFile, OsFileSystem
from semel.server.storage.outcome import Slice

Run = Callable[[Coroutine[Any, Any, None]], None]
CONTENT = os.urandom(3_000_000)


class NoDescriptor(OsFile):
    """A file that ``sendfile`` cannot read."""

    def fileno(self) -> int:
        raise OSError("not here")


@pytest.fixture(params=[uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def file(tmp_path: Path) -> OsFile:
    path = tmp_path / "records"
    path.write_bytes(CONTENT)
    return OsFileSystem().open(path)


async def connected(sent_bytes_max: int) -> tuple[asyncio.Transport, socket.socket]:
    """A transport that takes so much at once, and the other end, which waits for nobody."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sent_bytes_max)
    theirs.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    return transport, theirs


async def received(theirs: socket.socket, size_bytes: int) -> bytes:
    """In small pieces, so that the socket is often full."""
    data = b""
    while len(data) < size_bytes:
        data += await asyncio.get_running_loop().sock_recv(theirs, 50_000)
    return data


@pytest.mark.parametrize("sent_bytes_max", [5_000, 8_000_000])
def test_answers_leave_in_order(run: Run, file: OsFile, sent_bytes_max: int) -> None:
    async def scene() -> None:
        transport, theirs = await connected(sent_bytes_max)
        outlet = Outlet(transport)
        expected = b""
        for n in range(3):
            outlet.send([b"head %d" % n, Slice(file, 10 + n, 200_000), b"tail", Slice(file, 0, 1_000_000)])
            outlet.write([b"next", b"answer"])
            expected += b"head %d" % n + CONTENT[10 + n : 200_010 + n] + b"tail" + CONTENT[:1_000_000]
            expected += b"nextanswer"
        assert await received(theirs, len(expected)) == expected
        assert not transport.get_write_buffer_size()
        outlet.send([b"again", Slice(file, 0, 2)])  # the transport has caught up
        assert await received(theirs, 7) == b"again" + CONTENT[:2]
        outlet.let_go()
        transport.write(b"still the transport's own")
        assert await received(theirs, 25) == b"still the transport's own"
        transport.close()
        theirs.close()

    run(scene())


def test_what_the_kernel_takes_is_not_held_in_memory(run: Run, file: OsFile) -> None:
    async def scene() -> None:
        transport, theirs = await connected(100_000)
        outlet = Outlet(transport)
        outlet.send([b"head", Slice(file, 0, 3_000_000)])
        left_bytes = transport.get_write_buffer_size()
        assert 0 < left_bytes < 3_000_000  # the kernel has the rest
        assert await received(theirs, 3_000_004) == b"head" + CONTENT
        outlet.let_go()
        transport.close()
        theirs.close()

    run(scene())


def test_a_file_that_is_removed_meanwhile_is_sent_all_the_same(
    run: Run, file: OsFile, tmp_path: Path
) -> None:
    async def scene() -> None:
        transport, theirs = await connected(5_000)
        outlet = Outlet(transport)
        (tmp_path / "records").unlink()
        outlet.send([b"", Slice(file, 0, 3_000_000)])
        assert await received(theirs, 3_000_000) == CONTENT
        outlet.let_go()
        transport.close()
        theirs.close()

    run(scene())


def test_a_file_without_a_descriptor_is_read(run: Run, tmp_path: Path) -> None:
    async def scene() -> None:
        path = tmp_path / "records"
        path.write_bytes(CONTENT)
        file = NoDescriptor(os.open(path, os.O_RDONLY))
        transport, theirs = await connected(5_000)
        outlet = Outlet(transport)
        outlet.send([b"head", Slice(file, 5, 100_000), b"tail"])
        assert await received(theirs, 100_008) == b"head" + CONTENT[5:100_005] + b"tail"
        outlet.let_go()
        transport.close()
        theirs.close()

    run(scene())


def test_records_that_are_not_there_are_an_error(run: Run, file: OsFile) -> None:
    """Half an answer must not be followed by another one."""

    async def scene() -> None:
        transport, theirs = await connected(8_000_000)
        outlet = Outlet(transport)
        with pytest.raises(OSError, match="the file ends"):
            outlet.send([b"head", Slice(file, 2_900_000, 200_000)])
        outlet.let_go()
        transport.abort()
        theirs.close()

    run(scene())


def test_a_reader_that_has_gone_is_the_transports_business(run: Run, file: OsFile) -> None:
    async def scene() -> None:
        lost = asyncio.get_running_loop().create_future()

        class Losing(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                outlet.let_go()
                lost.set_result(exc)

        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(Losing, sock=ours)
        outlet = Outlet(transport)
        outlet.send([b"head", Slice(file, 0, 100_000)])
        theirs.close()
        for _ in range(3):
            outlet.send([b"head", Slice(file, 0, 3_000_000)])
        await lost
        assert transport.is_closing()

    run(scene())
