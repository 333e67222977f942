"""Starting, stopping, settings and the data folder's lock, on real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semel.config import Address
from semel.server.main import warn_when_exposed


def run_server(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "semel.server", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment or None,
        check=False,
    )


def test_it_is_ready_in_one_line_and_stops_cleanly(start_server: Any) -> None:
    server = start_server()
    assert server.ready_line.startswith("semel ")
    assert server.ready_line.rstrip().endswith("(durable)")
    assert server.stop() == 0
    assert "stopped" in server.log


def test_page_cache_mode_is_said(start_server: Any) -> None:
    assert start_server("--durability=page-cache").ready_line.rstrip().endswith("(page-cache)")


def test_a_second_server_on_the_folder_is_refused(start_server: Any, tmp_path: Path) -> None:
    first = start_server()
    second = run_server("--listen=127.0.0.1:0", f"--data-dir={tmp_path / 'data'}")
    assert second.returncode == 1
    assert second.stdout == ""
    assert f"in use by another process, {first.process.pid}\n" in second.stderr


@pytest.mark.slow
def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    done = run_server(f"--data-dir={tmp_path / 'data'}", "-X", "log.segment.byte=4096")
    assert done.returncode == 2
    assert "did you mean 'log.segment.bytes'?" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.thorough
def test_an_address_in_use_is_one_line(start_server: Any, tmp_path: Path) -> None:
    server = start_server()
    done = run_server(f"--listen={server.bootstrap}", f"--data-dir={tmp_path / 'other'}")
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_an_address_for_metrics_that_is_in_use_is_told_as_that(start_server: Any, tmp_path: Path) -> None:
    server = start_server()
    done = run_server(
        "--listen=127.0.0.1:0", f"--metrics={server.bootstrap}", f"--data-dir={tmp_path / 'other'}"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot serve metrics: " in done.stderr
    assert "--metrics HOST:PORT" in done.stderr
    assert "--listen" not in done.stderr


def test_logs_are_json_lines_when_asked(start_server: Any) -> None:
    server = start_server("--log-format=json")
    server.stop()
    lines = [json.loads(line) for line in server.log.splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[-1].keys()


@pytest.mark.parametrize(
    ("host", "warns"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("h", True)],
)
def test_listening_beyond_loopback_warns(host: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    warn_when_exposed(Address(host, 9092))
    assert ("without authentication" in caplog.text) == warns


def test_settings_come_from_the_environment(start_server: Any) -> None:
    server = start_server(environment={"SEMEL_DURABILITY": "page-cache"})
    assert "(page-cache)" in server.ready_line
