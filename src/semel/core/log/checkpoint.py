"""Kafka's checkpoint of one offset for each partition (``OffsetCheckpointFile``): version, count, lines."""

from __future__ import annotations

from collections.abc import Mapping

from semel.types import TopicPartition


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [
        f"{partition.topic} {partition.partition} {offset}\n" for partition, offset in sorted(offsets.items())
    ]
    return "".join(["0\n", f"{len(lines)}\n", *lines]).encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """The offsets in a checkpoint; ``None`` when it is not one."""
    offsets: dict[TopicPartition, int] = {}
    try:
        version, count, *lines = content.decode("ascii").split("\n")
        for line in filter(None, lines):
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        if int(version) != 0 or int(count) != len(offsets):
            return None
    except ValueError:
        return None
    return offsets
