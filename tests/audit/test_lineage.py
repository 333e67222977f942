"""By lineage headers: each fault by example, and all against a few obvious loops by property."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.checks import compare_lineage
from semel.audit.identity import By, IdentityUnreadable
from semel.audit.run import AuditPlan, audit
from semel.audit.store import Rows, RowStore
from semel.client.blocking import Cluster
from semel.core.flow.lineage import Lineage
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

STORE = RowStore()
Came = tuple[int, int]  # (offset of the input row, number)


def side(rows: list[Came]) -> Rows:
    kept = STORE.rows("t")
    texts = pa.array([f"0/{offset}".encode() for offset, _ in rows], pa.binary())
    numbers = pa.array([number for _, number in rows], pa.uint64())
    kept.add(0, np.arange(len(rows), dtype=np.int64), texts, numbers=numbers)
    return kept


@given(
    st.integers(0, 4), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=10), st.booleans()
)
def test_counts_agree_with_a_slow_model(inputs: int, output: list[Came], subset: bool) -> None:
    found = compare_lineage(side([(n, 0) for n in range(inputs)]), side(output), subset=subset).findings
    there = set(output)
    model = {
        "missing": 0 if subset else sum((n, 0) not in there for n in range(inputs)),
        "duplicated": sum(count - 1 for count in Counter(output).values()),
        "extra": sum(offset >= inputs for offset, _ in output),
        "skipped": sum(number > 0 and (offset, number - 1) not in there for offset, number in output),
    }
    assert {each.check: each.row_count for each in found} == {k: n for k, n in model.items() if n}


@pytest.fixture
def cluster(semel_server: LocalLog) -> Iterator[Cluster]:
    with Cluster(semel_server.bootstrap) as cluster:
        cluster.create_topics({"in": 1, "out": 1})
        tp = TopicPartition("in", 0)
        cluster.produce({tp: encode_batch([Record(0, 0, None, b"%d" % n) for n in range(3)])})
        yield cluster


def write(cluster: Cluster, *came: Came, topic: str = "in") -> None:
    of = cluster.topic(topic).topic_id if topic == "in" else None
    records = [
        Record(0, 0, None, b"made", (Lineage(topic, 0, offset, number, of).header(),))
        for offset, number in came
    ]
    tp = TopicPartition("out", 0)
    assert not cluster.produce({tp: encode_batch(records)})[tp].error_code


PLAN = AuditPlan(input_topic="in", output_topic="out", by=By.LINEAGE)


def test_each_input_row_has_come_once(cluster: Cluster) -> None:
    write(cluster, (0, 0), (1, 0), (1, 1), (2, 0))
    write(cluster, (7, 0), topic="other")
    report = audit(cluster, PLAN)
    assert report.holds, report.as_lines()
    assert report.as_lines()[-1] == "PROVEN: out holds every row of in exactly once, by lineage alone"
    gaps = [line for line in report.as_lines() if line.startswith("NOT COMPARED: ")]
    assert report.as_lines()[: len(gaps)] == gaps
    assert "an altered value is not seen" in gaps[0]
    assert "may lack the last of several" in gaps[1]
    assert gaps[-1] == "NOT COMPARED: 1 row of out that came of other topics"


def test_each_fault_is_named(cluster: Cluster) -> None:
    write(cluster, (0, 0), (0, 0), (1, 1), (9, 0))
    lines = audit(cluster, PLAN).as_lines()
    assert "VIOLATED missing: 2 input rows that are not in the output" in lines
    assert "  in-0@1: key null, value 1" in lines
    assert "VIOLATED duplicated: 1 rows that stand more than once" in lines
    assert "VIOLATED extra: 1 output rows that are not in the input" in lines
    assert any(line.startswith("VIOLATED skipped: 1 ") for line in lines)


def test_what_came_of_a_trimmed_input_is_not_provable(cluster: Cluster) -> None:
    cluster.delete_records({TopicPartition("in", 0): 2})
    write(cluster, (0, 0), (1, 0), (1, 1), (2, 0))
    report = audit(cluster, PLAN)
    assert (report.verdict, report.result.findings) == ("not proven", ())
    assert report.as_lines()[-1] == (
        "NOT PROVEN: what could be compared is right; 3 rows of out came of records that stood before the start of in: "
        "they are gone, and what came of them is not provable"
    )
    write(cluster, (1, 1), (0, 2), (3, 0))
    found = {each.check: each.row_count for each in audit(cluster, PLAN).result.findings}
    assert found == {"duplicated": 1, "skipped": 1, "extra": 1}


def test_a_row_of_the_topic_before_is_extra(cluster: Cluster) -> None:
    """Where a trimmed log begins says nothing of one that had its name before."""
    records = [Record(0, 0, None, b"made", (Lineage("in", 0, 0, 0, uuid4()).header(),))]
    tp = TopicPartition("out", 0)
    cluster.produce({tp: encode_batch(records)})
    cluster.delete_records({TopicPartition("in", 0): 2})
    write(cluster, (2, 0))
    report = audit(cluster, PLAN)
    assert [each.check for each in report.result.findings] == ["extra"]
    assert report.output.unprovable_rows == 0


def test_a_row_without_lineage_is_named(cluster: Cluster) -> None:
    tp = TopicPartition("out", 0)
    cluster.produce({tp: encode_batch([Record(0, 0, None, b"x")])})
    with pytest.raises(IdentityUnreadable, match="out-0 offset 0 has no header 'semel-lineage'"):
        audit(cluster, PLAN)
