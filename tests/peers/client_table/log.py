"""The log that a client is tried on: what is put there before, and what is found there afterwards.

Rows are written and read by librdkafka, batches looked at as they lie in the log, and all else asked by semel's
admin client; for what librdkafka and semel do themselves, Apache Kafka is the judge.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from tests.peers.apache_kafka import ApacheKafka, JavaTool
from tests.peers.same_as_kafka.wire import Wire

import semel
from semel.errors import UnknownTopic
from semel.record.batch import BatchHeader, decode_header
from semel.types import EARLIEST_TIMESTAMP, TopicPartition

TIMEOUT_S: Final = 30.0
_BATCH_LENGTH_AT: Final = slice(8, 12)
_BATCH_HEAD_BYTES: Final = 12

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Log:
    bootstrap: str
    admin: semel.Admin

    def new_name(self) -> str:
        return f"client-table-{next(_numbers)}"

    def new_topic(self, partitions: int = 1, **settings: str) -> str:
        """A topic that is there and has leaders; ``retention_ms="1000"`` sets ``retention.ms``."""
        topic = self.new_name()
        self.admin.create_topic(
            topic, partitions, {name.replace("_", "."): value for name, value in settings.items()}
        )
        return topic

    def write(self, topic: str, rows: Sequence[dict[str, Any]], codec: str = "none") -> None:
        """Put ``rows`` there, in partition 0 unless they name another."""
        self._write(self._producer(**{"compression.type": codec}), topic, rows)

    def write_in_transaction(self, topic: str, rows: Sequence[dict[str, Any]], *, is_committed: bool) -> None:
        """Put ``rows`` there, to be read or to be left out."""
        producer = self._producer(**{"transactional.id": self.new_name()})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        self._write(producer, topic, rows)
        if is_committed:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def take_over(self, transactional_id: str) -> None:
        """Be another producer under this id, whose transactions are its own."""
        self._producer(**{"transactional.id": transactional_id}).init_transactions(TIMEOUT_S)

    def _producer(self, **settings: str) -> confluent_kafka.Producer:
        common = {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 20}
        return confluent_kafka.Producer(common | {"log_level": 0} | settings)

    def _write(self, producer: confluent_kafka.Producer, topic: str, rows: Sequence[dict[str, Any]]) -> None:
        failed = []
        for row in rows:
            producer.produce(
                topic,
                row["value"],
                row.get("key"),
                partition=row.get("partition", 0),
                headers=[(name, value) for name, value in row.get("headers", ())],
                timestamp=row.get("timestamp_ms", 0),
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
        assert producer.flush(TIMEOUT_S) == 0 and not failed, failed

    def values(self, topic: str, *, is_committed: bool) -> list[str]:
        """What partition 0 has for who reads only what is committed, or for who reads all."""
        isolation = "read_committed" if is_committed else "read_uncommitted"
        return [one.value().decode() for one in self.read(topic, sys.maxsize, isolation)]

    def read(
        self, topic: str, count: int, isolation: str = "read_committed"
    ) -> list[confluent_kafka.Message]:
        """What partition 0 has: ``count`` rows, or as many as there are."""
        reader = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
                "isolation.level": isolation,
            }
        )
        reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found: list[confluent_kafka.Message] = []
        give_up_s = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < give_up_s:
            message = reader.poll(0.1)
            if message is not None and message.error() is not None:
                break
            if message is not None:
                found.append(message)
        reader.close()
        return found

    def batches(self, topic: str) -> list[BatchHeader]:
        """The headers of the batches in partition 0, as they are fetched."""
        with Wire(self.bootstrap, "") as wire:
            answer = wire.fetch(topic)
        data = bytes(answer.responses[0].partitions[0].records)
        found, position = [], 0
        while position < len(data):
            found.append(decode_header(data, position))
            length = int.from_bytes(data[position:][_BATCH_LENGTH_AT], "big")
            position += _BATCH_HEAD_BYTES + length
        return found

    def start(self, topic: str) -> int:
        place = TopicPartition(topic, 0)
        return self.admin.list_offsets({place: EARLIEST_TIMESTAMP})[place].offset

    def partitions(self, topic: str) -> int:
        """How many it has; none: there is no such topic."""
        try:
            return len(self.admin.describe_topic(topic).partitions)
        except UnknownTopic:
            return 0

    def offsets(self, group: str) -> dict[int, int]:
        """What the group has committed, by partition; all of one topic."""
        return {place.partition: one.offset for place, one in self.admin.group_offsets(group).items()}

    def offsets_by_now(self, group: str, topic: str) -> dict[int, int]:
        """What the group has committed, also where more is part of an open transaction."""
        asker = confluent_kafka.Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "isolation.level": "read_uncommitted"}
        )
        (found,) = asker.committed([confluent_kafka.TopicPartition(topic, 0)], TIMEOUT_S)
        asker.close()
        return {} if found.offset < 0 else {0: found.offset}

    def commit(self, group: str, topic: str, offset: int) -> None:
        """For a group without members."""
        self.admin.alter_group_offsets(group, {TopicPartition(topic, 0): offset})

    def has_group(self, group: str) -> bool:
        return group in {one.group for one in self.admin.groups()}

    def shares(self, group: str) -> list[int]:
        """How many partitions each member has, of a group that is stable."""
        if not self.has_group(group):
            return []
        found = self.admin.describe_groups([group])[group]
        return sorted(len(one.assigned) for one in found.members) if found.state == "Stable" else []


def eventually(found: Callable[[], object], wanted: object, what: str) -> None:
    """Until ``found()`` is ``wanted``: Apache Kafka answers before it obeys."""
    give_up_s = time.monotonic() + TIMEOUT_S
    while (last := found()) != wanted:
        assert time.monotonic() < give_up_s, f"{what}: {last}, not {wanted}"
        time.sleep(0.02)


@contextmanager
def of_semel(folder: Path) -> Iterator[Log]:
    """It takes short sessions, whose ends are waited for, and keeps rows of any age."""
    with (
        semel.LocalLog(folder / "semel", group_min_session_timeout_ms=1, log_retention_ms=-1) as served,
        semel.Admin(served.bootstrap) as admin,
    ):
        yield Log(served.bootstrap, admin)


@contextmanager
def of_apache_kafka(java_tool: JavaTool, folder: Path) -> Iterator[Log]:
    """It takes short sessions, looks often for transactions that are too old, and keeps rows of any age."""
    settings = {
        "group.min.session.timeout.ms": "1",
        "log.retention.ms": "-1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with (
        ApacheKafka(java_tool.java, java_tool.jars, folder / "kafka", settings=settings) as node,
        semel.Admin(node.bootstrap) as admin,
    ):
        log = Log(node.bootstrap, admin)
        log.commit("first", log.new_topic(), 0)  # the groups' log is made when somebody asks for it
        yield log
