"""Input and output in two clusters: what ``semel copy`` made of topics, and of tables beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Command, semel

from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.errors import ConfigError
from semel.local import LocalLog
from semel.types import TopicPartition

__all__ = ["semel"]  # the fixture


@pytest.fixture
def other(semel_server_factory: Callable[..., LocalLog]) -> str:
    """The destination; ``SEMEL_BOOTSTRAP`` is the source."""
    return semel_server_factory().bootstrap


@pytest.fixture
def copied(semel: Command, semel_server: LocalLog, other: str) -> Command:
    """``clicks``, which both clusters have."""
    assert semel("produce", "clicks", "-K", ":", stdin=b"a:1\nb:2\na:3\na:4\n").code == 0
    done = semel("copy", "--from", semel_server.bootstrap, "--to", other, "clicks", "--until-end", "-q")
    assert done.code == 0, done.err
    return semel


BOTH = ("audit", "--input", "clicks", "--output", "clicks")


def test_a_copy_under_its_own_name_is_proven(copied: Command, semel_server: LocalLog, other: str) -> None:
    done = copied(*BOTH, "--output-bootstrap", other)
    assert (done.code, done.out.splitlines()[-1]) == (
        0,
        f"PROVEN: clicks at {other} holds every row of clicks at {semel_server.bootstrap} exactly once, in order",
    ), done.out + done.err
    document = json.loads(copied(*BOTH, "--output-bootstrap", other, "--format", "json").out)
    assert [each["bootstrap"] for each in document["topics"]] == [semel_server.bootstrap, other]


def test_each_side_is_read_where_it_is(copied: Command, other: str) -> None:
    """What is lost is named from the one cluster, and what is doubled from the other."""
    assert copied("produce", "clicks", "-K", ":", stdin=b"c:5\n").code == 0
    assert copied("produce", "clicks", "-K", ":", "-b", other, stdin=b"b:2\nd:6\n").code == 0
    done = copied(*BOTH, "--output-bootstrap", other)
    assert done.code == 1
    for said in (
        "VIOLATED missing: 1 input rows that are not in the output\n  clicks-0@4: key c, value 5\n",
        "  clicks-0@1, clicks-0@4: key b, value 2\n",
        "VIOLATED extra: 1 output rows that are not in the input\n  clicks-0@5: key d, value 6\n",
    ):
        assert said in done.out


def test_a_copy_of_some_rows_is_proven_with_its_condition(
    semel: Command, semel_server: LocalLog, other: str
) -> None:
    semel("produce", "flights", stdin=b'{"delay":90}\n{"delay":10}\n{"delay":70}\n')
    late = ("--where", "value ->> 'delay' > 60")
    ends = ("--from", semel_server.bootstrap, "--to", other, "--prefix", "eu.")
    assert semel("copy", *ends, "flights", *late, "--until-end", "-q").code == 0
    sides = ("--input", "flights", "--output", "eu.flights", "--output-bootstrap", other)
    assert semel("audit", *sides, *late).code == 0
    assert semel("audit", *sides).code == 1


def test_one_cluster_is_one_whatever_its_address(
    semel: Command, semel_server: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    semel("produce", "clicks", stdin=b"a\n")
    port = semel_server.bootstrap.rpartition(":")[2]
    for address, why in (
        (
            f"localhost:{port}",
            f" and localhost:{port} are one cluster, so input and output are both 'clicks'",
        ),
        (semel_server.bootstrap, "input and output are both 'clicks'"),
    ):
        done = semel(*BOTH, "-b", f"127.0.0.1:{port}", "--output-bootstrap", address)
        assert (done.code, done.out) == (2, "")
        assert why in done.err
    with Cluster(semel_server.bootstrap) as cluster, Cluster(f"localhost:{port}") as same:
        plan = AuditPlan(input_topic="t", output_topic="t", input_bootstrap="a:1", output_bootstrap="b:1")
        for second in (same, None):
            with pytest.raises(ConfigError, match="are one cluster"):
                audit(cluster, plan, output_cluster=second)


@pytest.mark.thorough
def test_groups_are_of_the_inputs_cluster(copied: Command, semel_server: LocalLog, other: str) -> None:
    with Cluster(semel_server.bootstrap) as first, Cluster(other) as second:
        first.commit_offsets("g", {TopicPartition("clicks", 0): 4})
        second.commit_offsets("g", {TopicPartition("clicks", 0): 1})
        at = ("--output-bootstrap", other, "--group", "g")
        done = copied(*BOTH, *at)
        assert done.code == 0, done.out
        assert "group g: read clicks up to 0@4" in done.out
        first.commit_offsets("g", {TopicPartition("clicks", 0): 3})
        assert "VIOLATED ahead: 1 " in copied(*BOTH, *at).out
        alone = copied("audit", "--output", "clicks", *at)
        assert (alone.code, "read clicks up to 0@1" in alone.out) == (0, True)


@pytest.mark.thorough
def test_tables_and_files_have_their_end(copied: Command, other: str, tmp_path: Path) -> None:
    """Each beside the topic of the one cluster or of the other, and the cluster that has no part is not asked."""
    nobody = ("-b", "127.0.0.1:1", "--output-bootstrap", other)
    table = tmp_path / "table"
    land = ("land", "clicks", "-b", other, "--to", str(table), "--format", "parquet", "--until-end", "-q")
    assert copied(*land).code == 0
    name = f"parquet:{table}"
    assert copied("audit", "--input", "clicks", "--output", name, "-b", other).code == 0
    done = copied("audit", "--input", name, "--output", "clicks", *nobody)
    assert (done.code, f"clicks at {other} holds every row of {name}" in done.out) == (0, True), done.err
    lines = tmp_path / "lines"
    lines.write_bytes(b"a:1\nb:2\na:3\na:4\n")
    done = copied("audit", "--input-file", str(lines), "-K", ":", "--output", "clicks", *nobody)
    assert done.code == 0, done.out + done.err
    assert copied("audit", "--output", "clicks", *nobody).code == 0
    done = copied("audit", "--input", "clicks", "--output", name, "--output-bootstrap", other)
    assert (done.code, "the output is a table: leave one out" in done.err) == (2, True)


def test_a_flow_is_of_one_log(semel: Command, tmp_path: Path) -> None:
    done = semel("audit", "--flow", str(tmp_path / "flow.py"), "--output-bootstrap", "127.0.0.1:1")
    assert (done.code, "it goes without --output-bootstrap" in done.err) == (2, True)
