"""A log server of one's own: started as a child process, gone with its parent.

The server is ``python -m semel.server`` on 127.0.0.1, on a free port unless told otherwise. It cannot outlive
the process that started it, however that dies: the child watches a pipe whose other end only the parent holds
(``PR_SET_PDEATHSIG`` would follow the starting *thread* instead).
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from semel.config import setting_names
from semel.errors import ConfigError, ConnectionLost, StorageError

if TYPE_CHECKING:
    from semel.client.records import ConsumerRecord

_READY: Final = re.compile(r"semel \S+ ready on (\S+:\d+)")
_FLAG: Final = re.compile(r"^(?:-X|option --[a-z-]+): ")
_START_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 15.0
_WRONG_SETTING: Final = 2  # the server's exit code
_HISTORY_LINES_MAX: Final = 500

# Runs in the child before the server: end it as SIGTERM would once the parent's end of the pipe is closed.
_CHILD: Final = """
import os, runpy, signal, sys, threading
lifeline = int(sys.argv.pop(1))
def watch():
    try:
        os.read(lifeline, 1)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, daemon=True).start()
sys.argv[0] = "semel.server"
runpy.run_module("semel.server", run_name="__main__", alter_sys=True)
"""


_lifelines: set[int] = set()  # our ends of the pipes that the servers watch


def _let_go_after_fork() -> None:
    """A forked child must neither keep the servers of its parent alive nor end them."""
    for lifeline in _lifelines:
        os.close(lifeline)
    _lifelines.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)


class LocalLog:
    """A server in a child process: ``with LocalLog("data") as log: … log.bootstrap``.

    Without a folder the data goes to a temporary one that ``close()`` removes. Settings are the server's, with
    underscores for dots (``LocalLog(num_partitions=4, durability="page-cache")``).
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        listen: str = "127.0.0.1:0",
        **settings: str | int | bool,
    ) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="semel-") if data_dir is None else None
        self.data_dir = Path(data_dir if data_dir is not None else self._scratch_path())
        self._listen = listen
        self._settings = settings
        self._owner_process_id = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None
        self._errors: _Tail | None = None
        self._history: deque[str] = deque(maxlen=_HISTORY_LINES_MAX)
        self._begun_s = time.monotonic()
        self.start()

    @property
    def bootstrap(self) -> str:
        """The address to give to any client; the same after a restart."""
        return self._listen

    @property
    def process_id(self) -> int | None:
        """The server's process, or None while it is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def log_tail(self) -> str:
        """The end of what the server has logged since it was started last (16 KiB at most)."""
        return "" if self._errors is None else self._errors.text()

    @property
    def history(self) -> str:
        """Every start, stop and kill so far, and what the server logged between them (the last 500 lines)."""
        running = self.log_tail.splitlines() if self._process is not None else []
        return "\n".join([*self._history, *running])

    def records(self, topic: str, *, timeout: float = 10.0) -> list[ConsumerRecord]:
        """All rows of ``topic`` that a reader may have by now, by partition and offset.

        ``ConnectionLost`` where they do not come within ``timeout`` seconds.
        """
        from semel.client.admin import Admin
        from semel.client.consumer import Consumer
        from semel.types import TopicPartition

        give_up_s = time.monotonic() + timeout
        with Admin(self.bootstrap) as admin, Consumer(self.bootstrap) as consumer:
            partitions = [TopicPartition(topic, number) for number in admin.describe_topic(topic).partitions]
            consumer.assign(dict.fromkeys(partitions, "earliest"))
            ends = consumer.end_offsets(partitions)
            found: list[ConsumerRecord] = []
            while any(consumer.position(tp) < ends[tp] for tp in partitions):
                if time.monotonic() > give_up_s:
                    raise ConnectionLost(f"the rows of {topic!r} did not come within {timeout} s")
                found += consumer.poll(0.2)
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server; returns when it takes connections."""
        if self._process is not None:
            return
        watched, self._lifeline = os.pipe()
        _lifelines.add(self._lifeline)
        command = [sys.executable, "-c", _CHILD, str(watched)]
        command += ["--listen", self._listen, "--data-dir", str(self.data_dir)]
        for name, value in self._settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            command += ["-X", f"{name}={text}"]
        try:
            process = _launch(command, watched)
        finally:
            os.close(watched)
        self._process = process
        self._errors = _Tail(process)
        try:
            self._listen = self._wait_until_ready(process)
        except BaseException:
            self.crash()
            raise
        self._note(f"ready on {self._listen}, process {process.pid}, data in {self.data_dir}")

    def crash(self) -> None:
        """``kill -9``: no byte that only the server's memory holds is written. ``restart()`` brings it back."""
        self._end(signal.SIGKILL, "killed (SIGKILL)")

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does."""
        self._end(signal.SIGTERM, "stopped (SIGTERM)")

    def restart(self) -> None:
        """Start again on the same port and folder; stops it cleanly first if it runs."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop it, and remove the data folder if it was a temporary one. In a forked child: nothing."""
        if os.getpid() != self._owner_process_id:
            return
        self.stop()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _scratch_path(self) -> str:
        assert self._scratch is not None
        return self._scratch.name

    def _note(self, words: str) -> None:
        self._history.append(f"+{time.monotonic() - self._begun_s:.3f} s  {words}")

    def _end(self, how: signal.Signals, words: str) -> None:
        process, self._process = self._process, None
        if process is None or os.getpid() != self._owner_process_id:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._lifeline is not None:
            _lifelines.discard(self._lifeline)
            os.close(self._lifeline)
            self._lifeline = None
        if process.stdout is not None:
            process.stdout.close()
        if self._errors is not None:
            self._errors.join()
            self._history.extend(self._errors.text().splitlines())
        self._note(words)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, give_up_s - time.monotonic()))
            chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                why = f"not ready within {_START_TIMEOUT_S:.0f} s" if not ready else "it ended"
                assert self._errors is not None
                if ready:
                    process.wait()
                    self._errors.join()
                    if process.returncode == _WRONG_SETTING:
                        raise ConfigError(_as_keywords(self._errors.text()))
                raise StorageError(
                    f"the log server on {self.data_dir} did not start ({why}): {self._errors.text()}"
                )
            line += chunk
        found = _READY.search(line.decode(errors="replace"))
        if found is None:
            raise StorageError(f"the log server said {line!r} instead of where it is ready")
        return found[1]


