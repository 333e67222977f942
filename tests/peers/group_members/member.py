"""A consumer of a group in a process of its own, to be killed; and what it has told so far."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypeAlias

from tests.peers.parts import ROOT

TIMEOUT_S = 60.0

Place: TypeAlias = tuple[int, int]  # partition and offset
Read: TypeAlias = Callable[["Member", str], None]


class Member:
    """A consumer's process, and what it has printed so far."""

    def __init__(
        self,
        command: Sequence[str],
        read: Read,
        environment: Mapping[str, str] | None = None,
        stdin: int | None = None,
    ) -> None:
        self.rows: set[Place] = set()
        self.assigned: frozenset[int] = frozenset()
        self.printed: list[str] = []
        self._told_at_s = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._follow, args=(stream, read))
            for stream in (self._process.stdout, self._process.stderr)
        ]
        for each in self._readers:
            each.start()

    def _follow(self, stream: IO[str], read: Read) -> None:
        with stream:
            for line in stream:
                self.printed.append(line)
                self._told_at_s = time.monotonic()
                read(self, line)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def silent_s(self) -> float:
        """For how long it has told nothing."""
        return time.monotonic() - self._told_at_s

    def kill(self) -> None:
        """``kill -9``; what it has printed is read to the end."""
        self._process.kill()
        self._process.wait()
        for each in self._readers:
            each.join()


def until(holds: Callable[[], bool], members: Sequence[Member], what: str) -> None:
    give_up_s = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > give_up_s:
            failed = AssertionError(what)
            for one in members:
                failed.add_note(f"{one.assigned}, {len(one.rows)} rows; {''.join(one.printed[-20:])}")
            raise failed
        time.sleep(0.02)
