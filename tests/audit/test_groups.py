"""A group's positions beside the log, and beside what was made of what it has read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.groups import judge_positions
from semel.audit.read import InputRows
from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.errors import ConfigError
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 9)), st.integers(0, 5), st.integers(5, 8))
def test_a_position_lies_in_the_log(positions: dict[int, int], first: int, end: int) -> None:
    found = judge_positions("g", "t", positions, dict.fromkeys(range(2), first), dict.fromkeys(range(2), end))
    wrong = [number for number, at in positions.items() if number > 1 or not first <= at <= end]
    assert len(found.findings) == len(wrong)


@pytest.fixture
def cluster(semel_server: LocalLog) -> Iterator[Cluster]:
    """Of a log with ``in``, two partitions of three rows, and an empty ``out``."""
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.create_topics({"in": 2, "out": 2})
        for partition in range(2):
            write(cluster, "in", partition, "abc")
        yield cluster


def write(cluster: Cluster, topic: str, partition: int, names: str) -> None:
    tp = TopicPartition(topic, partition)
    records = [Record(0, 0, b"%d" % partition, b"%s%d" % (name.encode(), partition)) for name in names]
    assert not cluster.produce({tp: encode_batch(records)})[tp].error_code


PLAN = AuditPlan(input_topic="in", output_topic="out", group="g")


def commit(cluster: Cluster, *positions: int) -> None:
    cluster.commit_offsets("g", {TopicPartition("in", n): at for n, at in enumerate(positions)})


def test_the_output_holds_what_lies_before_the_positions(cluster: Cluster) -> None:
    commit(cluster, 2, 0)
    write(cluster, "out", 0, "ab")
    report = audit(cluster, PLAN)
    assert report.holds, report.as_lines()
    assert report.as_lines()[-1] == (
        "PROVEN: out holds every row of in before the positions of group g exactly once, and none behind them, in order"
    )
    assert report.as_document()["group"]["positions"] == {0: 2, 1: 0}


def test_how_far_it_is_ahead_and_behind_is_counted(cluster: Cluster) -> None:
    commit(cluster, 3, 1)
    write(cluster, "out", 0, "a")
    write(cluster, "out", 1, "abc")
    report = audit(cluster, PLAN)
    assert {each.check: each.row_count for each in report.result.findings} == {"missing": 2, "ahead": 2}
    assert "VIOLATED missing: 2 input rows that are not in the output" in report.as_lines()
    assert "  out-1@1: key 1, value b1" in report.as_lines()


def test_a_group_alone_is_held_against_its_log(cluster: Cluster) -> None:
    commit(cluster, 3)
    alone = AuditPlan(output_topic="in", group="g")
    report = audit(cluster, alone)
    assert report.holds
    assert report.as_lines()[-1].endswith("the positions of group g lie in it")
    cluster.delete_records({TopicPartition("in", 1): 2})
    commit(cluster, 4, 1)
    lines = [line for line in audit(cluster, alone).as_lines() if line.startswith("VIOLATED")]
    assert lines == [
        "VIOLATED positions: in-0: the group's position is 4, behind the log's end at 3: "
        "rows to come would be passed over",
        "VIOLATED positions: in-1: the group's position is 1, before the log's start at 2: rows are gone unread",
    ]


def test_a_group_that_has_committed_nothing_proves_nothing(cluster: Cluster) -> None:
    report = audit(cluster, PLAN)
    assert report.verdict == "not proven"
    assert report.as_lines()[-1] == "NOT PROVEN: the group g has committed no position in in"


def test_positions_with_nothing_before_them_prove_nothing(cluster: Cluster) -> None:
    commit(cluster, 0, 0)
    report = audit(cluster, PLAN)
    assert report.as_lines()[-1] == "NOT PROVEN: no row of in lies before the positions of the group g"
    write(cluster, "out", 0, "z")
    assert audit(cluster, PLAN).verdict == "violated"


def test_a_group_reads_a_topic(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="name that topic with --input"):
        AuditPlan(output_topic="out", input_rows=InputRows("lines", list), group="g")
