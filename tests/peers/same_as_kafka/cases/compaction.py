"""A topic with ``cleanup.policy=compact``: what is taken, what is refused, and how its settings are told."""

from __future__ import annotations

import time
from typing import Any, Final

from tests.peers.same_as_kafka import Wire, case
from tests.peers.same_as_kafka.cases.compression import append, new_topic

from semel.record.batch import Record, encode_batch
from semel.record.compression import Compression

POLICIES: Final = ("compact", "compact,delete", "delete")
NOW_MS: Final = time.time_ns() // 1_000_000


def rows(*keys: bytes | None, codec: Compression = Compression.NONE) -> bytearray:
    return encode_batch([Record(n, NOW_MS, key, b"v") for n, key in enumerate(keys)], compression=codec)


@case()
def records_without_a_key(wire: Wire) -> object:
    found: dict[str, Any] = {}
    for policy in POLICIES:
        for codec in (Compression.NONE, Compression.GZIP):
            topic = new_topic(wire, cleanup_policy=policy)
            batches = [rows(b"a", b"", codec=codec), rows(b"a", None, codec=codec), rows(b"b", codec=codec)]
            found[f"{policy}/{codec.name}"] = [append(wire, topic, batch) for batch in batches]
    return found


def named(wire: Wire, topic: str, batch: bytes | bytearray, version: int) -> object:
    """How it ended, and which of its records are named for it."""
    asked = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    given = {"transactional_id": None} if version < 9 else {}
    found = wire.ask("produce", version, acks=-1, timeout=10_000, topic_data=asked, **given)
    answer = found.responses[0].partition_responses[0]
    errors = getattr(answer, "record_errors", None)
    indexes = None if errors is None else [one.batch_index for one in errors]
    return (
        answer.error_code.name,
        indexes,
        errors is not None and [bool(one.batch_index_error_message) for one in errors],
    )


HOUR_MS: Final = 3_600_000


@case()
def records_that_are_named(wire: Wire) -> object:
    """Without a key where there must be one, and of a time that is too early or too late: in a batch of good ones."""
    keys = [None if n % 10 == 3 else b"k" for n in range(100)]
    times_ms = [
        NOW_MS + (5 * HOUR_MS if n % 20 == 3 else -50 * HOUR_MS if n % 30 == 7 else 0) for n in range(100)
    ]
    batches = {
        "keys": [Record(0, NOW_MS, key, b"v") for key in keys],
        "times": [Record(0, time_ms, b"k", b"v") for time_ms in times_ms],
        "both": [Record(0, time_ms, key, b"v") for key, time_ms in zip(keys, times_ms, strict=True)],
        "no times": [Record(0, -1, b"k", b"v"), Record(0, NOW_MS, None, b"v")],
    }
    found = {}
    for configs in (
        {"cleanup_policy": "compact"},
        {},
        {"message_timestamp_before_max_ms": str(10 * HOUR_MS)},
        {"compression_type": "gzip", "message_timestamp_before_max_ms": str(10 * HOUR_MS)},
        {"cleanup_policy": "compact", "message_timestamp_type": "LogAppendTime"},
    ):
        topic = new_topic(wire, **configs)
        for name, batch in batches.items():
            for codec in (Compression.NONE, Compression.ZSTD):
                data = encode_batch(batch, compression=codec)
                found[str(configs), name, codec.name] = named(wire, topic, data, 9)
        found[str(configs), "in every version"] = [
            named(wire, topic, encode_batch(batches["both"]), version) for version in (3, 7, 8, 12)
        ]
    return found


@case()
def deletion_by_wish(wire: Wire) -> object:
    """Of a log that is only compacted nothing is deleted."""
    found = {}
    for policy in POLICIES:
        topic = new_topic(wire, cleanup_policy=policy)
        append(wire, topic, rows(b"a", b"b"))
        asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
        answer = wire.ask("delete_records", 2, topics=asked, timeout=10_000)
        partition = answer.topics[0].partitions[0]
        found[policy] = partition.error_code.name, partition.low_watermark
    return found


@case()
def settings_that_are_refused(wire: Wire) -> object:
    found = {}
    for name, value in (
        ("cleanup.policy", "shrink"),
        ("cleanup.policy", "compact,shrink"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "half"),
        ("min.compaction.lag.ms", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("delete.retention.ms", "-1"),
        ("min.compaction.lag.ms", "10"),
    ):
        configs = [{"name": name, "value": value}, {"name": "max.compaction.lag.ms", "value": "5"}]
        asked = {
            "name": wire.name(),
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": configs if name == "min.compaction.lag.ms" else configs[:1],
        }
        answer = wire.ask("create_topics", 5, topics=[asked], timeout=10_000, validate_only=True)
        found[f"{name}={value}"] = answer.topics[0].error_code.name
    return found
