"""A contender in a process of its own that does a job for every line it is sent.

It answers each JSON line on its standard input with one on its standard output: so the contenders can take
turns, each warm. A worker that dies takes the section with it, and says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Worker:
    """The parent's side."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name, self._process, self._log = name, process, log

    def ask(self, timeout_s: float, **job: Any) -> Any:
        """Have a job done; what it answers."""
        assert self._process.stdin is not None and self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if not line:
            errors = self._log.read_text(errors="replace")[-4_000:]
            raise RuntimeError(f"{self.name} failed within {timeout_s:.0f} s at {job}:\n{errors}")
        return json.loads(line)

    def kill(self) -> None:
        """At once, whatever it is doing."""
        self._process.kill()
        self._process.wait()


@contextmanager
def worker(name: str, command: list[str], log: Path) -> Iterator[Worker]:
    """Start one; it is ended with the block."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield Worker(name, process, log)
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def serve(do: Callable[..., Any]) -> None:
    """The child's side: until the parent closes the pipe."""
    for line in sys.stdin:
        print(json.dumps(do(**json.loads(line))), flush=True)
