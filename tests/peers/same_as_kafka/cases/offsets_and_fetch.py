"""ListOffsets' special timestamps, and topics by id in Produce and Fetch."""

from __future__ import annotations

import time
from typing import Any, Final
from uuid import UUID

from tests.peers.same_as_kafka import Wire, case

from semel.record.batch import Record, encode_batch
from semel.record.compression import Compression

MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
HOUR_MS: Final = 3_600_000
BEGAN_MS: Final = time.time_ns() // 1_000_000 - HOUR_MS


def new_topic(wire: Wire, partitions: int = 1, **configs: str) -> str:
    """A topic that can be written to; Kafka's metadata is ahead of its partitions."""
    topic = wire.new_topic(partitions, **configs)
    for partition in range(partitions):
        while listed(wire, topic, -1, partition=partition)[0] == "not_leader_or_follower":
            time.sleep(0.01)
    return topic


def append(
    wire: Wire,
    topic: str,
    *ages_ms: int,
    compression: Compression = Compression.NONE,
    value_bytes: int = 5,
    partition: int = 0,
) -> None:
    """One batch whose records are so many milliseconds younger than ``BEGAN_MS``."""
    rows = [Record(0, BEGAN_MS + age_ms, None, b"v" * value_bytes) for age_ms in ages_ms]
    data = {"index": partition, "records": bytes(encode_batch(rows, compression=compression))}
    asked = [{"name": topic, "partition_data": [data]}]
    answer = (
        wire.ask("produce", 9, acks=-1, timeout=10_000, topic_data=asked).responses[0].partition_responses[0]
    )
    assert answer.error_code.name == "none", answer


def trim(wire: Wire, topic: str, offset: int) -> None:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    answer = wire.ask("delete_records", 2, topics=asked, timeout=10_000)
    assert answer.topics[0].partitions[0].error_code.name == "none", answer


def listed(
    wire: Wire,
    topic: str,
    timestamp: int,
    version: int = 10,
    *,
    partition: int = 0,
    isolation_level: int = 0,
    current_leader_epoch: int = -1,
) -> tuple[str, int, int, int | None]:
    """(error, offset, milliseconds after ``BEGAN_MS`` if there is a time, leader epoch)."""
    asked = {
        "partition_index": partition,
        "current_leader_epoch": current_leader_epoch,
        "timestamp": timestamp,
    }
    answer = wire.ask(
        "list_offsets",
        version,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[{"name": topic, "partitions": [asked]}],
        timeout=10_000,
    )
    found = answer.topics[0].partitions[0]
    age_ms = found.timestamp if found.timestamp < 0 else found.timestamp - BEGAN_MS
    return found.error_code.name, found.offset, age_ms, getattr(found, "leader_epoch", None)


@case()
def special_timestamps_in_every_version(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10, 30, 20)
    return {
        version: [listed(wire, topic, timestamp, version) for timestamp in range(-8, 0)]
        for version in range(1, 11)
    }


@case()
def special_timestamps_of_an_empty_log(wire: Wire) -> object:
    topic = new_topic(wire)
    return [listed(wire, topic, timestamp) for timestamp in range(-5, 0)]


@case()
def special_timestamps_of_a_trimmed_log(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10)
    append(wire, topic, 20, 30)
    trim(wire, topic, 1)
    return [listed(wire, topic, timestamp) for timestamp in range(-5, 0)]


@case()
def special_timestamps_of_a_log_that_was_emptied(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 20, 30)
    trim(wire, topic, 2)
    return [listed(wire, topic, timestamp) for timestamp in (-5, -4, -2, -1)]


@case(
    because="Apache Kafka names a record that was deleted, until its segment goes",
    semel=("none", -1, -1, -1),
    kafka=("none", 1, 30, 0),
)
def max_timestamp_of_a_log_that_was_emptied(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 20, 30)
    trim(wire, topic, 2)
    return listed(wire, topic, MAX_TIMESTAMP)


@case(
    because="Apache Kafka names a record that was deleted, until its segment goes",
    semel=("none", 3, 25, 0),
    kafka=("none", 1, 40, 0),
)
def max_timestamp_after_the_newest_was_trimmed(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10, 40)
    append(wire, topic, 20, 25, 25)
    append(wire, topic, 25)
    trim(wire, topic, 2)
    return listed(wire, topic, MAX_TIMESTAMP)


@case()
def max_timestamp_is_the_first_of_equals(wire: Wire) -> object:
    topic = new_topic(wire)
    found = []
    for ages_ms in ((10, 30, 20), (30, 30), (5,), (40, 41, 41), (41,)):
        append(wire, topic, *ages_ms)
        found.append(listed(wire, topic, MAX_TIMESTAMP))
    return found


@case()
def max_timestamp_in_compressed_batches(wire: Wire) -> object:
    found = []
    for codec in Compression:
        topic = new_topic(wire)
        append(wire, topic, *range(0, 500, 3), compression=codec)
        append(wire, topic, 7, 2_000, 9, 2_000, compression=codec)
        append(wire, topic, 11, compression=codec)
        found.append(listed(wire, topic, MAX_TIMESTAMP))
    return found


@case()
def max_timestamp_across_segments(wire: Wire) -> object:
    topic = new_topic(wire, segment_bytes="1048576")
    found = []
    for age_ms in (10, 50, 40, 50, 60, 1):
        append(wire, topic, age_ms, age_ms - 5, value_bytes=300_000)
        found.append(listed(wire, topic, MAX_TIMESTAMP))
    return found


