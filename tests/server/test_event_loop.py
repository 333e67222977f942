"""Threads beside a real event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event, current_thread

import pytest

from semel.server.event_loop import LoopThreads

LONG_S = 20.0


def run(count: int, test: Callable[[LoopThreads], Awaitable[None]]) -> None:
    async def whole() -> None:
        threads = LoopThreads(asyncio.get_running_loop(), "worker", count)
        async with asyncio.timeout(LONG_S):
            await test(threads)
        threads.close()

    asyncio.run(whole())


async def ended(threads: LoopThreads, work: Callable[[], object]) -> None:
    end = asyncio.Event()
    threads.run(work, end.set)
    await end.wait()


def test_work_is_done_in_a_thread_and_its_end_told_on_the_loop() -> None:
    async def test(threads: LoopThreads) -> None:
        names: list[str] = []
        end = asyncio.Event()

        def done() -> None:
            names.append(current_thread().name)
            end.set()

        threads.run(lambda: names.append(current_thread().name), done)
        await end.wait()
        assert names == ["worker-0", current_thread().name]

    run(1, test)


def test_one_thread_does_one_after_the_other() -> None:
    async def test(threads: LoopThreads) -> None:
        done: list[int] = []
        await asyncio.gather(*(ended(threads, lambda n=n: done.append(n)) for n in range(100)))  # type: ignore[misc]
        assert done == list(range(100))

    run(1, test)


def test_as_many_work_at_once_as_there_are() -> None:
    async def test(threads: LoopThreads) -> None:
        gate, others = Event(), asyncio.Event()
        threads.run(lambda: gate.wait(LONG_S), others.set)
        await ended(threads, gate.set)
        await others.wait()

    run(2, test)


def test_a_defect_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    async def test(threads: LoopThreads) -> None:
        await ended(threads, lambda: 1 / 0)
        threads.run(lambda: None, lambda: 1 / 0)
        await ended(threads, lambda: None)
        assert caplog.text.count("ZeroDivisionError") == 2

    run(1, test)


def test_closing_waits_for_what_was_asked_for() -> None:
    async def test(threads: LoopThreads) -> None:
        done: list[int] = []
        for number in range(10):
            threads.run(lambda number=number: done.append(number), lambda: None)  # type: ignore[misc]
        threads.close()
        assert done == list(range(10))

    run(1, test)
