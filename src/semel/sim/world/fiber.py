"""Blocking code in simulated time: a thread that runs only while nobody else does.

The shells of the Spark sink block. Each of their calls runs in a fiber: it goes on until it has to wait, hands
over to whoever woke it, and is woken when what it waits for is known. There is never more than one thread
running, and who that is depends on events only, so a history stays a function of its seed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from semel.sim.clients.cluster import drive
from semel.sim.world.process import Process

_T = TypeVar("_T")


class Ended(BaseException):
    """The process of this fiber is gone: unwind, and touch nothing."""


class Fiber:
    """One blocking call. ``done`` gets its result or its exception, unless its process ends before."""

    def __init__(
        self, process: Process, work: Callable[[], Any], done: Callable[[Any, Exception | None], None]
    ) -> None:
        self.process: Final = process
        self._work = work
        self._done = done
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_over = False
        self._carrier = _IDLE.pop() if _IDLE else _Carrier()

    def start(self) -> None:
        self._carrier.run = self._run
        self._hand_over()

    def wait(self) -> None:
        """From inside: stand still until somebody wakes this fiber."""
        if not self.process.alive:
            raise Ended
        self._carrier.pause.release()
        self._carrier.go.acquire()
        if not self.process.alive:
            raise Ended

    def wake(self) -> None:
        """From outside, when what it waits for is known."""
        if self.process.alive and not self._is_over:
            self._hand_over()

    def end(self) -> None:
        """Its process is dead: let it unwind."""
        assert not self.process.alive
        if not self._is_over and _CURRENT.get(None) is not self:
            self._let_go_on()

    def _hand_over(self) -> None:
        self._let_go_on()
        if self._is_over and (self._error is None or isinstance(self._error, Exception)):
            self._done(self._result, self._error)

    def _let_go_on(self) -> None:
        """Until it stands still or is over."""
        self._carrier.go.release()
        self._carrier.pause.acquire()
        if self._is_over:
            _IDLE.append(self._carrier)

    def _run(self) -> None:
        current = _CURRENT.set(self)
        try:
            self._result = self._work()
        except BaseException as error:  # handed over to whoever asked
            self._error = error
        self._is_over = True
        _CURRENT.reset(current)


class _Carrier:
    """A thread that carries one fiber after another: a new one would cost ten changes of who runs.

    Invariant: while it is idle it holds on to nothing of a fiber. What is let go of is let go of while nobody
    else runs.
    """

    def __init__(self) -> None:
        self.run: Callable[[], None] | None = None
        self.go = _closed_gate()
        self.pause = _closed_gate()
        threading.Thread(target=self._carry, name="fiber", daemon=True).start()

    def _carry(self) -> None:
        while True:
            self.go.acquire()
            run, self.run = self.run, None
            assert run is not None
            run()
            del run
            self.pause.release()


def _closed_gate() -> threading.Lock:
    """Whoever comes waits for one ``release``; a plain lock, because a semaphore costs ten times as much."""
    gate = threading.Lock()
    gate.acquire()
    return gate


_CURRENT: Final[ContextVar[Fiber]] = ContextVar("fiber")
_IDLE: Final[list[_Carrier]] = []  # as many as ever ran at once


class Pending(Generic[_T]):
    """What ``concurrent.futures.Future`` is to a blocking client, in a fiber."""

    def __init__(self) -> None:
        self._result: Any = None
        self._error: Exception | None = None
        self._is_known = False
        self._waiting: Fiber | None = None

    def know(self, result: _T | None = None, error: Exception | None = None) -> None:
        assert not self._is_known, "whoever waits may be waiting for something else by now"
        self._result, self._error, self._is_known = result, error, True
        if self._waiting is not None:
            self._waiting.wake()

    def result(self) -> _T:
        if not self._is_known:
            self._waiting = _CURRENT.get()
            self._waiting.wait()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def cancel(self) -> None:
        """Nobody asks for the result any more."""


class FiberLoop:
    """``client/background`` in simulated time: runs the client's coroutines for the fiber that calls."""

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Pending[_T]:
        if not _CURRENT.get().process.alive:
            work.close()
            raise Ended
        pending: Pending[_T] = Pending()
        drive(work, pending.know)
        return pending


class FiberClock:
    """The time of a simulated process, for blocking code (``spark.process.Clock``)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return self._process.time_of_day_ms

    def elapsed_ms(self) -> int:
        return self._process.now_ms

    def pause(self, pause_ms: int) -> None:
        over: Pending[None] = Pending()
        self._process.after(pause_ms, over.know)
        over.result()


def is_simulated() -> bool:
    """Whether the caller runs in a fiber."""
    return _CURRENT.get(None) is not None
