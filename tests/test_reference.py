"""The generated reference page says what the code says."""

import subprocess
import sys
from pathlib import Path

MAKE_REFERENCE = Path(__file__).resolve().parents[1] / "tools" / "make_reference.py"


def test_the_reference_page_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(MAKE_REFERENCE), "--check"], check=False)
    assert done.returncode == 0, "run: python tools/make_reference.py"
