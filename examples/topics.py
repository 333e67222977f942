"""Rows into topics, and out of them again: what feeds the examples and looks at what they made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import semel


@dataclass(frozen=True, slots=True)
class Given:
    """A row for a topic; ``key`` decides the partition, and without one it is the writer's choice."""

    topic: str
    row: Mapping[str, Any] | bytes
    key: str | None = None


def create(bootstrap: str, topics: Mapping[str, int]) -> None:
    """Make topics with so many partitions."""
    with semel.Admin(bootstrap) as admin:
        for topic, partition_count in topics.items():
            admin.create_topic(topic, partition_count)


def put(bootstrap: str, rows: Sequence[Given]) -> None:
    """Write the rows, each topic's in order."""
    with semel.Producer(bootstrap) as producer:
        for topic in dict.fromkeys(given.topic for given in rows):
            of_topic = [given for given in rows if given.topic == topic]
            keys = [None if given.key is None else given.key.encode() for given in of_topic]
            values = [
                given.row if isinstance(given.row, bytes) else json.dumps(given.row).encode()
                for given in of_topic
            ]
            columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
            producer.send_table(topic, pa.table(columns))


def rows(bootstrap: str, topic: str) -> Iterator[Any]:
    """The values of a topic, read, partition after partition; what is no JSON object is left out."""
    for value in values(bootstrap, topic):
        try:
            row = json.loads(value or b"null")
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def values(bootstrap: str, topic: str) -> Iterator[bytes | None]:
    """The values of a topic, partition after partition."""
    with semel.Admin(bootstrap) as admin:
        partitions = [semel.TopicPartition(topic, n) for n in sorted(admin.describe_topic(topic).partitions)]
        ends = admin.list_offsets(dict.fromkeys(partitions, -1))
    with semel.Consumer(bootstrap) as consumer:
        for partition in partitions:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while consumer.position(partition) < ends[partition].offset:
                yield from consumer.fetch_table(1).column("value").to_pylist()
