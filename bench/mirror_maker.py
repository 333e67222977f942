"""MirrorMaker 2 as its own page says to run it: one dedicated process from cluster to cluster, on its defaults.

It copies topic ``t`` of the cluster that it calls ``c`` to ``c.t``. At least once, on these defaults.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.peers.ending import ended_with_us
from tests.peers.parts import Missing, find_java, find_kafka_jars

from bench.servers import KAFKA_JVM_OPTIONS, Server
from semel.client.blocking import Cluster
from semel.types import LATEST_TIMESTAMP, TopicPartition

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
HEAP = ("-Xms256M", "-Xmx2G")  # what connect-mirror-maker.sh sets
TIMEOUT_S = 300.0
_POLL_S = 0.01


def mirror(
    source: Server, destination: Server, topic: str, partitions: int, alias: str, rows: int, folder: Path
) -> float:
    """Seconds a row from the first that is seen at the destination on: without its start, and with its commits."""
    properties = {
        "clusters": f"{alias}, there",
        f"{alias}.bootstrap.servers": source.bootstrap,
        "there.bootstrap.servers": destination.bootstrap,
        f"{alias}->there.enabled": "true",
        f"{alias}->there.topics": topic,
        f"there->{alias}.enabled": "false",
        "tasks.max": str(partitions),
        # One node has one replica, and what is no copying is left out.
        **{
            f"{each}.replication.factor": "1"
            for each in ("offset-syncs.topic", "offset.storage", "status.storage", "config.storage")
        },
        "replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }
    folder.mkdir(parents=True)
    path = folder / "mm2.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in properties.items()))
    java, jars = find_java(), find_kafka_jars()
    if isinstance(java, Missing) or isinstance(jars, Missing):
        raise SystemExit("no benchmark without Apache Kafka's jars")
    command = [str(java), *HEAP, *KAFKA_JVM_OPTIONS, "-cp", f"{jars}/*", MAIN, str(path)]
    with (folder / "mm2.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        with ended_with_us(process.pid), Cluster(destination.bootstrap) as cluster:
            return _seconds_a_row(cluster, f"{alias}.{topic}", partitions, rows)
    finally:
        process.kill()
        process.wait()


def _seconds_a_row(cluster: Cluster, topic: str, partitions: int, rows: int) -> float:
    wanted = dict.fromkeys((TopicPartition(topic, number) for number in range(partitions)), LATEST_TIMESTAMP)
    give_up_s = time.monotonic() + TIMEOUT_S
    first: tuple[float, int] | None = None
    while time.monotonic() < give_up_s:
        is_there = first is not None or not cluster.metadata([topic]).topics[topic].error_code
        stored = sum(each.offset for each in cluster.list_offsets(wanted).values()) if is_there else 0
        now_s = time.monotonic()
        if stored >= rows:
            assert first is not None, "it came at once"
            return (now_s - first[0]) / (stored - first[1])
        if stored and first is None:
            first = now_s, stored
        time.sleep(_POLL_S)
    raise RuntimeError(f"MirrorMaker 2 copied {stored} rows of {rows} in {TIMEOUT_S:.0f} s")
