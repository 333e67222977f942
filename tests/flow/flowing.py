"""What tests of running flows share: rows in, a run in this process, rows out."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pyarrow as pa

import semel
from semel.flow import Flow
from semel.flow.here import Progress, run_here
from semel.flow.stage_ranges import Cuts


def put(bootstrap: str, topic: str, *rows: Any, keys: list[bytes | None] | None = None) -> None:
    """One record for each row: JSON, or bytes as they are."""
    values = [row if isinstance(row, bytes | None) else json.dumps(row).encode() for row in rows]
    columns = {"value": pa.array(values, pa.binary())}
    if keys is not None:
        columns["key"] = pa.array(keys, pa.binary())
    with semel.Producer(bootstrap) as producer:
        producer.send_table(topic, pa.table(columns))


def run(flow: Flow, bootstrap: str, store: Any, cuts: Cuts | None = None) -> list[Progress]:
    """To the end of what there is."""
    told: list[Progress] = []
    run_here(flow.plan(), bootstrap, store=store, until_idle=True, cuts=cuts, told=told.append)
    return told


def end_offsets(bootstrap: str, topic: str) -> int:
    """How much stands in a topic, fences and all; nothing where there is none."""
    with semel.Admin(bootstrap) as admin:
        if topic not in admin.list_topics(include_internal=True):
            return 0
        partitions = [semel.TopicPartition(topic, n) for n in admin.describe_topic(topic).partitions]
        return sum(end.offset for end in admin.list_offsets(dict.fromkeys(partitions, -1)).values())


def wait_for_growth(
    bootstrap: str, topic: str, child: subprocess.Popen[Any], least: int, before: int
) -> None:
    """Until ``child`` has written, so that it is at work: to be killed anywhere behind that."""
    deadline_s = time.monotonic() + 60
    while end_offsets(bootstrap, topic) < before + least:
        assert child.poll() is None, "it has ended by itself"
        assert time.monotonic() < deadline_s, f"nothing came to {topic}"
        time.sleep(0.01)


def records(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """All of a topic, partition after partition, with the columns of the Spark source."""
    with semel.Admin(bootstrap) as admin:
        partitions = [semel.TopicPartition(topic, n) for n in sorted(admin.describe_topic(topic).partitions)]
        ends = admin.list_offsets(dict.fromkeys(partitions, -1))
    found: list[dict[str, Any]] = []
    with semel.Consumer(bootstrap) as consumer:
        for partition in partitions:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while consumer.position(partition) < ends[partition].offset:
                found += consumer.fetch_table(1, include_headers=True).to_pylist()
    return found


def rows(bootstrap: str, topic: str) -> list[Any]:
    """Their values, read."""
    return [json.loads(record["value"]) for record in records(bootstrap, topic)]
