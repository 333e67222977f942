"""Kafka's checkpoint of one offset for each partition (``OffsetCheckpointFile``): version, count, lines.

Kafka's has no checksum, and a digit that rots would still be an offset. So the last line is one, in the shape of
a partition's: no topic has this name, and Kafka passes over partitions that it has not. A checkpoint without
that line is Kafka's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crc32c import crc32c

from semel.types import TopicPartition

_CHECKSUM: Final = "__semel-crc32c"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [
        f"{partition.topic} {partition.partition} {offset}\n" for partition, offset in sorted(offsets.items())
    ]
    head = "".join(["0\n", f"{len(lines) + 1}\n", *lines]).encode()
    return head + f"{_CHECKSUM} 0 {crc32c(head)}\n".encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """The offsets in a checkpoint; ``None`` when it is not one."""
    offsets: dict[TopicPartition, int] = {}
    try:
        head, checksum_line, told = content.rpartition(f"{_CHECKSUM} 0 ".encode())
        if checksum_line and told != b"%d\n" % crc32c(head):
            return None
        version, count, *lines = content.decode("ascii").split("\n")
        for line in filter(None, lines):
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        if int(version) != 0 or int(count) != len(offsets):
            return None
    except ValueError:
        return None
    offsets.pop(TopicPartition(_CHECKSUM, 0), None)
    return offsets