@case()
def max_timestamp_with_log_append_time(wire: Wire) -> object:
    topic = new_topic(wire, message_timestamp_type="LogAppendTime")
    found = []
    for codec in (Compression.NONE, Compression.GZIP):
        append(wire, topic, 10, 20, 5, compression=codec)
        error, offset, age_ms, epoch = listed(wire, topic, MAX_TIMESTAMP)
        found.append((error, offset, age_ms >= HOUR_MS, epoch))
        time.sleep(0.005)  # so that the times of both differ
    return found


@case()
def committed_only(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10, 30, 20)
    return [listed(wire, topic, timestamp, isolation_level=1) for timestamp in range(-5, 0)]


@case()
def wrong_partitions_and_epochs(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10)
    return [
        [
            listed(wire, wire.name(), timestamp),
            listed(wire, topic, timestamp, partition=3),
            listed(wire, topic, timestamp, current_leader_epoch=0),
            listed(wire, topic, timestamp, current_leader_epoch=7),
        ]
        for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED)
    ]


@case()
def many_partitions_at_once(wire: Wire) -> object:
    topic = new_topic(wire, partitions=3)
    append(wire, topic, 10, 20, partition=0)
    append(wire, topic, 5, partition=1)
    append(wire, topic, 30, 20, partition=2)
    asked = [
        {"partition_index": number, "timestamp": timestamp}
        for number, timestamp in ((0, MAX_TIMESTAMP), (1, MAX_TIMESTAMP), (2, MAX_TIMESTAMP), (3, -1))
    ]
    answer = wire.ask(
        "list_offsets",
        10,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": topic, "partitions": asked}],
        timeout=0,
    )
    found = answer.topics[0].partitions
    return sorted((one.partition_index, one.error_code.name, one.offset) for one in found)


# Readers who say what they have read up to (KIP-595).


@case()
def fetch_behind_what_was_read(wire: Wire) -> object:
    topic = new_topic(wire)
    append(wire, topic, 10, 20)
    trim(wire, topic, 1)

    def fetched_behind(offset: int, epoch: int) -> object:
        asked = {
            "partition": 0,
            "fetch_offset": offset,
            "last_fetched_epoch": epoch,
            "partition_max_bytes": 1 << 20,
        }
        answer = wire.ask(
            "fetch",
            12,
            max_wait=0,
            min_bytes=1,
            topics=[{"topic": topic, "partitions": [asked]}],
            forgotten_topics_data=[],
            rack_id="",
        )
        (found,) = answer.responses[0].partitions
        common = found.diverging_epoch
        return found.error_code.name, (common.epoch, common.end_offset), len(found.records or b"") > 0

    return {
        f"{offset} behind epoch {epoch}": fetched_behind(offset, epoch)
        for offset in (0, 1, 2, 3)
        for epoch in (-1, 0, 7)
    }


# Topics by id.


def produced(wire: Wire, *asked: tuple[UUID | None, int], version: int = 13, acks: int = -1) -> object:
    rows = bytes(encode_batch([Record(0, BEGAN_MS, None, b"by id")]))
    topics = [
        {"topic_id": topic_id, "partition_data": [{"index": number, "records": rows}]}
        for topic_id, number in asked
    ]
    answer = wire.ask("produce", version, acks=acks, timeout=10_000, topic_data=topics)
    return [
        (asked.index((topic.topic_id, one.index)), one.error_code.name, one.base_offset, one.log_append_time)
        for topic in answer.responses
        for one in topic.partition_responses
    ]


def fetched(wire: Wire, version: int, *asked: tuple[UUID | None, int], **more: Any) -> object:
    topics = [
        {
            "topic_id": topic_id,
            "partitions": [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **more}],
        }
        for topic_id, number in asked
    ]
    answer = wire.ask(
        "fetch", version, max_wait=0, min_bytes=1, topics=topics, forgotten_topics_data=[], rack_id=""
    )
    return [
        (
            asked.index((topic.topic_id, one.partition_index)),
            one.error_code.name,
            one.high_watermark,
            len(one.records or b""),
        )
        for topic in answer.responses
        for one in topic.partitions
    ]


@case()
def produce_by_id(wire: Wire) -> object:
    first, second = (wire.topic_id(new_topic(wire, partitions=2)) for _ in range(2))
    return [
        produced(wire, (first, 0)),
        produced(wire, (first, 0), acks=1),
        sorted(produced(wire, (first, 1), (second, 0))),  # type: ignore[call-overload]
    ]


@case()
def produce_by_a_wrong_id(wire: Wire) -> object:
    known = wire.topic_id(new_topic(wire))
    return [
        produced(wire, (UUID(int=77), 0)),
        produced(wire, (None, 0)),
        produced(wire, (known, 5)),
        sorted(produced(wire, (UUID(int=77), 0), (known, 0))),  # type: ignore[call-overload]
    ]


@case()
def fetch_by_id(wire: Wire) -> object:
    known = wire.topic_id(new_topic(wire))
    produced(wire, (known, 0))
    tags = [{}, {"replica_directory_id": UUID(int=3)}]
    with_watermark = [{"high_watermark": -1}, {"high_watermark": 0}]
    return [
        *(fetched(wire, 17, (known, 0), **more) for more in tags),
        *(fetched(wire, 18, (known, 0), **more) for more in (*tags, *with_watermark)),
    ]


@case()
def fetch_by_a_wrong_id(wire: Wire) -> object:
    known = wire.topic_id(new_topic(wire))
    produced(wire, (known, 0))
    return {
        version: [
            fetched(wire, version, (UUID(int=77), 0)),
            fetched(wire, version, (known, 5)),
            sorted(fetched(wire, version, (UUID(int=77), 0), (known, 0))),  # type: ignore[call-overload]
        ]
        for version in (13, 17, 18)
    }
