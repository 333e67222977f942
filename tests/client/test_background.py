"""The loop on a thread of its own, and what Ctrl-C does to who waits for it."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from semel.client.background import BackgroundLoop, shared_loop

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def background() -> BackgroundLoop:
    return shared_loop()


@pytest.fixture
def free() -> Iterator[threading.Event]:
    """Once it is set, what was slow to end goes on."""
    event = threading.Event()
    yield event
    event.set()


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def interrupt_in(seconds: float) -> None:
    threading.Timer(seconds, interrupt).start()


def test_what_the_work_gives_or_raises_comes_out(background: BackgroundLoop) -> None:
    async def gives() -> int:
        await asyncio.sleep(0)
        return 7

    async def raises() -> None:
        raise ZeroDivisionError("there")

    assert background.run(gives()) == 7
    with pytest.raises(ZeroDivisionError, match="there"):
        background.run(raises())


def test_an_interrupt_waits_until_what_it_cancelled_has_ended(background: BackgroundLoop) -> None:
    undone = []

    async def work() -> None:
        interrupt()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.3)
            undone.append("work")

    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    assert undone == ["work"]


def test_an_interrupt_that_does_not_wake_the_thread_is_noticed(background: BackgroundLoop) -> None:
    """It comes just before the thread falls asleep: one in some thousand that are sent as the work begins."""

    async def work() -> None:
        await asyncio.sleep(0.1)
        _thread.interrupt_main()  # as if it had come then: nothing is sent
        await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        background.run(work())


def test_another_interrupt_does_not_wait(background: BackgroundLoop, free: threading.Event) -> None:
    async def work() -> None:
        interrupt()
        try:
            await asyncio.sleep(60)
        finally:
            interrupt_in(0.2)
            await asyncio.to_thread(free.wait)

    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    assert not free.is_set()


def test_work_that_is_interrupted_before_it_began_does_not_begin(background: BackgroundLoop) -> None:
    began = []

    async def work() -> None:
        began.append("work")

    background.loop.call_soon_threadsafe(time.sleep, 0.5)
    interrupt_in(0.2)
    with pytest.raises(KeyboardInterrupt):
        background.run(work())
    assert not began
