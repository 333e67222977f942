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
from typing import Any, TypeVar

from semel.errors import ConfigError

_T = TypeVar("_T")


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
        """Run ``work`` there and wait here; Ctrl-C here cancels it there."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run ``work`` there, and go on here. Works begin in the order of the calls."""
        try:
            self.check_process()
            if threading.current_thread() is self._thread:
                raise RuntimeError("a blocking call from the client's own loop would never return")
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)


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
