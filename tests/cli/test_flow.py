"""``semel flow`` init, check and explain: without a server, and what they say where a file cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.main import run

TWO = (
    "from semel.flow import source\n"
    'rows = source("a", json="user string, n int")\n'
    'one = rows.key_by("user").count().to("counts")\n'
    'other = rows.where("n > 1").to("large")\n'
)


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return str(path)


def test_init_writes_an_example_that_checks_and_never_over_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "counts.py"
    assert run(["flow", "init", str(path)]) == 0
    assert f"semel flow test {path}" in capsys.readouterr().err
    assert run(["flow", "check", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "flow": "word-counts",
            "stages": 2,
            "reads": ["lines"],
            "writes": ["word-counts"],
            "own_topics": 5,
            "needs_spark": False,
        }
    ]
    path.write_text("mine\n")
    assert run(["flow", "init", str(path)]) == 2
    assert "is there already: nothing was written" in capsys.readouterr().err
    assert path.read_text() == "mine\n"


def test_init_makes_the_topics_of_the_example(semel, tmp_path, semel_server) -> None:
    made = semel("flow", "init", str(tmp_path / "a.py"), "-b", semel_server.bootstrap)
    assert made.code == 0
    assert "made topic lines with 4 partitions" in made.err
    again = semel("flow", "init", str(tmp_path / "b.py"), "-b", semel_server.bootstrap)
    assert again.code == 0
    assert "topic lines is there already" in again.err
    names = {row["name"] for row in json.loads(semel("topic", "list", "--format", "json").out)}
    assert {"lines", "word-counts"} <= names


def test_check_shows_a_line_a_flow(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flow", "check", two]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["FLOW", "STAGES", "READS", "WRITES", "OWN-TOPICS", "NEEDS-SPARK"]
    assert [line.split() for line in lines] == [
        ["counts", "2", "a", "counts", "5", "no"],
        ["large", "1", "a", "large", "2", "yes"],
    ]
    assert run(["flow", "check", two, "--name", "large"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_makes_no_sense_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(TWO.replace('"user").count', '"usr").count'))
    assert run(["flow", "check", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"semel: key_by(\"usr\") at {path}:3: there is no column 'usr' (did you mean 'user'?). "
        "The rows have: user string, n int\n"
    )
    path.write_text("1 / 0\n")
    assert run(["flow", "check", str(path)]) == 1
    assert capsys.readouterr().err == f"semel: {path}:1: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("command", ["check", "explain", "run", "test"])
def test_no_file_and_no_flow_are_wrong_usage(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "test":
        pytest.importorskip("semel.flow.testing")
    assert run(["flow", command, str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert run(["flow", command]) == 2
    capsys.readouterr()


def test_explain_wants_one_flow(two: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flow", "explain", two]) == 2
    assert "has 2 flows: say --name, one of counts, large" in capsys.readouterr().err
    assert run(["flow", "explain", two, "--name", "counts"]) == 0
    assert capsys.readouterr().out.startswith("flow counts: 2 stages")
    assert run(["flow", "explain", two, "--name", "counts", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["flow"] == "counts"
    assert run(["flow", "explain", two, "--name", "counts", "--format", "yaml"]) == 0
    assert "flow: counts" in capsys.readouterr().out


def test_building_needs_neither_spark_nor_a_server(two: str) -> None:
    program = (
        "import sys\n"
        "from semel.cli.main import run\n"
        f"assert run(['flow', 'check', {two!r}]) == 0\n"
        f"assert run(['flow', 'explain', {two!r}, '--name', 'counts']) == 0\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not loaded & {'pyspark', 'pandas', 'py4j'}, loaded\n"
        "assert 'semel.client.blocking' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)


def test_a_flow_runs_here_to_the_end_of_what_there_is(semel, tmp_path, semel_server) -> None:
    path = str(tmp_path / "counts.py")
    assert semel("flow", "init", path, "-b", semel_server.bootstrap).code == 0
    lines = b'{"line": "to be or not"}\n{"line": "To be"}\n'
    assert semel("produce", "lines", stdin=lines).code == 0
    for _ in range(2):  # the second time there is nothing left to do
        assert semel("flow", "run", path, "--here", "--once").code == 0
        read = semel("consume", "word-counts", "-e")
        counts = [json.loads(line) for line in read.out.splitlines()]
        assert {row["word"]: row["count"] for row in counts} == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert len(counts) == len({json.dumps(row) for row in counts})


def test_a_flow_of_sparks_steps_does_not_run_here(semel, two) -> None:
    refused = semel("flow", "run", two, "--name", "large", "--here", "--once")
    assert refused.code == 2
    assert "has steps of Spark's (where, select, apply) in large" in refused.err


@pytest.mark.thorough
def test_the_tests_of_a_file_decide_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counts.py"
    assert run(["flow", "init", str(path)]) == 0
    assert run(["flow", "test", str(path)]) == 0
    assert "1 passed in" in capsys.readouterr().out
    path.write_text(path.read_text().replace('"to": 2', '"to": 3'))
    assert run(["flow", "test", str(path)]) == 1
    told = capsys.readouterr().out
    assert "1 failed in" in told
    assert "'to': 3" in told
    path.write_text(TWO)
    assert run(["flow", "test", str(path)]) == 2
    assert "has no test" in capsys.readouterr().err
