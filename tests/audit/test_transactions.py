"""Rows of transactions: what is to be seen against what the markers say; and beside Apache Kafka's own transactions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.audit.run import AuditPlan, audit
from semel.audit.transactions import TransactionCheck, TransactionVerdict
from semel.client.blocking import Cluster
from semel.record.batch import BatchHeader, Record, decode_header, encode_batch
from semel.record.control import MarkerType
from semel.types import TopicPartition

TP = TopicPartition("t", 0)


def header(offset: int, producer_id: int, rows: int = 1, **changes: Any) -> BatchHeader:
    batch = encode_batch(
        [Record(0, 0, None, b"x")] * rows, producer_id=producer_id, producer_epoch=0, base_sequence=0
    )
    return decode_header(batch)._replace(base_offset=offset, **changes)


def transactional(offset: int, producer_id: int, rows: int = 1) -> BatchHeader:
    plain = header(offset, producer_id, rows)
    return plain._replace(attributes=plain.attributes | 0x10)


def control(offset: int, producer_id: int) -> BatchHeader:
    plain = header(offset, producer_id)
    return plain._replace(attributes=plain.attributes | 0x30)


def found(verdict: TransactionVerdict) -> list[str]:
    return [each.check for each in verdict.findings]


@pytest.mark.parametrize(
    ("is_visible", "marker", "check"),
    [
        (True, MarkerType.COMMIT, None),
        (False, MarkerType.ABORT, None),
        (True, MarkerType.ABORT, "aborted_visible"),
        (False, MarkerType.COMMIT, "committed_hidden"),
        (True, None, "open_visible"),
    ],
)
def test_what_is_seen_is_what_was_committed(
    is_visible: bool, marker: MarkerType | None, check: str | None
) -> None:
    judge = TransactionCheck()
    judge.feed(TP, transactional(5, 1, rows=3), is_visible=is_visible)
    if marker is not None:
        judge.feed(TP, control(8, 1), is_visible=False, marker=marker)
    verdict = judge.verdict()
    assert found(verdict) == ([] if check is None else [check])
    if check is not None:
        assert str(verdict.findings[0]).startswith("t-0 offset 5: 3 rows of producer 1 are of ")


def test_what_lies_behind_the_end_is_counted_by_how_it_ends() -> None:
    judge = TransactionCheck()
    for producer_id in (1, 2, 3):
        judge.feed(
            TP, transactional(producer_id, producer_id, rows=producer_id), is_visible=False, beyond=True
        )
    judge.feed(TP, header(9, 4), is_visible=False, beyond=True)
    judge.feed(TP, control(10, 2), is_visible=False, marker=MarkerType.COMMIT, beyond=True)
    judge.feed(TP, control(11, 3), is_visible=False, marker=MarkerType.ABORT, beyond=True)
    verdict = judge.verdict()
    assert (verdict.open_rows, verdict.waiting_rows, verdict.aborted_rows, verdict.findings) == (1, 3, 3, ())
    assert verdict.not_compared() == ["1 row of open transactions", "3 rows behind an open transaction"]


steps = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["write", "commit", "abort"])), max_size=15)


@given(steps, st.data())
def test_one_row_seen_or_hidden_against_its_marker_is_found(
    done: list[tuple[int, str]], data: st.DataObject
) -> None:
    """Each producer's rows go with the next marker of it; those without one are left open."""
    fates = [
        next((what for whose, what in done[number + 1 :] if whose == who and what != "write"), "open")
        for number, (who, _) in enumerate(done)
    ]
    rows = [n for n, (_, what) in enumerate(done) if what == "write" and fates[n] != "open"]
    wrong = data.draw(st.sampled_from(rows)) if rows and data.draw(st.booleans()) else None
    judge = TransactionCheck()
    for number, (who, what) in enumerate(done):
        if what == "write":
            is_visible = (fates[number] == "commit") != (number == wrong)
            judge.feed(TP, transactional(number, who), is_visible=is_visible)
        else:
            judge.feed(TP, control(number, who), is_visible=False, marker=MarkerType[what.upper()])
    checks = [] if wrong is None else ["committed_hidden" if fates[wrong] == "commit" else "aborted_visible"]
    assert found(judge.verdict()) == checks


@pytest.mark.kafka
def test_apache_kafkas_transactions_are_told_apart(apache_kafka: Any) -> None:
    from confluent_kafka import Producer

    def producer(name: str) -> Any:
        made = Producer({"bootstrap.servers": apache_kafka.bootstrap, "transactional.id": name})
        made.init_transactions(30)
        made.begin_transaction()
        return made

    with Cluster(apache_kafka.bootstrap) as cluster:
        cluster.create_topics({"audited-in": 1, "audited-out": 1})
        for topic in ("audited-in", "audited-out"):
            for name, ends in (("a", "commit"), ("b", "abort"), ("c", "open"), ("d", "commit")):
                writer = producer(f"{topic}-{name}")
                for n in range(2):
                    writer.produce(topic, f"{name}{n}".encode(), partition=0)
                writer.flush(30)
                if ends == "commit":
                    writer.commit_transaction(30)
                elif ends == "abort":
                    writer.abort_transaction(30)
        report = audit(cluster, AuditPlan(input_topic="audited-in", output_topic="audited-out"))
    assert report.holds, report.as_lines()
    for topic in report.topics:
        assert topic.transactions is not None
        assert topic.transactions == TransactionVerdict(2, 2, 2, 2, 0, ())
    assert report.output.rows == 2
