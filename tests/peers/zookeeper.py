"""One real ZooKeeper, from the jars in pyspark's wheel: killed, frozen and started again on its port.

Its folder is scratch, its port a free one of the loopback; it is ended by its process id and never outlives the
``with`` block.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

JARS: Final = ("zookeeper-", "netty-", "slf4j-api", "log4j-", "snappy-java", "metrics-core")
TICK_MS: Final = 500  # sessions live from 2 to 20 ticks
_READY_TIMEOUT_S: Final = 60.0
_QUIET: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmx128m",
    "-Dzookeeper.admin.enableServer=false",
)


class ZooKeeper:
    """A running server: ``connect`` is its address, ``data_dir`` what it keeps."""

    def __init__(self, java: Path, jars: Path, folder: Path) -> None:
        self.data_dir = folder / "data"
        self._java, self._folder = java, folder
        self._class_path = ":".join(str(jar) for name in JARS for jar in sorted(jars.glob(f"{name}*.jar")))
        self._log_path = folder / "zookeeper.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it on its folder; returns when it answers."""
        settings = self._folder / "zoo.cfg"
        settings.write_text(
            f"tickTime={TICK_MS}\ndataDir={self.data_dir}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\n4lw.commands.whitelist=ruok\n"
        )
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = [str(self._java), *_QUIET, "-cp", self._class_path, main, str(settings)]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._await_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """``kill -9``, also of a frozen one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and says nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while not self._is_ok():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError(f"ZooKeeper did not start:\n{self._log_path.read_text()[-4000:]}")
            time.sleep(0.05)

    def _is_ok(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False
