"""The audit from end to end, over topics of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from semel.audit.checks import Place
from semel.audit.identity import IdentityRule, IdentityUnreadable, KeyFrom
from semel.audit.run import AuditPlan, audit
from semel.client.blocking import Cluster
from semel.errors import SemelError
from semel.local import LocalLog
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

FLIGHT = IdentityRule.of("flight", None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLog]:
    with LocalLog(tmp_path_factory.mktemp("audited")) as log:
        yield log


@pytest.fixture
def cluster(log: LocalLog) -> Iterator[Cluster]:
    """Of a log whose topics ``in`` and ``out`` are new."""
    with Cluster(log.bootstrap) as cluster:
        cluster.create_topics({"in": 2, "out": 2})
        yield cluster
        cluster.delete_topics(["in", "out"])


def write(cluster: Cluster, topic: str, partition: int, flights: list[int], **batch: int) -> None:
    records = [
        Record(0, 0, b"UA", json.dumps({"flight": flight, "from": topic}).encode()) for flight in flights
    ]
    tp = TopicPartition(topic, partition)
    assert not cluster.produce({tp: encode_batch(records, **batch)})[tp].error_code


def plan(**changes: object) -> AuditPlan:
    columns = {
        "input_topic": "in",
        "output_topic": "out",
        "input_identity": FLIGHT,
        "output_identity": FLIGHT,
    }
    return AuditPlan(**(columns | changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_faithful_copy_is_proven(cluster: Cluster) -> None:
    for topic in ("in", "out"):
        grant = cluster.init_producer_id()
        write(cluster, topic, 1, [1, 2, 3], producer_id=grant.producer_id, producer_epoch=0, base_sequence=0)
        write(cluster, topic, 1, [4], producer_id=grant.producer_id, producer_epoch=0, base_sequence=3)
    report = audit(cluster, plan())
    assert report.holds
    assert report.as_lines()[-1] == "PROVEN: out holds every row of in exactly once, in order"
    document = report.as_document()
    assert (document["holds"], document["topics"][0]["rows"], document["findings"]) == (True, 4, [])
    json.dumps(document)


@pytest.mark.slow
def test_every_offender_is_named(cluster: Cluster) -> None:
    write(cluster, "in", 0, [1, 2, 3])
    write(cluster, "out", 0, [1, 1, 9, 3])
    report = audit(cluster, plan())
    assert not report.holds
    assert {f.check: f.row_count for f in report.result.findings} == {
        "missing": 1,
        "duplicated": 1,
        "extra": 1,
    }
    assert report.names[Place(True, 0, 1)] == "2"
    assert "  out-0@2: 9" in report.as_lines()
    assert report.as_lines()[-1].startswith("NOT PROVEN")


def test_order_of_a_key_is_held(cluster: Cluster) -> None:
    write(cluster, "in", 0, [1, 2, 3])
    write(cluster, "out", 1, [1, 3, 2])
    assert [finding.check for finding in audit(cluster, plan()).result.findings] == ["out_of_order"]
    assert audit(cluster, plan(order=None)).holds


def test_a_topic_alone_is_looked_through_for_repeats(cluster: Cluster) -> None:
    write(cluster, "out", 0, [1, 2])
    write(cluster, "out", 1, [2])
    report = audit(cluster, plan(input_topic=None))
    assert [finding.check for finding in report.result.findings] == ["duplicated"]
    assert report.as_lines()[-1] == "NOT PROVEN: out holds rows twice, or its sequences are not whole"


def test_input_and_output_may_name_rows_differently(cluster: Cluster) -> None:
    tp = TopicPartition("in", 0)
    cluster.produce({tp: encode_batch([Record(0, 0, b"7", b"anything")])})
    write(cluster, "out", 0, [7])
    assert audit(cluster, plan(input_identity=IdentityRule(KeyFrom.KEY))).holds


@pytest.mark.parametrize(
    ("key", "rows", "others"),
    [
        ("a,b", ['{"a":"x\\u001fy","b":"z"}'], ['{"a":"x","b":"y\\u001fz"}']),
        ("x", ['{"x":1}', '{"x":true}', '{"x":[1,2]}'], ['{"x":"1"}', '{"x":"true"}', '{"x":"[1,2]"}']),
        ("x", ['{"x":1e400}', '{"x":0.1}'], ['{"x":1e401}', '{"x":0.1000000000000000055}']),
        ("x", ['{"x":null}'], ['{"x":"\\u0000null"}']),
        (None, [None], ["\0null"]),
        (None, ["\0null"], [None]),
    ],
)
def test_other_rows_are_not_proven(
    cluster: Cluster, key: str | None, rows: list[str | None], others: list[str | None]
) -> None:
    for topic, values in (("in", rows), ("out", others)):
        records = [Record(0, 0, b"k", None if value is None else value.encode()) for value in values]
        cluster.produce({TopicPartition(topic, 0): encode_batch(records)})
    rule = IdentityRule.of(key, None)
    report = audit(cluster, plan(input_identity=rule, output_identity=rule))
    assert {each.check: each.row_count for each in report.result.findings} == {
        "missing": len(rows),
        "extra": len(rows),
    }
    alone = audit(cluster, plan(input_topic=None, output_identity=rule, named=True))
    assert not alone.result.findings


def test_a_condition_reads_json_as_a_flow_does(cluster: Cluster) -> None:
    """Of a doubled key the last one counts; what is no JSON stops the audit, and so does a number that SQL has not."""
    rows = [b'{"id":3,"id":4,"name":"a"}', b'{"id":4,"id":3,"name":"b"}']
    cluster.produce({TopicPartition("in", 0): encode_batch([Record(0, 0, None, row) for row in rows])})
    cluster.produce({TopicPartition("out", 0): encode_batch([Record(0, 0, None, b'{"id":4,"name":"a"}')])})
    rule = IdentityRule.of("id,name", None)
    named = plan(input_identity=rule, output_identity=rule, where="value ->> 'id' = 4")
    assert audit(cluster, named).holds
    for offset, (odd, why) in enumerate(
        [(b'{"id":NaN}', "malformed JSON"), (b'{"id":1e400}', "beyond a double")]
    ):
        cluster.produce({TopicPartition("in", 1): encode_batch([Record(0, 0, None, odd)])})
        with pytest.raises(SemelError, match=f"in-1 offset {offset}: --where: .*{why}"):
            audit(cluster, named)
        cluster.delete_records({TopicPartition("in", 1): offset + 1})


def test_a_fence_in_the_output_is_no_row(cluster: Cluster) -> None:
    write(cluster, "in", 0, [1])
    write(cluster, "out", 0, [1])
    grant = cluster.init_producer_id()
    cluster.write_fence({(grant.producer_id, 2): [TopicPartition("out", 0)]})
    report = audit(cluster, plan())
    assert report.holds
    assert report.output.sequences.control_batches == 1


def test_a_row_without_its_identity_is_named(cluster: Cluster) -> None:
    write(cluster, "in", 0, [1])
    with pytest.raises(
        IdentityUnreadable, match=r"in-0 offset 0 has no identity: its value has no field 'x'"
    ):
        audit(cluster, plan(input_identity=IdentityRule.of("x", None)))


def test_a_time_that_microseconds_cannot_hold_is_no_damage(cluster: Cluster) -> None:
    """As of nanoseconds that were sent as milliseconds; a condition reads it as it was sent."""
    cluster.alter_configs({key: {"message.timestamp.after.max.ms": str(2**63 - 1)} for key in ("in", "out")})
    far = 1_700_000_000_000_000_000
    rows = [Record(0, time, b"k", b"%d" % n) for n, time in enumerate((1, far, -far, 2))]
    cluster.produce({TopicPartition("in", 0): encode_batch(rows)})
    cluster.produce({TopicPartition("out", 0): encode_batch([rows[1], rows[3]])})
    whole = {"input_identity": IdentityRule(), "output_identity": IdentityRule()}
    assert audit(cluster, plan(output_topic="in", input_topic=None, **whole)).holds
    assert audit(cluster, plan(where="timestamp_ms > 1", **whole)).holds
    report = audit(cluster, plan(where=f"timestamp_ms IN ({far}, {-far})", **whole))
    assert {f.check: f.row_count for f in report.result.findings} == {"missing": 1, "extra": 1}
    assert sorted(report.names.values()) == ["key k, value 2", "key k, value 3"]


def test_a_topic_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(SemelError, match="there is no topic 'nope'"):
        audit(cluster, plan(output_topic="nope"))
