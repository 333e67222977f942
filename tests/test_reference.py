"""The generated pages say what the code says."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.mark.parametrize(
    "tool", ["make_reference.py", "make_verdicts.py", "make_producer_states.py", "make_transaction_states.py"]
)
def test_the_page_is_up_to_date(tool: str) -> None:
    done = subprocess.run([sys.executable, str(TOOLS / tool), "--check"], check=False)
    assert done.returncode == 0, f"run: python tools/{tool}"
