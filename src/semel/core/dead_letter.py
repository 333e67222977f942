"""What cannot be read, as a record of a topic of its own: its bytes, and headers that say where it stood, and why.

A batch's key is its place and a checksum of its bytes. So whoever is killed between the dead letter and the position
behind it can tell that the letter is there already, and so can a reader of the topic.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from semel.errors import UnreadableBatch

WHY_HEADER: Final = "semel-why"  # in words
AT_HEADER: Final = "semel-at"  # topic, partition and offset
CUT_HEADER: Final = "semel-cut"  # how much of it is there, where it is not all
NEXT_HEADER: Final = "semel-next"  # the offset behind it

VALUE_BYTES_MAX: Final = (
    1_000_000 - 4096
)  # with headers and overhead below max.message.bytes, as it is by default
_WHY_BYTES_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that is to be written."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def dead_letter(found: UnreadableBatch) -> DeadLetter:
    """Of a batch: its bytes as they stand in the log, as far as they can be had and fit."""
    topic, partition = found.partition
    offset = int.from_bytes(found.batch[:8], "big") if found.batch else found.offset
    at = f"{topic}/{partition}/{offset}"
    headers = [
        (AT_HEADER, at.encode()),
        (WHY_HEADER, found.why.encode()[:_WHY_BYTES_MAX]),
        (NEXT_HEADER, str(found.next_offset).encode()),
    ]
    if len(found.batch) > VALUE_BYTES_MAX:
        told = f"value: the first {VALUE_BYTES_MAX} of {len(found.batch)} bytes"
        headers.append((CUT_HEADER, told.encode()))
    key = f"{at}/{zlib.crc32(found.batch):08x}"
    return DeadLetter(key.encode(), found.batch[:VALUE_BYTES_MAX], tuple(headers))
