"""kill -9 of a real Spark driver at the two moments that matter most: all rows written and nothing decided;
decided and Spark not told. A proxy between driver and server finds the moment."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.client.blocking import Cluster
from semel.core.sink.journal import SINKS_TOPIC, Decision, decode

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.loops, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("copying_driver.py")
DECISION = b'"kind":"decision"'
ROWS = [b"%04d" % number for number in range(500)]


class Proxy:
    """Hands bytes through until a DECISION comes by: that one is kept back, or its answer is.

    ``forwards`` says whether the server gets the DECISION. After that nothing goes through on that connection.
    """

    def __init__(self, *, forwards: bool) -> None:
        self.forwards = forwards
        self.caught = threading.Event()
        self.is_open = False
        self.target: tuple[str, int] | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def open(self) -> None:
        """Nothing is caught any more."""
        self.is_open = True

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self.target)
                held = threading.Event()
                for source, sink, upward in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._carry, args=(source, sink, upward, held), daemon=True
                    ).start()

    def _carry(self, source: socket.socket, sink: socket.socket, upward: bool, held: threading.Event) -> None:
        seen = b""
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(65536):
                seen = seen[-len(DECISION) :] + data
                if held.is_set():
                    continue
                if upward and not self.is_open and not self.caught.is_set() and DECISION in seen:
                    held.set()
                    if self.forwards:
                        sink.sendall(data)
                    self.caught.set()
                    continue
                sink.sendall(data)


@contextlib.contextmanager
def driver_process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a process group of its own, which is gone at the end: driver, JVM and Python workers at once."""
    driver = subprocess.Popen([sys.executable, str(DRIVER), *arguments], start_new_session=True)
    try:
        yield driver
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


@pytest.mark.parametrize("forwards", [False, True], ids=["undecided", "decided"])
def test_every_row_once(forwards, semel_server_factory, spark, tmp_path, log_of):
    proxy = Proxy(forwards=forwards)
    server = semel_server_factory(advertised=proxy.address)
    host, port = server.bootstrap.split(":")
    proxy.target = (host, int(port))
    with contextlib.closing(proxy), Cluster(server.bootstrap) as cluster:
        log = log_of(server.bootstrap, cluster)
        source, sink = log.topic("in", 2), log.topic("out", 2)
        log.write(source, ROWS[:300])
        log.write(source, ROWS[300:], partition=1)
        with driver_process(proxy.address, source, sink, str(tmp_path / "ck"), "0") as driver:
            while not proxy.caught.wait(0.2):
                assert driver.poll() is None, "the driver ended without a DECISION"
        proxy.open()
        assert log.values(sink) == ROWS
        assert not list((tmp_path / "ck" / "commits").glob("[0-9]*"))
        decided = [decode(record.value) for record in log.read(SINKS_TOPIC)]
        assert any(isinstance(entry, Decision) for entry in decided) == forwards
        frame = (
            spark.readStream.format("semel")
            .option("kafka.bootstrap.servers", server.bootstrap)
            .options(subscribe=source, startingOffsets="earliest")
            .load()
            .select("value")
        )
        writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", server.bootstrap)
        writer = writer.options(topic=sink, sinkId="copied", checkpointLocation=str(tmp_path / "ck"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        assert log.values(sink) == ROWS
        assert list((tmp_path / "ck" / "commits").glob("[0-9]*"))
