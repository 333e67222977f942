"""Two inputs, a merge log, and planners of it; on a server that the test has started."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from semel.client.blocking import Cluster
from semel.core.flow.merge_records import Entry, Head, read_record
from semel.errors import ConnectionLost, ErrorCode
from semel.flow.merge_log import MergeLog
from semel.record.batch import Record, decode_records, encode_batch, scan_batches
from semel.record.compression import Compression
from semel.spark.options import Connection
from semel.spark.process import SinkProcess, inside
from semel.types import LATEST_TIMESTAMP, TopicPartition

# Kafka's controller lists a topic made anew before its leader leads it; nothing was stored
NOT_YET_THERE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}


class WatchedCluster(Cluster):
    """A client that keeps what it was asked, and can lose answers of what was stored."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.bootstrap = bootstrap
        self.asked: list[tuple[str, object]] = []
        self.answers_to_lose = 0

    def metadata(self, topics=None, **choices):
        self.asked.append(("metadata", topics))
        return super().metadata(topics, **choices)

    def describe_configs(self, topics):
        self.asked.append(("describe_configs", topics))
        return super().describe_configs(topics)

    def list_offsets(self, timestamps, isolation="read_committed"):
        assert isolation == "read_committed"
        self.asked.append(("list_offsets", dict(timestamps)))
        return super().list_offsets(timestamps, isolation)

    def fetch(self, from_offsets, **choices):
        self.asked.append(("fetch", dict(from_offsets)))
        return super().fetch(from_offsets, **choices)

    def begin_fetch(self, from_offsets, **choices):
        self.asked.append(("fetch", dict(from_offsets)))
        return super().begin_fetch(from_offsets, **choices)

    def produce(self, batches, **choices):
        self.asked.append(("produce", sorted(batches)))
        answers = super().produce(batches, **choices)
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise ConnectionLost("the answer was lost")
        return answers

    def forget(self) -> None:
        self.asked.clear()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


class Planner:
    """A planner in a process of its own, as far as clients and caches go."""

    def __init__(
        self,
        merging: Merging,
        owner: str = "",
        inputs: tuple[str, ...] | None = None,
        tables: tuple[str, ...] = (),
    ) -> None:
        self.cluster = WatchedCluster(merging.bootstrap)
        self.process = SinkProcess(owner, "", new_cluster=lambda _: self.cluster)
        chosen = merging.inputs if inputs is None else inputs
        with inside(self.process):
            self.log = MergeLog(Connection(merging.bootstrap), merging.topic, chosen, tables=tables)

    def take_over(self, epoch: int, decided: Mapping[int, int] | None = None) -> Planner:
        with inside(self.process):
            self.log.take_over(decided or {}, epoch)
        return self

    def plan(self, positions: Mapping[int, int] | None = None, **choices) -> dict[int, int]:
        with inside(self.process):
            return self.log.plan(positions or {}, **choices)

    def ensure(self, partition_count: int) -> None:
        with inside(self.process):
            self.log.ensure(partition_count)

    def entries(self, partition: int, from_offset: int, end_offset: int) -> list[Entry]:
        with inside(self.process):
            return [each.entry for each in self.log.entries(partition, from_offset, end_offset)]

    def ranges(self, end: int, partition: int = 0, start: int = 0) -> list[tuple[str, int, int]]:
        """What is recorded: first letter of the topic, from, to."""
        return [
            (each.topic[0], each.from_offset, each.end_offset)
            for entry in self.entries(partition, start, end)
            for each in entry.ranges
        ]


class Merging:
    """Topics of its own: ``clicks-…`` and ``users-…``, merged."""

    def __init__(self, bootstrap: str, cluster: Cluster, partition_count: int = 1) -> None:
        self.bootstrap, self.cluster, self.partition_count = bootstrap, cluster, partition_count
        name = uuid.uuid4().hex[:8]
        self.clicks, self.users, self.topic = f"clicks-{name}", f"users-{name}", f"visits-{name}.merge"
        self.inputs: tuple[str, ...] = (self.clicks, self.users)
        self._planners: list[Planner] = []
        for topic in self.inputs:
            self.create(topic)
        self.planner().ensure(partition_count)

    def close(self) -> None:
        for planner in self._planners:
            planner.cluster.close()

    def create(self, topic: str, partition_count: int | None = None, **config: str) -> None:
        count = partition_count or self.partition_count
        configs = {name.replace("_", "."): value for name, value in config.items()}
        self.cluster.create_topics({topic: count}, configs={topic: configs} if configs else None)
        self.cluster.topic(topic, is_known_to_exist=True)

    def planner(
        self, owner: str = "", inputs: tuple[str, ...] | None = None, tables: tuple[str, ...] = ()
    ) -> Planner:
        self._planners.append(Planner(self, owner, inputs, tables))
        return self._planners[-1]

    def reader(self) -> Planner:
        """Who knows no inputs and has read nothing."""
        return self.planner(inputs=())

    def write(self, topic: str, count: int, partition: int = 0) -> None:
        self.append(TopicPartition(topic, partition), *(b"%d" % row for row in range(count)))

    def append(self, tp: TopicPartition, *values: bytes, compression: Compression = Compression.NONE) -> None:
        rows = [Record(0, 1, None, value) for value in values]
        batch = bytes(encode_batch(rows, compression=compression))
        give_up_s = time.monotonic() + 30
        while (code := self.cluster.produce({tp: batch})[tp].error_code) in NOT_YET_THERE:
            assert time.monotonic() < give_up_s, code
            time.sleep(0.1)
        assert code is ErrorCode.NONE

    def tp(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def records(self, partition: int = 0) -> list[Head | Entry | None]:
        """The merge log as it stands."""
        return [read_record(value) for value in self.values(partition)]

    def values(self, partition: int = 0) -> list[bytes]:
        tp = self.tp(partition)
        end = self.cluster.list_offsets({tp: LATEST_TIMESTAMP})[tp].offset
        values: list[bytes] = []
        while len(values) < end:
            fetched = self.cluster.fetch({tp: len(values)}, partition_max_bytes=2**23)[tp]
            for batch, _ in scan_batches(fetched.records, allow_partial_tail=True):
                known = len(values)
                values += [record.value for record in decode_records(batch) if record.offset >= known]
        return values
