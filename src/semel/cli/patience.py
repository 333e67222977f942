"""What a person is told while a server does not answer: within seconds, once, and when it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self

from semel.cli.output import note

NOTICE_S: Final = 3.0  # of silence; a server that restarts is often back before
_LOOK_S: Final = 0.25


class Patience:
    """Watches calls that a server answers soon, from a thread of its own: the caller is inside of the call."""

    def __init__(self, why: Callable[[], str | None]) -> None:
        self._why = why  # what the last attempt met, if it is known
        self._asked_s: float | None = None
        self._told = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="semel-patience", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around one call. One that fails leaves the server silent, as far as the person is told."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()
        yield
        self._asked_s = None
        if self._told:
            self._told = False
            note("semel: it answers again")

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            asked_s = self._asked_s
            if not self._told and asked_s is not None and time.monotonic() - asked_s > NOTICE_S:
                self._told = True
                note(f"semel: no answer for {NOTICE_S:.0f} s ({self._why() or 'it is silent'}); still trying")
