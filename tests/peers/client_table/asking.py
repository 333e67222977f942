"""A driver's process: asked by a line of JSON, answering with one, ended when it does not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.peers.parts import ROOT

# The longest wait of a driver's own is 20 s, of one of Kafka's tools a little more.
ANSWER_TIMEOUT_S: Final = 60.0
_REASON_CHARS_MAX: Final = 90
# What is another one in each run: addresses, and what the page's names begin with.
_VARIES: Final = re.compile(r"\b(127\.0\.0\.1|localhost)[:/]\d+|client-table-\d+")


class FeatureAbsent(Exception):
    """The client has no such feature."""


class Failed(Exception):
    """The client said no, in these words."""


class Driver:
    """Speaks what :mod:`tests.peers.client_table.python_driver` describes."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None

    def ask(self, do: str, **what: Any) -> Any:
        """Have something done; what came of it."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            self.close()
            raise Failed(f"no answer in {ANSWER_TIMEOUT_S:.0f} s, or its end")
        answer = json.loads(line)
        if "absent" in answer:
            raise FeatureAbsent
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer["done"]

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None


def reason(text: str) -> str:
    """What was said, in one line of a table, without what is another in each run."""
    line = _VARIES.sub("…", " ".join(text.split())).replace("|", "/")
    return line if len(line) <= _REASON_CHARS_MAX else line[: _REASON_CHARS_MAX - 1] + "…"
