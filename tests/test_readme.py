"""README's program prints what its comment says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def program() -> str:
    (found,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
        if "LocalLog" in block
    )
    return str(found)


def test_the_program_prints_what_its_comment_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[b'AA1141']\n"), done.stderr
