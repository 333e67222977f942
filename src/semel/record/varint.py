"""Zigzag varints, as in Kafka's ``ByteUtils``: 7 bits a byte, least significant first, sign in bit 0.

Invariants: a read never passes ``end``; a ``varint`` has at most 5 bytes and fits in 32 bits, a ``varlong``
at most 10 bytes and 64 bits. Longer forms of small numbers (``80 00`` for 0) are accepted, as Kafka does;
bits beyond the width, which Kafka drops silently, are refused.
"""

from __future__ import annotations

from typing import Final

from semel.errors import CorruptRecordBatch

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def read_varint(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """The 32-bit number at ``position`` and the position after it."""
    if position < end and (first := buffer[position]) < 0x80:  # most varints have one byte
        return (first >> 1) ^ -(first & 1), position + 1
    return _read(buffer, position, end, VARINT_BYTES_MAX, 32)


def read_varlong(buffer: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """The 64-bit number at ``position`` and the position after it."""
    return _read(buffer, position, end, VARLONG_BYTES_MAX, 64)


def _read(buffer: bytes | memoryview, position: int, end: int, bytes_max: int, bits: int) -> tuple[int, int]:
    zigzag = shift = 0
    stop = min(end, position + bytes_max)
    for at in range(position, stop):
        byte = buffer[at]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                raise CorruptRecordBatch(f"varint at byte {position} of the records exceeds {bits} bits")
            return (zigzag >> 1) ^ -(zigzag & 1), at + 1
        shift += 7
    if stop == end:
        raise CorruptRecordBatch(f"varint at byte {position} of the records runs past its end at byte {end}")
    raise CorruptRecordBatch(f"varint at byte {position} of the records is longer than {bytes_max} bytes")


def append_varint(out: bytearray, value: int) -> None:
    """Append ``value``; the caller holds it within 32 bits (varint) or 64 bits (varlong)."""
    zigzag = value << 1 if value >= 0 else (~value << 1) | 1
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
