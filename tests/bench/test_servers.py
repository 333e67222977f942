"""A server that a benchmark starts is watched, and gone behind it."""

from __future__ import annotations

import os
import select
from pathlib import Path

from bench.servers import semel


def ended(process_descriptor: int, timeout_s: float) -> bool:
    """A process descriptor can be read once the process has ended."""
    return bool(select.select([process_descriptor], [], [], timeout_s)[0])


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
