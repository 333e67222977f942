"""Rows of a source with ``record=True`` carry the time and headers of their record: what is written, and audited."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from tests.flow.flowing import records, run

import semel
from semel.audit.flows import audit_flow
from semel.core.flow.pieces import HEADERS_TYPE, TIME_TYPE
from semel.errors import BrokerError, ConfigError
from semel.flow import Record, source, task
from semel.flow import flow as flow_of
from semel.flow.here import StageHere, check_runs_here
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts
from semel.flow.testing import record
from semel.flow.topics import made_topics
from semel.flow.trial import Trials
from semel.local import LocalLog
from semel.record import batch as batches
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.sink_log import produce_until_answered

COLUMNS = "user string, n bigint"
BEGAN_MS = 1_700_000_000_000
Written = tuple[bytes | None, Any, int, list[tuple[str, bytes | None]]]


def clicks(**options: Any) -> Any:
    return source("clicks", json=COLUMNS, record=True, **options)


def headers_of(n: int) -> list[tuple[str, bytes | None]]:
    """None, one, and one name twice with a null."""
    return [[], [("trace", b"%d" % n)], [("a", b""), ("a", None), ("é", b"\xff")]][n % 3]


def put(bootstrap: str, numbers: Iterable[int], topic: str = "clicks") -> None:
    with semel.Producer(bootstrap) as producer:
        for n in numbers:
            value = json.dumps({"user": f"u{n % 4}", "n": n}).encode()
            producer.send(topic, value=value, key=b"k", headers=headers_of(n), timestamp_ms=BEGAN_MS + n)


def written(bootstrap: str, topic: str = "out") -> list[Written]:
    """Key, value, time and headers, by their value."""
    found = [
        (
            each["key"],
            json.loads(each["value"]),
            each["timestamp"].timestamp() * 1000 if each["timestamp"] else None,
            [(header["key"], header["value"]) for header in each["headers"] or ()],
        )
        for each in records(bootstrap, topic)
    ]
    return sorted(found, key=lambda each: each[1]["n"])


def expected(numbers: Iterable[int], key: Any = lambda n: b"k") -> list[Written]:
    return [(key(n), {"user": f"u{n % 4}", "n": n}, BEGAN_MS + n, headers_of(n)) for n in numbers]


def by_user(n: int) -> bytes:
    return b"u%d" % (n % 4)


def checked(flow: Any, bootstrap: str, spark: Any = None) -> None:
    found = replay(flow.plan(), bootstrap, spark=spark)
    assert found.holds, found.text()
    assert found.is_complete, found.text()


# -- what is written -------------------------------------------------------------------------------------------


def test_rows_that_are_passed_on_keep_key_time_and_headers(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    flow = clicks().filter(lambda row: row.n % 5).to("out")
    for turn, cuts in enumerate((Cuts(), Cuts(rows_max=7))):
        put(bootstrap, range(40 * turn, 40 * turn + 40))
        run(flow, bootstrap, tmp_path, cuts)
    assert written(bootstrap) == expected(n for n in range(80) if n % 5)
    checked(flow, bootstrap)


@pytest.mark.thorough
def test_they_go_along_through_own_topics_and_with_rows_that_are_made_of_others(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(30))
    twice = clicks().key_by("user").flat_map(lambda row: [row, row], schema=COLUMNS)
    flow = twice.map(lambda row: {"user": row.user, "n": row.n}, schema=COLUMNS).to("out")
    run(flow, bootstrap, tmp_path)
    assert written(bootstrap) == [each for row in expected(range(30), by_user) for each in (row, row)]
    checked(flow, bootstrap)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"copied": True}, {"key": "user"}])
def test_a_source_that_is_copied_or_keyed_keeps_them(
    semel_server: LocalLog, tmp_path: Any, options: dict[str, Any]
) -> None:
    bootstrap = semel_server.bootstrap
    with semel.Producer(bootstrap) as producer:
        for key, row, time_ms, headers in expected(range(12), by_user):
            value = json.dumps(row).encode()
            producer.send("clicks", value=value, key=key, headers=headers, timestamp_ms=time_ms)
    flow = clicks(**options).to("out")
    run(flow, bootstrap, tmp_path)
    assert written(bootstrap) == expected(range(12), by_user)
    checked(flow, bootstrap)


@pytest.mark.thorough
def test_a_merge_keeps_them_where_all_of_its_streams_have_them(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(6))
    put(bootstrap, range(6, 9), "more")
    others = (source("more", json=COLUMNS, record=keeps).named(f"more-{keeps}") for keeps in (True, False))
    both, one = (
        clicks().merge(other).to(topic) for other, topic in zip(others, ("both", "one"), strict=True)
    )
    for flow in (both, one):
        run(flow, bootstrap, tmp_path)
        checked(flow, bootstrap)
    assert written(bootstrap, "both") == expected(range(9))
    assert {
        (time_ms > BEGAN_MS + 100, len(headers)) for _, _, time_ms, headers in written(bootstrap, "one")
    } == {(True, 0)}


@pytest.mark.thorough
def test_without_it_and_behind_a_step_with_state_rows_have_the_time_of_writing(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(8))
    flows = (
        source("clicks", json=COLUMNS).filter(lambda row: True).to("plain"),
        clicks().key_by("user").last().to("last"),
    )
    for flow in flows:
        run(flow, bootstrap, tmp_path)
        checked(flow, bootstrap)
        found = records(bootstrap, flow.name)
        assert all(each["timestamp"].year > 2023 and not each["headers"] for each in found)
    assert "record" not in flows[0].plan().stages[0].plan_text
    keyed, last = flows[1].plan().stages
    assert keyed.output.has_record
    assert not last.output.has_record


@pytest.mark.thorough
def test_bad_rows_in_front_change_nothing_and_have_the_time_of_writing(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    with semel.Producer(bootstrap) as producer:
        producer.send("clicks", value=b"no JSON", timestamp_ms=5, headers=[("trace", b"1")])
    put(bootstrap, range(3))
    flow = clicks().filter(lambda row: True).to("out")
    run(flow, bootstrap, tmp_path)
    assert written(bootstrap) == expected(range(3))
    (bad,) = records(bootstrap, "out.bad")
    assert bad["timestamp"].year > 2023
    assert [each["key"] for each in bad["headers"]] == ["semel-why", "semel-step", "semel-at"]
    checked(flow, bootstrap)


@pytest.mark.thorough
@pytest.mark.parametrize("time_ms", [-1, -(2**62), 253_402_300_800_000])
def test_a_time_that_no_clock_has_is_in_nobodys_way(
    semel_server: LocalLog, tmp_path: Any, time_ms: int
) -> None:
    """Where a column of microseconds cannot hold it, the row has the time of writing, as in Spark's sink."""
    bootstrap = semel_server.bootstrap
    with semel.Admin(bootstrap) as admin:
        for topic in ("clicks", "out"):
            admin.create_topic(topic, 1, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    put(bootstrap, [0])
    batch = bytes(batches.encode_batch([batches.Record(0, time_ms, None, b'{"user": "u1", "n": 1}')]))
    clicks_0 = semel.TopicPartition("clicks", 0)
    assert not produce_until_answered(connect(Connection(bootstrap)), {clicks_0: batch})[clicks_0].error_code
    flow = clicks().key_by("user").filter(lambda row: True).to("out")
    run(flow, bootstrap, tmp_path)
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([semel.TopicPartition("out", 0)])
        consumer.seek(semel.TopicPartition("out", 0), 0)
        found = [each for _ in range(2) for each in consumer.poll(10, max_records=1)]
    kept = {json.loads(each.value)["n"]: each.timestamp_ms for each in found}
    assert kept[0] == BEGAN_MS
    assert kept[1] == time_ms if abs(time_ms) < 2**62 else kept[1] > BEGAN_MS
    checked(flow, bootstrap)


@pytest.mark.thorough
def test_a_topic_that_takes_no_such_time_stops_the_flow_with_its_name(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 1, configs={"message.timestamp.before.max.ms": "1000"})
    put(bootstrap, range(2))
    flow = clicks().filter(lambda row: True).to("out")
    with pytest.raises(
        BrokerError, match=r"to out-0: .*semel topic alter-config out -c message\.timestamp\.before"
    ):
        run(flow, bootstrap, tmp_path)
    with semel.Admin(bootstrap) as admin:
        admin.alter_configs("out", {"message.timestamp.before.max.ms": str(2**63 - 1)})
    run(flow, bootstrap, tmp_path)
    assert written(bootstrap) == expected(range(2))


@pytest.mark.thorough
def test_a_killed_attempt_is_met_again(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(20))
    flow = clicks().filter(lambda row: row.n % 7).to("out")
    plan = flow.plan()
    check_runs_here(plan)
    connection = Connection(bootstrap)
    plan = made_topics(connect(connection), plan)
    assert StageHere(plan.stages[0], connection, Cuts(), tmp_path).step(is_killed=True) is not None
    run(flow, bootstrap, tmp_path, Cuts(rows_max=3))
    assert written(bootstrap) == expected(n for n in range(20) if n % 7)
    checked(flow, bootstrap)


@pytest.mark.thorough
def test_own_topics_that_would_set_times_of_their_own_are_refused(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(2))
    flow = clicks().key_by("user").filter(lambda row: True).to("out")
    run(flow, bootstrap, tmp_path)
    with semel.Admin(bootstrap) as admin:
        admin.alter_configs("out.clicks-by-user", {"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(ConfigError, match=r"message\.timestamp\.type=LogAppendTime"):
        run(flow, bootstrap, tmp_path)


def trace(record: Record) -> str | None:
    value = record.header("trace")
    return None if value is None else value.decode()


def test_steps_see_key_time_and_headers_also_behind_a_topic_of_the_flows_own(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(12))
    with_trace, rest = clicks().branch(lambda row, record: trace(record) is not None)
    columns = "n bigint, key string, at timestamp, trace string"
    seen = with_trace.key_by("user").map(
        lambda row, record: {
            "n": row.n,
            "key": record.key.decode(),
            "at": record.timestamp,
            "trace": trace(record),
        },
        schema=columns,
    )
    counted = rest.filter(lambda row, record: record.timestamp_ms % 2 == 0).key_by("user").count()
    flow = flow_of("seeing", seen.to("seen"), counted.to("counts"))
    run(flow, bootstrap, tmp_path)
    assert [row for _, row, _, _ in written(bootstrap, "seen")] == [
        {"n": n, "key": f"u{n % 4}", "at": f"2023-11-14T22:13:20.{n:03}000Z", "trace": str(n)}
        for n in range(1, 12, 3)
    ]
    counts = [json.loads(each["value"])["count"] for each in records(bootstrap, "counts")]
    assert sum(counts) == sum(1 for n in range(12) if n % 3 != 1 and n % 2 == 0)
    checked(flow, bootstrap)


def test_a_flow_is_tested_with_records(semel_server: LocalLog, tmp_path: Any) -> None:
    def at_once(row: Any, record: Record) -> bool:
        return record.timestamp is not None and trace(record) != "no"

    flow = clicks().filter(at_once).to("out")
    given = [record({"user": "a", "n": 1}, key="k")]  # all of one key, so in one order
    given += [record({"user": "b", "n": 2}, key="k", headers=[("trace", b"no")])]
    given += [record({"user": "c", "n": 3}, key="k", headers=[("trace", b"yes")], timestamp_ms=7)]
    outcome = Trials(semel_server.bootstrap, tmp_path, lambda: None)(flow, {"clicks": given})
    assert [row["n"] for row in outcome["out"]] == [1, 3]
    first, last = outcome.records["out"]
    assert first.timestamp_ms is not None
    assert last == Record(b"k", 7, (("trace", b"yes"),))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_steps_of_sparks_see_key_time_and_headers(spark: Any, semel_server: LocalLog, tmp_path: Any) -> None:
    from semel.flow.run import run_flow

    bootstrap = semel_server.bootstrap
    put(bootstrap, range(12))
    rows = clicks().where("exists(_record.headers, each -> each.key = 'trace')")
    flow = rows.filter(lambda row, record: record.key == b"k" and trace(record) != "4").select(
        "n",
        "CAST(_record.key AS string) AS key",
        "_record.timestamp AS at",
        "CAST(_record.headers[0].value AS string) AS trace",
        schema="n bigint, key string, at timestamp, trace string",
    )
    flow = flow.where("_RECORD.timestamp > '2023-11-14'").to("seen")
    run_flow(flow.plan(), bootstrap, spark=spark, once=True, store=tmp_path)
    assert [row for _, row, _, _ in written(bootstrap, "seen")] == [
        {"n": n, "key": "k", "at": f"2023-11-14T22:13:20.{n:03}000Z", "trace": str(n)} for n in (1, 7, 10)
    ]
    checked(flow, bootstrap, spark)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_steps_of_sparks_keep_them_and_are_replayed(
    spark: Any, semel_server: LocalLog, tmp_path: Any
) -> None:
    from semel.flow.run import run_flow

    bootstrap = semel_server.bootstrap
    rows = clicks().where("n % 5 <> 0").filter(lambda row: row.n != 7).select("user", "n")
    applied = clicks().apply(lambda frame: frame.where("n < 3"))
    python = clicks().named("own").key_by("user").filter(lambda row: row.n % 2)
    both = flow_of(
        "both", rows.key_by("user").where("n <> 8").to("out"), applied.to("applied"), python.to("python")
    )
    assert [stage.output.has_record for stage in both.plan().stages].count(False) == 1  # that of apply
    for turn in range(2):
        put(bootstrap, range(30 * turn, 30 * turn + 30))
        run_flow(both.plan(), bootstrap, spark=spark, once=True, cuts=Cuts(rows_max=11), store=tmp_path)
    kept = [n for n in range(60) if n % 5 and n not in (7, 8)]
    assert written(bootstrap) == expected(kept, by_user)
    assert written(bootstrap, "python") == expected(range(1, 60, 2), by_user)
    assert all(
        time_ms > BEGAN_MS + 100 and not headers for _, _, time_ms, headers in written(bootstrap, "applied")
    )
    checked(both, bootstrap, spark)


# -- what the audit finds ----------------------------------------------------------------------------------------


def other_header(batch: pa.RecordBatch) -> tuple[str, Any]:
    made = [[*(each or ()), {"key": "b", "value": b""}] for each in batch.column("headers").to_pylist()]
    return "headers", pa.array(made, HEADERS_TYPE)


def no_header(batch: pa.RecordBatch) -> tuple[str, Any]:
    return "headers", pa.nulls(batch.num_rows, HEADERS_TYPE)


def other_time(batch: pa.RecordBatch) -> tuple[str, Any]:
    times = [each.value + 1000 for each in batch.column("timestamp")]
    return "timestamp", pa.array(times, pa.int64()).cast(TIME_TYPE)


def no_time(batch: pa.RecordBatch) -> tuple[str, Any]:
    return "timestamp", pa.nulls(batch.num_rows, TIME_TYPE)


@pytest.mark.parametrize("plant", [other_header, no_header, other_time, no_time])
def test_an_altered_header_or_time_is_found(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, plant: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, range(5))
    flow = clicks().filter(lambda row: True).to("out")
    real = task.output_batch

    def planted(*arguments: Any) -> Any:
        kept, made = real(*arguments)
        name, column = plant(made)
        return kept, made.set_column(made.schema.get_field_index(name), name, column)

    with monkeypatch.context() as patch:
        patch.setattr(task, "output_batch", planted)
        run(flow, bootstrap, tmp_path)
    report = audit_flow(flow.plan(), bootstrap)
    assert report.is_violated
    (told,) = report.stages[0].differences
    assert told.startswith("out-0@"), told


def test_a_log_that_sets_times_of_its_own_is_said_to_be_not_compared(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 1, configs={"message.timestamp.type": "LogAppendTime"})
    put(bootstrap, range(5))
    flow = clicks().filter(lambda row: True).to("out")
    run(flow, bootstrap, tmp_path)
    report = audit_flow(flow.plan(), bootstrap)
    assert report.holds
    assert any("times of 5 rows of out" in each and "LogAppendTime" in each for each in report.not_compared)
    assert not any(each.startswith("timestamps of rows") for each in report.not_compared)


@pytest.mark.thorough
def test_of_stages_without_records_times_are_said_to_be_not_compared(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    put(semel_server.bootstrap, range(3))
    flow = clicks().key_by("user").count().to("counts")
    run(flow, semel_server.bootstrap, tmp_path)
    report = audit_flow(flow.plan(), semel_server.bootstrap)
    assert report.holds
    assert "timestamps of rows of clicks-by-user-count: they have the time of writing" in report.not_compared
