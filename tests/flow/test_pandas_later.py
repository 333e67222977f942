"""A small test of a flow does not wait for pandas, and one that uses it finds pyarrow as ever."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

LATER = """
import sys
from semel.flow.pandas_later import import_pandas_later
import_pandas_later()
import pyarrow as pa
pa.array([1, 2])
assert "pandas" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "asking",
    [
        "import pandas",
        "pa.table({'a': [1]}).to_pandas()",
        "import pandas.core.series",
        "import importlib; importlib.import_module('pandas')",
    ],
)
def test_whoever_asks_for_pandas_finds_pyarrow_as_it_would_be(asking: str) -> None:
    told = """
    import pandas
    assert pa.array(pandas.Series([1.0, float("nan")])).to_pylist() == [1.0, None]
    assert pandas.__spec__.loader is pandas.__loader__ and "Telling" not in type(pandas.__loader__).__name__
    """
    subprocess.run([sys.executable, "-c", LATER + asking + textwrap.dedent(told)], check=True, timeout=60)


@pytest.mark.thorough
def test_a_flow_s_test_has_neither_pandas_nor_spark_unless_it_asks(tmp_path) -> None:
    file = tmp_path / "flows.py"
    file.write_text(
        textwrap.dedent("""
        import sys
        from semel.flow import source

        out = source("in", json="n bigint").filter(lambda row: row.n > 1).to("out")

        def test_it(run):
            assert run(out, {"in": [{"n": 1}, {"n": 2}]})["out"] == [{"n": 2}]
            assert not {"pandas", "pyspark"} & set(sys.modules)
        """)
    )
    command = [sys.executable, "-m", "semel.cli", "flow", "test", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
