"""Contenders in processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench.worker import worker

_DOUBLES = "from bench import worker; worker.serve(lambda number: 2 * number)"


def test_every_job_is_answered(tmp_path: Path) -> None:
    with worker("doubler", [sys.executable, "-c", _DOUBLES], tmp_path / "log") as doubler:
        assert [doubler.ask(30, number=number) for number in (1, 2.5)] == [2, 5.0]


def test_a_worker_that_dies_says_why(tmp_path: Path) -> None:
    failed = pytest.raises(RuntimeError, match=r"(?s)doubler failed .*TypeError")
    with worker("doubler", [sys.executable, "-c", _DOUBLES], tmp_path / "log") as doubler, failed:
        doubler.ask(30, figure=1)


def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    hangs = "import time; time.sleep(60)"
    failed = pytest.raises(RuntimeError, match="idler failed")
    with worker("idler", [sys.executable, "-c", hangs], tmp_path / "log") as idler, failed:
        idler.ask(0.2, number=1)
