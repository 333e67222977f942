"""Servers of tests, forked from one process that has imported what a server imports.

Each is a process of its own, with the descriptors, session and command line that :class:`semel.LocalLog` gives it; what
it saves is the start of an interpreter, half a second of a processor, some eight hundred times in a run.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.reduction import DupFd
from typing import IO, Any, Final

from semel import local

AS_A_PROGRAM: Final = local._launch  # what users have; tests/local goes on with it
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.server_imports"])


def use() -> None:
    """Have every server that this process starts forked."""
    local._launch = Forked  # type: ignore[assignment]


class _Descriptor:
    """One that goes along into the child."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return (_detached, (DupFd(self._number),))


def _detached(descriptor: Any) -> int:
    number: int = descriptor.detach()
    return number


class Forked:
    """What ``subprocess.Popen`` is to who started a server."""

    def __init__(self, command: list[str], lifeline: int) -> None:
        assert command[:2] == [sys.executable, "-c"]
        read_out, write_out = os.pipe()
        read_error, write_error = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(read_out, "rb", buffering=0)
        self.stderr: IO[bytes] = os.fdopen(read_error, "rb", buffering=0)
        self.returncode: int | None = None
        program, _, *arguments = command[2:]
        descriptors = [_Descriptor(number) for number in (lifeline, write_out, write_error)]
        self._process = _FORKS.Process(
            target=_run, args=(program, arguments, os.environ.copy(), os.getcwd(), *descriptors), daemon=True
        )
        self._process.start()
        os.close(write_out)
        os.close(write_error)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("server", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, how: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, how)

    def kill(self) -> None:
        self._process.kill()


def _run(
    program: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    lifeline: int,
    out: int,
    error: int,
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, standard in ((out, 1), (error, 2)):
        os.dup2(number, standard)
        os.close(number)
    sys.argv = ["-c", str(lifeline), *arguments]
    exec(program, {"__name__": "__main__"})