def _launch(command: list[str], lifeline: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[lifeline],
        start_new_session=True,  # Ctrl-C is the parent's to handle
    )


@contextlib.contextmanager
def starting_log(**settings: str | int | bool) -> Iterator[Future[LocalLog]]:
    """A log in a temporary folder that starts while the caller does something else; nobody needs it in the end."""
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(LocalLog, **settings)  # type: ignore[arg-type]
        try:
            yield starting
        finally:
            with contextlib.closing(starting.result()) as log:
                log.crash()  # it need not write down what it holds


def _as_keywords(text: str) -> str:
    """What the server says of its command line, in the terms of who wrote ``LocalLog(num_partitions=…)``."""
    told = _FLAG.sub("LocalLog: ", text.removeprefix("semel: "), count=1)
    for name in sorted(setting_names(), key=len, reverse=True):  # one may begin another
        told = told.replace(name, name.replace(".", "_"))
    return told


class _Tail:
    """Drains the child's stderr, so that it never blocks on a full pipe, and keeps the last of it."""

    _KEEP_BYTES: Final = 16_384

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._stream = process.stderr
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, name="semel-server-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), 65_536):
                self._kept = (self._kept + chunk)[-self._KEEP_BYTES :]

    def join(self) -> None:
        self._thread.join(_STOP_TIMEOUT_S)

    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()
