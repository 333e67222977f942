"""An event loop on a thread of its own, so that blocking code can use the asyncio client.

One loop a process, started at first use and shared by all blocking clients. The thread is a daemon: it never
keeps the interpreter alive. After a fork the child gets a loop of its own; clients made before the fork
refuse to work there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from semel.errors import ConfigError

_T = TypeVar("_T")
_LOOK_S: Final = 0.5


class BackgroundLoop:
    """A running loop, and a way into it from other threads."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="semel-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def check_process(self) -> None:
        """A forked child has the object but not the thread: say so instead of hanging."""
        if os.getpid() != self._process_id:
            raise ConfigError("this client was made before a fork; make a new one in the child process")

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` there and wait here. Ctrl-C here cancels it there, and waits until it has ended, too: what it
        undoes then would else be undone under what is done next. Another Ctrl-C does not wait.
        """
        self._check(work)
        run = _Run(self.loop, work)
        try:
            self.loop.call_soon_threadsafe(run.begin)
            run.wait()
        except BaseException:
            self.loop.call_soon_threadsafe(run.cancel)
            run.wait()
            raise
        return run.result()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run ``work`` there, and go on here. Works begin in the order of the calls."""
        self._check(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def _check(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self.check_process()
            if threading.current_thread() is self._thread:
                raise RuntimeError("a blocking call from the client's own loop would never return")
        except BaseException:
            work.close()
            raise


class _Run(Generic[_T]):
    """Work on the loop, and the thread that waits for it. Its end is the task's, also where it is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, _T]) -> None:
        self._loop, self._work = loop, work
        self._task: asyncio.Task[_T] | None = None
        self._is_over = False
        # A bare lock: Ctrl-C at any instruction of a condition's could leave it to this thread, and stop the loop.
        self._gate = threading.Lock()
        self._gate.acquire()

    def begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self._end()

    def wait(self) -> None:
        # A signal that comes just before the thread falls asleep does not wake it: so it looks, now and then.
        while not self._is_over and not self._gate.acquire(timeout=_LOOK_S):
            pass

    def result(self) -> _T:
        assert self._task is not None
        return self._task.result()

    def _ended(self, task: asyncio.Task[_T]) -> None:
        if not task.cancelled():
            task.exception()  # who was interrupted does not look at it
        self._end()

    def _end(self) -> None:
        self._is_over = True  # first: who got the gate, and was interrupted there, does not wait for it again
        self._gate.release()


_shared: BackgroundLoop | None = None
_lock = threading.Lock()


def shared_loop() -> BackgroundLoop:
    """This process's loop."""
    global _shared
    with _lock:
        if _shared is None or _shared._process_id != os.getpid():
            _shared = BackgroundLoop()
        return _shared


def _forget_after_fork() -> None:
    global _shared, _lock
    _shared, _lock = None, threading.Lock()


with contextlib.suppress(AttributeError):  # no fork, no hook
    os.register_at_fork(after_in_child=_forget_after_fork)
