"""A child process of the demo, in a process group of its own, so that kill -9 takes all of it: a Spark
driver is a Python process and a JVM."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from semel.errors import SemelError

_ERROR_LINE = re.compile(r"[A-Za-z_.]*(Error|Exception|Fenced|Lost|Stored|Know|Differs|Replay): ")


class ChildFailed(SemelError):
    """A child ended with an error that nobody caused."""


class Child:
    """``python -m module arguments…`` with its output in files."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], folder: Path) -> None:
        self.name = name
        self.stdout_path, self.stderr_path = folder / f"{name}.out", folder / f"{name}.err"
        with self.stdout_path.open("wb") as stdout, self.stderr_path.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """kill -9 for the whole group; no harm when it has ended.

        Spark's Python workers are a group of their own. They go when their pipe to the JVM breaks, and until
        then are what the sink has to fence: writers of a dead driver.
        """
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def check(self) -> None:
        """:class:`ChildFailed` with the last line of its stderr if it ended with an error."""
        if self.exit_code not in (None, 0):
            raise ChildFailed(f"the {self.name} failed: {self._reason()} (all of it: {self.stderr_path})")

    def _reason(self) -> str:
        """The last line that names an error; Spark prints its plan after it."""
        lines = self.stderr_path.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        named = [line for line in lines if _ERROR_LINE.match(line)]
        return (named or lines)[-1].strip()

    def answer(self) -> dict[str, Any]:
        """The JSON of its last line, once it has ended well."""
        self.check()
        lines = self.stdout_path.read_text().strip().splitlines()
        return dict(json.loads(lines[-1])) if lines else {}
