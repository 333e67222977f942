"""A user's callbacks, made on the thread that waits for the background loop.

A callback of blocking code calls blocking methods; on the loop's own thread those would wait for themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from semel.client.background import BackgroundLoop

_T = TypeVar("_T")
_Call = tuple[Callable[[Any], Any], Any, "Future[Any]"]


class CallsHere:
    """Runs work on the loop, and here what that work wants to be called."""

    def __init__(self, background: BackgroundLoop) -> None:
        self._background = background
        self._calls: SimpleQueue[_Call | None] | None = None

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """From the loop: have ``function`` called by whoever waits, and wait for what it gives."""
        assert self._calls is not None, "nobody waits"
        done: Future[Any] = Future()
        self._calls.put((function, argument, done))
        return await asyncio.wrap_future(done)

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` there and wait here; Ctrl-C here cancels it there. A callback may call it, too."""
        outer = self._calls
        calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._calls = calls
        try:
            future = self._background.submit(work)
            future.add_done_callback(lambda _: calls.put(None))
            try:
                while (call := calls.get()) is not None:
                    _answer(*call)
                return future.result()
            except BaseException:
                future.cancel()
                raise
        finally:
            self._calls = outer


def _answer(function: Callable[[Any], Any], argument: Any, done: Future[Any]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        answer = function(argument)
    except StopIteration as error:  # no future takes it: whoever waits for the answer would wait for ever
        wrapped = RuntimeError("a callback raised StopIteration")
        wrapped.__cause__ = error
        done.set_exception(wrapped)
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(answer)
