"""What a run starts ends with it, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.peers.ending import ended_with_us
from tests.peers.parts import ROOT

_HOLDER = """
import sys, time
from tests.peers.ending import ended_with_us
with ended_with_us(int(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_process_is_ended_when_its_holder_is_killed() -> None:
    with subprocess.Popen(["sleep", "60"]) as held:
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(held.pid)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
        assert held.wait(20) == -signal.SIGKILL


def test_a_process_is_left_alone_when_its_holder_is_done() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as held:
        with ended_with_us(held.pid):
            pass
        assert held.stdin is not None
        held.stdin.close()
        assert held.wait(20) == 0
