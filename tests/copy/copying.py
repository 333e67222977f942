"""What tests of copies share: a job between two logs, run in this process or as one of its own, and what it gave."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.spark.mortal import CHANGES, MortalCluster

import semel
from semel.client.blocking import Cluster
from semel.copy import Copied, CopyPlan, run_copy
from semel.record.batch import BatchHeader
from semel.record.columnar import decode_table
from semel.spark.options import Connection
from semel.spark.process import SinkProcess, inside
from semel.spark.reading import read_range
from semel.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

_numbers = itertools.count()


def plan_of(source: str, destination: str, *topics: str, **choices: Any) -> CopyPlan:
    """A job; tests that go on with one have to use the same name."""
    name = choices.pop("name", "job")
    return CopyPlan(
        name,
        Connection(source, "copy-source"),
        Connection(destination, "copy-destination"),
        topics,
        **choices,
    )


def go(plan: CopyPlan, **mortality: Any) -> tuple[Copied, MortalCluster | Cluster]:
    """To the end of what there is, as a process of its own. ``mortality``: of its client at the destination."""
    clusters: dict[Connection, Cluster] = {}

    def new_cluster(connection: Connection) -> Cluster:
        is_mortal = bool(mortality) and connection == plan.destination
        made = (
            MortalCluster(connection.bootstrap, changes=CHANGES, **mortality)
            if is_mortal
            else Cluster(connection.bootstrap)
        )
        clusters[connection] = made
        return made

    process = SinkProcess(f"process {next(_numbers)}", f"family {uuid.uuid4()}", new_cluster=new_cluster)
    try:
        with inside(process):
            return run_copy(plan, until_end=True), clusters[plan.destination]
    finally:
        for cluster in clusters.values():
            cluster.close()


def put(bootstrap: str, topic: str, values: Sequence[bytes | None], **choices: Any) -> None:
    """Rows, over the topic's partitions by their keys."""
    keys = [b"%d" % (number % 7) for number in range(len(values))]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    with semel.Producer(bootstrap, **choices) as producer:
        producer.send_table(topic, table)


def batches(bootstrap: str, tp: TopicPartition) -> list[tuple[bytes, BatchHeader]]:
    """All of a partition that a reader of committed rows gets."""
    with Cluster(bootstrap) as cluster:
        start, end = (
            cluster.list_offsets({tp: which})[tp].offset for which in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        return [
            (bytes(batch), header)
            for found in read_range(cluster, tp, start, end)
            for batch, header in found
            if not header.is_control
        ]


def rows(bootstrap: str, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    """Everything of a row but its offset."""
    tp = TopicPartition(topic, partition)
    with Cluster(bootstrap) as cluster:
        start = cluster.list_offsets({tp: EARLIEST_TIMESTAMP})[tp].offset
    found = [batch for batch, _ in batches(bootstrap, tp)]
    table = decode_table(found, topic=topic, partition=partition, from_offset=start, include_headers=True)
    return table.select(["key", "value", "timestamp", "headers"]).to_pylist()


def values(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """In their order."""
    return [row["value"] for row in rows(bootstrap, topic, partition)]
