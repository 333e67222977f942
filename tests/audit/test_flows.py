"""A flow's audit by ``semel audit --flow``: the same as its replay, the same not, and not provable."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command, semel
from tests.flow.flowing import put, run

from semel import Producer
from semel.flow.files import load_flows
from semel.local import LocalLog

__all__ = ["semel"]  # the fixture

TEXT = (
    "from semel.flow import source\n"
    'counts = source("lines", json="user string").key_by("user", partitions=1).count().to("counts")\n'
)


@pytest.fixture
def file(semel_server: LocalLog, tmp_path: Path) -> str:
    """A flow that has run over three rows."""
    path = tmp_path / "counting.py"
    path.write_text(TEXT)
    put(semel_server.bootstrap, "lines", {"user": "a"}, {"user": "b"}, {"user": "a"})
    run(load_flows(path).flow(), semel_server.bootstrap, tmp_path / "store")
    return str(path)


def test_a_flow_that_equals_its_replay_is_proven(semel: Command, file: str) -> None:
    done = semel("audit", "--flow", file)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        "PROVEN: each stage of counts equals a replay of its recorded inputs",
    ), done.out
    document = json.loads(semel("audit", "--flow", file, "--format", "json").out)
    assert (document["verdict"], document["unproven"], len(document["stages"])) == ("proven", None, 2)
    assert document["not_compared"][0].startswith("what the steps ought to give")
    assert done.out.startswith(f"NOT COMPARED: {document['not_compared'][0]}\n")


@pytest.mark.parametrize("is_transactional", [False, True])
def test_rows_of_others_in_an_output_are_said(
    semel: Command, file: str, semel_server: LocalLog, is_transactional: bool
) -> None:
    """An output may be shared on purpose; rows of an aborted transaction are none."""
    row = {"user": "a", "count": 999}
    if is_transactional:
        with Producer(semel_server.bootstrap, transactional_id="t") as producer:
            for each in (row, row | {"count": 1000}):
                with contextlib.suppress(KeyError), producer.transaction():
                    producer.send("counts", json.dumps(each).encode())
                    if each is not row:
                        raise KeyError("aborted")
    else:
        put(semel_server.bootstrap, "counts", row)
    said = "1 row in counts was not written by this flow (1 by producer "
    done = semel("audit", "--flow", file)
    assert (done.code, done.out.splitlines()[0].startswith(f"NOT COMPARED: {said}")) == (0, True), done.out
    assert f"; {said}" in done.out.splitlines()[-1]
    page = semel("audit", "--flow", file, "--format", "html").out
    assert page.index(said) < page.index("What was found" if "What was found" in page else "Stages")


def test_a_flow_under_a_second_name_is_not_proven(
    semel: Command, file: str, semel_server: LocalLog, tmp_path: Path
) -> None:
    """Its output has each row twice: neither by either name, nor silently by the output alone."""
    again = tmp_path / "again.py"
    again.write_text(TEXT.replace('.to("counts")', '.to("counts").named("again")'))
    run(load_flows(again).flow(), semel_server.bootstrap, tmp_path / "other")
    for path in (file, str(again)):
        document = json.loads(semel("audit", "--flow", path, "--format", "json").out)
        assert (document["verdict"], document["holds"]) == ("not proven", False)
        assert document["shared_outputs"] == [{"topic": "counts", "rows": 2, "repeats": 2}]
        assert "2 rows of others in counts equal rows of this flow" in document["unproven"][0]
        other = "again" if path == file else "counts"
        assert f"(2 by sink {other}/" in document["not_compared"][0]
    done = semel("audit", "--output", "counts")
    assert "NOT COMPARED: 2 rows that equal an earlier one" in done.out
    assert "2 rows equal an earlier one" in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    "step",
    [
        ".filter(lambda row: row.user == 'a')",
        pytest.param(".where(\"user = 'a'\")", marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_another_flow_of_the_name_is_violated(
    semel: Command, file: str, step: str, request: pytest.FixtureRequest
) -> None:
    """Replayed in this process, and by Spark."""
    if "where" in step:
        request.getfixturevalue("spark")  # or the session that the audit begins would be that of later tests
    Path(file).write_text(TEXT.replace(".key_by(", f"{step}.key_by("))
    done = semel("audit", "--flow", file)
    assert done.code == 1, done.out
    assert done.out.splitlines()[-1] == "NOT PROVEN: counts is not a replay of its recorded inputs"
    assert "DIFFERS" in done.out


@pytest.mark.thorough
def test_what_was_trimmed_is_not_provable(semel: Command, file: str) -> None:
    assert semel("topic", "trim-prefix", "lines", "-o", "end").code == 0
    done = semel("audit", "--flow", file)
    assert done.code == 1
    assert "DIFFERS" not in done.out
    assert "not provable" in done.out.splitlines()[-1]
    document = json.loads(semel("audit", "--flow", file, "--format", "json").out)
    assert (document["verdict"], document["holds"]) == ("not proven", False)
    assert "not provable" in document["unproven"][0]


def test_a_flow_that_has_not_run_proves_nothing(
    semel: Command, semel_server: LocalLog, tmp_path: Path
) -> None:
    path = tmp_path / "counting.py"
    path.write_text(TEXT)
    put(semel_server.bootstrap, "lines", {"user": "a"})
    done = semel("audit", "--flow", str(path))
    assert done.code == 1, done.out
    assert "nothing is decided yet" in done.out.splitlines()[-1]


def test_a_flow_names_its_topics_itself(semel: Command, tmp_path: Path) -> None:
    done = semel("audit", "--flow", str(tmp_path / "x.py"), "--output", "t")
    assert (done.code, "goes without --output" in done.err) == (2, True)
