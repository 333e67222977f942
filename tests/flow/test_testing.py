"""``semel flow test``: the tests of a file on a real server, and what is told of those that fail."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap

import pytest

from semel.errors import ConfigError
from semel.flow.example import example_text
from semel.flow.testing import run_tests

HEAD = """
from semel.flow import source
people = source("people", json="name string, n bigint", key="name")
"""


@pytest.fixture
def told(tmp_path):
    """``told(text)``: whether the tests of a file with this text pass, and what is written of them."""

    def run(text):
        path = tmp_path / "flows.py"
        path.write_text(HEAD + textwrap.dedent(text))
        out = io.StringIO()
        return run_tests(path, out), out.getvalue().replace(str(path), "flows.py")

    return run


@pytest.mark.thorough
def test_the_example_passes_without_spark(tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(example_text(path))
    script = (
        "import sys; from pathlib import Path; from semel.flow.testing import run_tests; "
        "passed = run_tests(Path(sys.argv[1])); print(passed, 'pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "True False", done.stdout + done.stderr
    assert "test_words_are_counted" in done.stdout
    assert "1 passed in" in done.stdout


@pytest.mark.thorough
def test_failures_are_told_with_the_line_and_both_sides_and_the_rows_that_were_laid_aside(told):
    passed, text = told(
        """
        def shown(row):
            if row.n == 7:
                raise ValueError("seven")
            return {"name": row.name}

        names = people.map(shown, schema="name string").to("names")

        def test_holds(run):
            assert run(names, {"people": [{"name": "ann", "n": 1}]})["names"] == [{"name": "ann"}]

        def test_differs(run):
            rows = run(names, {"people": [{"name": "ann", "n": 1}, {"name": "bob", "n": "x"}]})
            assert len(rows["names"]) == 2

        def test_raises(run):
            run(names, {"people": [{"name": "ann", "n": 1}, {"name": "ann", "n": 7}]})

        def test_of_nothing(run):
            run(names, {"peple": []})
        """
    )
    assert not passed
    assert "flows.py: 4 tests" in text
    assert 'flows.py:17: assert len(rows["names"]) == 2\n    1\n        == 2' in text
    assert "1 row went to the bad ones:\n" in text
    assert "{'name': 'bob', 'n': 'x'}: column 'n' is no bigint" in text
    assert 'flows.py:7: raise ValueError("seven")' in text
    assert "StepFailed: step 'map shown' failed at topic 'people', partition" in text
    assert "rows were given for 'peple'" in text
    assert "1 passed, 3 failed in" in text


@pytest.mark.thorough
def test_a_step_that_is_no_function_of_its_rows_is_found(told):
    passed, text = told(
        """
        import random

        import numpy as np
        import pyarrow as pa

        def noise(state, row):
            return state, {"name": row.name, "noise": random.random()}

        def ranked(rows: pa.Table) -> pa.Table:
            return rows.append_column("rank", pa.array(np.arange(len(rows))))

        noisy = people.fold(noise, init=0).to("noisy")
        cut = people.map(ranked, schema="name string, n bigint, rank bigint").to("cut")
        given = {"people": [{"name": name, "n": 1} for name in ("ann", "bob", "ann", "bob")]}

        def test_noise(run):
            run(noisy, given)

        def test_cut(run):
            run(cut, given)
        """
    )
    assert not passed
    assert "fold noise; flows.py:" in text.replace("/", "")
    assert (
        "is not deterministic: killed and started again on the same rows, it wrote other rows to noisy"
        in text
    )
    assert "run on the same rows in other pieces, it wrote other rows to cut:" in text
    assert "0 passed" not in text
    assert "2 failed in" in text


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_row_that_is_too_large_is_told_and_accuses_no_step(told):
    """Of rows that are many, and of one that is too large for a batch together, none is left out of a run."""
    passed, text = told(
        """
        counts = people.key_by("name").count().to("counts")

        def test_too_large(run):
            run(counts, {"people": [{"name": "y"}, {"name": "x" * 2_000_000}]})

        def test_many(run):
            rows = run(counts, {"people": [{"name": str(n % 7) + "x" * 400} for n in range(4000)]})
            assert sum(row["count"] for row in rows.last("counts", "name").values()) == 4000

        def test_no_state_takes_it(run):
            rows = run(counts, {"people": [{"name": "y"}, {"name": "x" * 480_000}]})
            assert ([row["name"] for row in rows["counts"]], len(rows.bad)) == (["y"], 1)
        """
    )
    assert "a row given for source 'people' is of 4000011 bytes, key and value" in text
    assert "not deterministic" not in text
    assert "2 passed, 1 failed" in text
    assert not passed


def test_what_two_runs_do_not_owe_each_other_is_held_against_a_replay(told):
    passed, text = told(
        """
        import random

        others = source("others", json="name string, n bigint", key="name")

        def noise(state, row):
            return state + 1, {"name": row.name, "noise": random.random() if state > 2 else 0}

        noisy = people.merge(others).fold(noise, init=0).to("noisy")

        def test_noise(run):
            run(noisy, {"people": [{"name": "ann", "n": 1}] * 8})
        """
    )
    assert not passed
    assert "is not deterministic: replayed from what it has recorded, it wrote other rows to noisy:" in text


@pytest.mark.thorough
def test_state_goes_on_from_part_to_part_and_tables_are_kept_by_their_key(told):
    passed, text = told(
        """
        from semel.flow.testing import record

        total = people.sum("n").to("totals")

        def test_parts(run):
            rows = run(total, {"people": [{"name": "ann", "n": 1}]}, {"people": [{"name": "ann", "n": 2}]})
            assert rows["totals"] == [{"name": "ann", "sum_n": 1}, {"name": "ann", "sum_n": 3}]
            assert rows.last("totals", "name") == {"ann": {"name": "ann", "sum_n": 3}}

        def test_keys(semel_flow):
            rows = semel_flow(total, {"people": [record('{"name": "ann", "n": 5}', key="ann"), b"nonsense"]})
            assert rows["totals"] == [{"name": "ann", "sum_n": 5}]
            (bad,) = rows.bad
            assert bad.value == b"nonsense" and bad.at.startswith("people/")
            assert rows.late == []
        """
    )
    assert passed, text


@pytest.mark.slow
def test_a_file_without_tests_and_a_test_that_asks_for_more_are_refused(told):
    with pytest.raises(ConfigError, match="has no test"):
        told("")
    passed, text = told("def test_it(bootstrap): pass")
    assert not passed
    assert "test_it asks for bootstrap" in text


WHERE = """
    from dataclasses import dataclass

    @dataclass
    class Twice:
        name: str
        n: int

    def twice(row) -> Twice:
        return Twice(row.name, 2 * row.n)

    sums = people.where("n > 0").map(twice).key_by("name").sum("n").to("sums")

    def test_sums(run):
        rows = run(sums, {"people": [{"name": "ann", "n": 1}, {"name": "ann", "n": -5}, {"name": "ann", "n": 3}, "x"]})
        assert rows.last("sums", "name") == {"ann": {"name": "ann", "sum_n": 8}}
        assert [bad.value for bad in rows.bad] == [b"x"]
"""


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_steps_of_sparks_run_on_a_session_of_the_files_own(tmp_path):
    path = tmp_path / "flows.py"
    path.write_text(HEAD + textwrap.dedent(WHERE))
    script = (
        "import sys; from pathlib import Path; from semel.flow.testing import run_tests; "
        "print(run_tests(Path(sys.argv[1])))"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "True", done.stdout + done.stderr
