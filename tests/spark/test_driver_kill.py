"""A driver that dies by kill -9 in the middle of a micro-batch, and its successor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from semel.types import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.loops, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("copying_driver.py")
# Each row is larger than a twentieth of the buffers between Spark and its Python workers, so that rows reach
# the log while their micro-batch is under way.
ROWS = [b"%04d" % number + bytes(4000) for number in range(1000)]


@pytest.fixture
def start_driver(log, tmp_path):
    """``start_driver(source, sink, pause_s)``: in a process group of its own, gone when the test is over."""
    started = []

    def start(source: str, sink: str, pause_s: float) -> subprocess.Popen[bytes]:
        arguments = [log.bootstrap, source, sink, str(tmp_path / "ck"), str(pause_s)]
        driver = subprocess.Popen([sys.executable, str(DRIVER), *arguments], start_new_session=True)
        started.append(driver)
        return driver

    yield start
    for driver in started:
        kill(driver)


def kill(driver: subprocess.Popen[bytes]) -> None:
    """The driver, its JVM and its Python workers, at once."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    driver.wait()


def wait_for_rows(log, topic: str, count: int) -> None:
    deadline = time.monotonic() + 90
    while log.offset(TopicPartition(topic, 0), -1) < count:
        assert time.monotonic() < deadline, "the driver wrote nothing"
        time.sleep(0.05)


@pytest.mark.everyday
def test_every_row_once_after_kill_9_amid_a_micro_batch(log, start_driver):
    source, sink = log.topic("in"), log.topic("out")
    for start in range(0, len(ROWS), 100):
        log.write(source, ROWS[start : start + 100])
    first = start_driver(source, sink, 0.5)
    wait_for_rows(log, sink, 50)
    kill(first)
    stored = len(log.read(sink))
    assert 0 < stored < len(ROWS)
    assert start_driver(source, sink, 0.0).wait(timeout=250) == 0
    assert log.values(sink) == ROWS
