"""Two live attempts of one task: both write, and every row is there once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from semel.core.sink.journal import SINKS_TOPIC, Attempt, Decision, decode

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.loops, pytest.mark.timeout(300)]

DRIVER = Path(__file__).with_name("speculating_driver.py")
# Larger than the buffers between Spark and Python, so that the slow attempt's rows reach the log.
ROWS = [b"%04d" % number + bytes(4000) for number in range(600)]


def test_every_row_once_when_a_slow_task_is_speculated(log, tmp_path):
    source, sink = log.topic("in", 3), log.topic("out")
    for start in range(0, len(ROWS), 100):
        log.write(source, ROWS[start : start + 100], partition=start // 200)
    arguments = [log.bootstrap, source, sink, str(tmp_path / "ck")]
    done = subprocess.run([sys.executable, str(DRIVER), *arguments], timeout=240, check=False)
    assert done.returncode == 0
    assert log.values(sink) == ROWS
    journal = [decode(record.value) for record in log.read(SINKS_TOPIC)]
    assert any(isinstance(entry, Attempt) for entry in journal), "nothing was speculated"
    assert [entry.closed for entry in journal if isinstance(entry, Decision)] == [True]
