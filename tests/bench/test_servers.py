"""What a run starts ends with it, however it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from bench.servers import ended_with_us, semel

ROOT = Path(__file__).resolve().parents[2]
_HOLDER = """
import sys, time
from bench.servers import ended_with_us
with ended_with_us(int(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def ended(process_descriptor: int, timeout_s: float) -> bool:
    """A process descriptor can be read once the process has ended."""
    return bool(select.select([process_descriptor], [], [], timeout_s)[0])


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


def test_a_server_is_watched_and_gone_afterwards(tmp_path: Path) -> None:
    with semel(tmp_path, durable=False, name="ours") as server:
        descriptor = os.pidfd_open(server.process_id)
        server.create("orders", 4)
        assert server.end_offsets("orders", 4) == [0, 0, 0, 0]
        server.delete("orders")
        assert server.name == "ours"
        assert 0 < server.anonymous_mb <= server.resident_mb <= server.resident_peak_mb
        assert server.cpu_s > 0
        assert 0 < server.ready_after_s < 60
    assert ended(descriptor, 0)
    os.close(descriptor)
