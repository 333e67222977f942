"""DescribeProducers' answer, version 0, by hand: of a leased id it says how long it lives, in a tagged field.

Tag 9000 of a producer holds an int64, the milliseconds that remain of its lease: 0 when it is over, no tag for an id
that is not leased. Whoever does not know the tag skips it, as KIP-482 asks of everybody.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semel.types import ProducerDescription, TopicPartition
from semel.wire.frames import (
    INT32,
    INT64,
    RESPONSE_ITEMS_MAX,
    Buffer,
    MalformedMessage,
    Reader,
    write_count,
    write_string,
    write_tags,
)

LEASE_TAG: Final = 9_000
_PRODUCER: Final = struct.Struct(">qiiqiq")
_PARTITION: Final = struct.Struct(">ih")
_NO_TAGS: Final = b"\0"
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = _PARTITION.size + 3


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    """One partition's producers, or why they are not known."""

    tp: TopicPartition
    error_code: int
    error_message: str | None
    producers: Sequence[ProducerDescription]


@dataclass(frozen=True, slots=True)
class EncodedPartition:
    """Likewise, with many producers, which were encoded some at a time."""

    tp: TopicPartition
    producer_count: int
    producers: Sequence[Buffer]
    error_code: int = 0
    error_message: str | None = None


def encode_response(partitions: Iterable[DescribedPartition | EncodedPartition]) -> bytearray:
    """The partitions by topic, in the order in which the topics come first."""
    topics: dict[str, list[DescribedPartition | EncodedPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.tp.topic, []).append(partition)
    out = bytearray(INT32.pack(0))  # throttle time
    write_count(out, len(topics), True)
    for topic, described in topics.items():
        write_string(out, topic, True)
        write_count(out, len(described), True)
        for partition in described:
            out += _PARTITION.pack(partition.tp.partition, partition.error_code)
            write_string(out, partition.error_message, True)
            if isinstance(partition, EncodedPartition):
                write_count(out, partition.producer_count, True)
                for part in partition.producers:
                    out += part
            else:
                write_count(out, len(partition.producers), True)
                out += encode_producers(partition.producers)
            out += _NO_TAGS
        out += _NO_TAGS
    out += _NO_TAGS
    return out


def encode_producers(producers: Iterable[ProducerDescription]) -> bytearray:
    out = bytearray()
    for producer in producers:
        _write_producer(out, producer)
    return out


def _write_producer(out: bytearray, producer: ProducerDescription) -> None:
    out += _PRODUCER.pack(
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
    )
    if producer.lease_remaining_ms is None:
        out += _NO_TAGS
    else:
        write_tags(out, {LEASE_TAG: INT64.pack(producer.lease_remaining_ms)})


def decode_response(body: Buffer) -> list[DescribedPartition]:
    reader = Reader(body, items_max=RESPONSE_ITEMS_MAX)
    reader.int32()
    partitions = []
    for _ in range(max(0, reader.count(True, _TOPIC_BYTES_MIN))):
        topic = reader.string(True)
        for _ in range(max(0, reader.count(True, _PARTITION_BYTES_MIN))):
            number, error_code = reader.int32(), reader.int16()
            error_message = reader.nullable_string(True)
            count = max(0, reader.count(True, _PRODUCER.size + 1))
            producers = [_read_producer(reader) for _ in range(count)]
            reader.skip_tags()
            partitions.append(
                DescribedPartition(TopicPartition(topic, number), error_code, error_message, producers)
            )
        reader.skip_tags()
    reader.skip_tags()
    return partitions


def _read_producer(reader: Reader) -> ProducerDescription:
    producer = ProducerDescription(*_PRODUCER.unpack(reader.take(_PRODUCER.size)))
    lease = reader.tags().get(LEASE_TAG)
    if lease is None:
        return producer
    if len(lease) != INT64.size:
        raise MalformedMessage(f"what remains of a lease in {len(lease)} bytes")
    return replace(producer, lease_remaining_ms=INT64.unpack(lease)[0])
