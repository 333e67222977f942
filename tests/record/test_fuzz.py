"""A short run of every fuzz target; the long ones are ``python -m fuzz.<target> --runs N --seed S``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.thinning import every

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", every(6, ["batches", "records", "compression", "control", "columns", "requests"])
)
def test_damage_never_escapes_as_another_exception(target: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"fuzz.{target}", "--runs", "400", "--seed", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "400 runs" in done.stdout
