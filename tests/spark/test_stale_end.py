"""A sink on a cluster whose leaders may be cut off: what they tell of ends, and of rows, proves nothing by itself.

The log is a real one. What a leader of before would have told otherwise is put into its answers, until another broker
is asked.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from tests.spark.driving import Driver, numbers

from semel.client.blocking import Cluster
from semel.errors import BrokerError, ErrorCode
from semel.record.batch import Record, decode_header, encode_batch
from semel.spark import stored_rows as of_stored_rows
from semel.spark import takeover
from semel.spark.options import Connection, SinkOptions
from semel.spark.stored_rows import OlderDuplicates
from semel.types import LATEST_TIMESTAMP, ProducerGrant, TopicPartition

pytestmark = pytest.mark.usefixtures("own_caches")


class CutOff:
    """Of ``tp`` the leader of before answers, with the end that it had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.end_offset: int | None = None
        self.tp: TopicPartition | None = None
        asked, elsewhere = Cluster.list_offsets, Cluster.look_elsewhere

        def tells_what_it_had(cluster, timestamps, isolation="read_committed"):
            told = asked(cluster, timestamps, isolation)
            if self.end_offset is not None and timestamps.get(self.tp) == LATEST_TIMESTAMP:
                told[self.tp] = replace(told[self.tp], offset=self.end_offset)
            return told

        def is_known(cluster, topics):
            self.end_offset = None
            elsewhere(cluster, topics)

        monkeypatch.setattr(Cluster, "list_offsets", tells_what_it_had)
        monkeypatch.setattr(Cluster, "look_elsewhere", is_known)
        monkeypatch.setattr(Cluster, "tells_committed_only", False)  # as of Apache Kafka

    def answers(self, tp: TopicPartition, end_offset: int) -> None:
        self.tp, self.end_offset = tp, end_offset


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> CutOff:
    return CutOff(monkeypatch)


def test_rows_behind_a_stale_end_are_not_written_again(log, cut_off):
    topic = log.topic("out")

    def driver() -> Driver:
        return Driver(SinkOptions(Connection(log.bootstrap, uuid.uuid4().hex), topic, topic))

    first = driver()
    first.micro_batch(0, 2, 0)
    first.task(first.plan(), 2, 8, sent=4)  # and dies
    cut_off.answers(TopicPartition(topic, 0), 2)
    second = driver()
    ticket = second.plan()
    assert cut_off.end_offset is None, "it did not believe that end"
    second.decide(ticket, second.task(ticket, 2, 8), 1)
    assert log.values(topic) == numbers(0, 8)


def test_scanned_behind_the_fences(log, cut_off, monkeypatch):
    topic = log.topic("out")
    tp = TopicPartition(topic, 0)
    grants = [log.cluster.init_producer_id() for _ in range(2)]
    fences = {(grant.producer_id, grant.producer_epoch + 1): [tp] for grant in grants}
    before = takeover.ends_before_fences(log.cluster, [tp])
    log.write(topic, [b"somebody else's"])
    takeover.fence_writers(log.cluster, "s", fences)
    cut_off.answers(tp, 2)  # the first of the fences, and not the second
    ends = takeover.ends_behind_fences(log.cluster, fences, before)
    assert ends[tp].offset == 3
    assert ends[tp].leader_epoch == log.cluster.list_offsets({tp: LATEST_TIMESTAMP})[tp].leader_epoch

    monkeypatch.setattr(takeover, "APPEND_TIMEOUT_MS", 0)
    never_written = {(grants[0].producer_id, 99): [tp]}
    with pytest.raises(BrokerError, match=r"up to the fences .* Nothing was written"):
        takeover.ends_behind_fences(log.cluster, never_written, before)


def test_a_duplicate_that_is_told_of_is_stored_once_it_can_be_read(log, cut_off, monkeypatch):
    topic = log.topic("out")
    tp = TopicPartition(topic, 0)
    grant = log.cluster.init_producer_id()
    batches = [batch_of(grant, sequence) for sequence in range(3)]
    for batch in batches:
        assert log.cluster.produce({tp: batch})[tp].error_code is ErrorCode.NONE
    older = OlderDuplicates(log.cluster)
    cut_off.answers(tp, 0)
    assert older.has(tp, decode_header(batches[0]), 0)
    assert cut_off.end_offset is None, "it did not believe what was told"
    cut_off.answers(tp, 0)
    assert older.has(tp, decode_header(batches[2]), 0)
    assert cut_off.end_offset == 0, "what was read once is not read again"
    assert not older.has(tp, decode_header(batch_of(grant, 3)), 0), "nobody tells of it"

    monkeypatch.setattr(of_stored_rows, "APPEND_TIMEOUT_MS", 0)
    monkeypatch.setattr(Cluster, "look_elsewhere", lambda *_: None)
    with pytest.raises(BrokerError, match=r"tells of these rows, and they cannot be read"):
        OlderDuplicates(log.cluster).has(tp, decode_header(batches[2]), 0)


def batch_of(grant: ProducerGrant, sequence: int) -> bytearray:
    return encode_batch(
        [Record(0, 0, None, b"row")],
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=sequence,
    )
