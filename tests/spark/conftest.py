"""One server and one Spark session for a module; rows in and out by the low-level client."""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass

import pytest

from semel.client.blocking import Cluster
from semel.core.sink.journal import SINKS_TOPIC, Fence, decode
from semel.errors import ErrorCode
from semel.local import LocalLog
from semel.record.batch import Record, decode_records, encode_batch, scan_batches
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_NO_LEADER_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass
class Log:
    """A running server, and what tests ask of it."""

    bootstrap: str
    cluster: Cluster

    def topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """A new topic with a name of its own."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        self.cluster.create_topics({topic: partitions}, configs={topic: configs} if configs else None)
        self.cluster.topic(topic, is_known_to_exist=True)
        return topic

    def write(
        self, topic: str, values, partition: int = 0, keys=None, timestamp_ms: int | None = None
    ) -> None:
        """One batch of records."""
        now_ms = timestamp_ms if timestamp_ms is not None else time.time_ns() // 1_000_000
        values = list(values)
        records = [
            Record(0, now_ms, None if keys is None else keys[index], value, (("h", b"x"),))
            for index, value in enumerate(values)
        ]
        tp, batch = TopicPartition(topic, partition), bytes(encode_batch(records))
        give_up_s = time.monotonic() + 30
        while (produced := self.cluster.produce({tp: batch})[tp]).error_code:
            # Apache Kafka's news of a topic travels: who is no leader yet has stored nothing.
            assert produced.error_code in _NO_LEADER_YET and time.monotonic() < give_up_s, produced
            time.sleep(0.05)

    def read(self, topic: str) -> list[Record]:
        """Every record, by partition and offset."""
        found = []
        for number in sorted(self.cluster.topic(topic).partitions):
            tp = TopicPartition(topic, number)
            position = self.offset(tp, EARLIEST_TIMESTAMP)
            end = self.offset(tp, LATEST_TIMESTAMP)
            while position < end:
                fetched = self.cluster.fetch({tp: position}, partition_max_bytes=2**23)[tp]
                for batch, header in scan_batches(fetched.records, allow_partial_tail=True):
                    if not header.is_control:
                        found += [record for record in decode_records(batch) if record.offset >= position]
                    position = header.last_offset + 1
        return found

    def values(self, topic: str) -> list[bytes]:
        """Every value, sorted: the multiset."""
        return sorted(record.value for record in self.read(topic))

    def owners(self, sink_id: str) -> set[str]:
        """Every driver that has taken the sink over, of those that are told apart by their epoch."""
        records = [decode(record.value) for record in self.read(SINKS_TOPIC) if record.value is not None]
        fences = [each for each in records if isinstance(each, Fence) and each.sink_id == sink_id]
        return {f"{each.sink_epoch} {each.owner}" for each in fences}

    def offset(self, tp: TopicPartition, which: int) -> int:
        """Earliest or latest."""
        return self.cluster.list_offsets({tp: which}, isolation="read_uncommitted")[tp].offset


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A server on a free port."""
    # Tests of retention and compaction do not wait for them, and others write rows of long ago.
    settings = {
        "log_retention_check_interval_ms": 100,
        "log_cleaner_backoff_ms": 100,
        "log_retention_ms": -1,
    }
    with (
        LocalLog(tmp_path_factory.mktemp("log"), **settings) as server,
        contextlib.closing(Cluster(server.bootstrap)) as cluster,
    ):
        yield Log(server.bootstrap, cluster)
    forget_clusters()  # another server may come to have its port


def forget_clusters():
    """Drop what this process knows of servers, and its connections to them."""
    from semel.spark import process

    for one in process._OF_THIS_PROCESS.values():
        for cluster in one.clusters.values():
            cluster.close()
    process._OF_THIS_PROCESS.clear()


@pytest.fixture(scope="session")
def log_of():
    """``log_of(bootstrap, cluster)``: for a server that the test has started itself."""
    return Log


@pytest.fixture
def source(spark, log):
    """``source(topic, **options)``: a batch frame."""

    def read(topic, **options):
        reader = spark.read.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        return reader.options(**{"subscribe": topic, **options}).load()

    return read


@pytest.fixture
def stream(spark, log):
    """``stream(topic, **options)``: a streaming frame from the earliest offset."""

    def read(topic, **options):
        reader = spark.readStream.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        return reader.options(**{"subscribe": topic, "startingOffsets": "earliest", **options}).load()

    return read


@pytest.fixture
def run_to_end(log):
    """``run_to_end(frame, topic, checkpoint, sink_id, **options)``: everything that is there now."""

    def run(frame, topic, checkpoint, sink_id, **options):
        query = start(frame, topic, checkpoint, sink_id, **options)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    def start(frame, topic, checkpoint, sink_id, **options):
        writer = frame.writeStream.format("semel").option("kafka.bootstrap.servers", log.bootstrap)
        writer = writer.options(sinkId=sink_id, checkpointLocation=str(checkpoint))
        writer = writer if topic is None else writer.option("topic", topic)
        return writer.options(**options).trigger(availableNow=True).start()

    return run


@pytest.fixture
def failing_once():
    """``mapInArrow(failing_once(marker), …)``: a task fails behind its first batch unless the file is there."""

    def work_of(marker):
        def once(batches):
            for batch in batches:
                yield batch
                if not marker.exists():
                    marker.touch()
                    raise RuntimeError("once, on purpose")

        return once

    return work_of


@pytest.fixture
def own_caches(monkeypatch):
    """What a test leaves in the process's caches is gone with it."""
    from semel.spark import process

    monkeypatch.setattr(process, "_OF_THIS_PROCESS", {})
    yield
    forget_clusters()
