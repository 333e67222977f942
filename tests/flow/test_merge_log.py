"""The merge log on a real server: planners that come and go, and inputs that are not what they were."""

from __future__ import annotations

import uuid
from contextlib import closing

import pytest

from semel.client.blocking import Cluster
from semel.flow.merge_log import MergeLog
from semel.record.batch import Record, decode_records, encode_batch, scan_batches
from semel.spark.options import Connection
from semel.types import TopicPartition


class Merged:
    """Two inputs and a merge log of their own on the server of the run."""

    def __init__(self, bootstrap: str, cluster: Cluster, partition_count: int) -> None:
        self.connection, self.cluster = Connection(bootstrap), cluster
        self.partition_count = partition_count
        name = uuid.uuid4().hex[:8]
        self.clicks, self.users, self.topic = f"clicks-{name}", f"users-{name}", f"visits-{name}.merge"
        for topic in (self.clicks, self.users):
            self.create(topic)
        self.planner().ensure(partition_count)

    def create(self, topic: str, partition_count: int | None = None, **config: str) -> None:
        count = partition_count or self.partition_count
        self.cluster.create_topics({topic: count}, configs={topic: config} if config else None)
        self.cluster.topic(topic, is_known_to_exist=True)

    def planner(self) -> MergeLog:
        return MergeLog(self.connection, self.topic, (self.clicks, self.users))

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        rows = [Record(0, 1, None, b"%d" % row) for row in range(count)]
        tp = TopicPartition(topic, partition)
        assert not self.cluster.produce({tp: bytes(encode_batch(rows))})[tp].error_code

    def append(self, tp: TopicPartition, *values: bytes) -> None:
        rows = [Record(0, 1, None, value) for value in values]
        assert not self.cluster.produce({tp: bytes(encode_batch(rows))})[tp].error_code

    def values(self, partition: int = 0) -> list[bytes]:
        """Of the merge log, as it stands."""
        tp = TopicPartition(self.topic, partition)
        fetched = self.cluster.fetch({tp: 0}, partition_max_bytes=2**24, max_wait_ms=0)[tp]
        batches = scan_batches(fetched.records)
        return [record.value for batch, _ in batches for record in decode_records(batch)]

    def ranges(
        self, log: MergeLog, end: int, partition: int = 0, start: int = 0
    ) -> list[tuple[str, int, int]]:
        return [
            (each.topic, each.from_offset, each.end_offset)
            for placed in log.entries(partition, start, end)
            for each in placed.entry.ranges
        ]


@pytest.fixture(scope="module")
def cluster(semel_server_session):
    with closing(Cluster(semel_server_session.bootstrap)) as cluster:
        yield cluster


@pytest.fixture
def merged(semel_server_session, cluster):
    """``merged(partition_count)``."""
    return lambda partition_count=1: Merged(semel_server_session.bootstrap, cluster, partition_count)


def test_what_two_topics_have_is_recorded_once_and_goes_on(merged):
    of = merged(2)
    of.write(of.clicks, 5, 0)
    of.write(of.users, 3, 0)
    of.write(of.users, 4, 1)
    log = of.planner()
    log.take_over({}, 1)
    ends = log.plan({})
    assert of.ranges(log, ends[0]) == [(of.clicks, 0, 5), (of.users, 0, 3)]
    assert of.ranges(log, ends[1], 1) == [(of.users, 0, 4)]
    assert log.plan(ends) == ends
    of.write(of.clicks, 2, 1)
    more = log.plan(ends)
    assert more[0] == ends[0]
    reader = MergeLog(of.connection, of.topic)
    assert of.ranges(reader, more[1], 1, ends[1]) == [(of.clicks, 0, 2)]
    assert of.ranges(reader, more[1], 1) == [(of.users, 0, 4), (of.clicks, 0, 2)]
