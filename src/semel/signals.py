"""How what runs until it is stopped is stopped: SIGTERM or Ctrl-C once to end well, twice not to wait for that."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signals(ask_to_stop: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Gives whether a signal has come. The second one is a ``KeyboardInterrupt``.

    Only the main thread may have signals; in others nothing changes.
    """
    told: list[int] = []

    def stop(number: int, frame: object) -> None:
        if told:
            raise KeyboardInterrupt
        told.append(number)
        ask_to_stop()

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, stop) for number in _STOPPING} if is_main else {}
    try:
        yield lambda: bool(told)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
