"""Callbacks of what runs on the loop, made on the thread that waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from semel.client.background import shared_loop
from semel.client.calls_here import CallsHere


@pytest.fixture
def here() -> CallsHere:
    return CallsHere(shared_loop())


def test_a_callback_runs_on_the_thread_that_waits(here: CallsHere) -> None:
    def double(number: int) -> tuple[int, str]:
        return number * 2, threading.current_thread().name

    async def work() -> list[tuple[int, str]]:
        return [await here.call(double, number) for number in (1, 2)]

    name = threading.current_thread().name
    assert here.run(work()) == [(2, name), (4, name)]


def test_a_callback_may_wait_for_the_loop_itself(here: CallsHere) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return str(await here.call(str.upper, "inner"))

    async def outer() -> tuple[str, str]:
        first = await here.call(lambda _: here.run(inner()), None)
        return first, await here.call(str.lower, "OUTER")

    assert here.run(outer()) == ("INNER", "outer")


def test_what_a_callback_raises_comes_out_of_the_work(here: CallsHere) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError("in the callback")

    async def work() -> None:
        await here.call(fails, None)

    with pytest.raises(ZeroDivisionError, match="in the callback"):
        here.run(work())


@pytest.mark.timeout(20)
def test_a_callback_that_raises_stop_iteration_does_not_make_the_work_wait_for_ever(here: CallsHere) -> None:
    """As in a coroutine it becomes a RuntimeError: no future takes it."""

    async def work() -> None:
        await here.call(next, iter(()))

    with pytest.raises(RuntimeError, match="raised StopIteration") as told:
        here.run(work())
    assert isinstance(told.value.__cause__, StopIteration)


def test_an_interrupt_in_a_callback_ends_the_work(here: CallsHere) -> None:
    cancelled = threading.Event()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    async def work() -> None:
        try:
            await here.call(interrupted, None)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        here.run(work())
    assert cancelled.wait(5)
