"""A real Spark standalone cluster on the loopback: a master, and workers that may be killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from semel.spark.java import java_home

DAEMON_TIMEOUT_S = 120.0


class SparkCluster:
    """``master`` is its address; each worker has one core."""

    def __init__(self, folder: Path, *, workers: int) -> None:
        self._folder, self._count = folder, workers
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._starts = 0
        self.master = ""

    def __enter__(self) -> Self:
        try:
            log, daemon = self._start("master", "master.Master")
            self._daemons.append(daemon)
            self.master = _await_line(log, r"Starting Spark master at (spark://\S+)")
            for number in range(self._count):
                self.start_worker(number)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def master_log(self) -> str:
        """What the master has said."""
        return (self._folder / "master.log").read_text(errors="replace")

    def start_worker(self, number: int) -> None:
        """Also one that was killed: its executors have ended by then, or do."""
        self._starts += 1
        name = f"worker-{number}-{self._starts}"
        resources = ("--cores", "1", "--memory", "1g", "-d", str(self._folder / name))
        log, self._workers[number] = self._start(name, "worker.Worker", *resources, self.master)
        _await_line(log, r"(Successfully registered with master)")

    def kill_worker(self, number: int) -> None:
        """``kill -9``, of the worker alone: its executors notice by themselves."""
        self._workers[number].kill()
        self._workers[number].wait()

    def executors(self) -> list[int]:
        """The process ids of all that run tasks."""
        return processes_below(self._pids(), lambda words: "CoarseGrainedExecutorBackend" in " ".join(words))

    def python_workers(self) -> list[int]:
        """Those of Python, of all executors."""
        return processes_below(self._pids(), lambda words: "pyspark.daemon" in words)

    def _pids(self) -> set[int]:
        return {worker.pid for worker in self._workers.values()}

    def _start(self, name: str, main_class: str, *arguments: str) -> tuple[Path, subprocess.Popen[bytes]]:
        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": os.environ.get("SPARK_HOME", str(home)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        command = [
            str(home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{main_class}",
            *where,
            *arguments,
        ]
        path = self._folder / f"{name}.log"
        with path.open("wb") as log:
            return path, subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _end(self) -> None:
        executors = self.executors()
        for daemon in [*self._workers.values(), *self._daemons]:
            daemon.terminate()  # not killed: a worker ends its executors first
            daemon.wait(60)
        for executor in executors:  # that of a worker which was killed
            try:
                os.kill(executor, signal.SIGKILL)
            except ProcessLookupError:
                pass


def processes_below(ancestors: set[int], is_meant: Callable[[list[str]], bool]) -> list[int]:
    """Those started by ``ancestors``, or by their children, whose command is meant, by its words."""
    parents: dict[int, int] = {}
    commands: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            commands[int(path.name)] = (path / "cmdline").read_text(errors="replace").split("\0")
        except (OSError, ValueError):
            continue

    def is_below(process: int) -> bool:
        while process > 1:
            process = parents.get(process, 0)
            if process in ancestors:
                return True
        return False

    return sorted(process for process, words in commands.items() if is_meant(words) and is_below(process))


def _await_line(log_path: Path, pattern: str) -> str:
    give_up_s = time.monotonic() + DAEMON_TIMEOUT_S
    while (found := re.search(pattern, log_path.read_text(errors="replace"))) is None:
        assert time.monotonic() < give_up_s, log_path.read_text(errors="replace")[-4_000:]
        time.sleep(0.05)
    return found[1]
