"""Which partition a key belongs to, exactly as Kafka's Java client decides it.

``murmur2`` is ``Utils.murmur2`` (seed 0x9747b28c) and the sign bit is cleared as ``Utils.toPositive`` does,
so a key lands where every Java, Spark and ``murmur2_random`` librdkafka producer puts it.
:func:`semel.record.columnar.partition_rows` is the same for a column.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF


def murmur2(key: bytes) -> int:
    """The 32-bit hash with its sign bit cleared: 0 … 2^31-1."""
    length = len(key)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if length > whole:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return (hashed ^ hashed >> 15) & _POSITIVE


def partition_for_key(key: bytes, partition_count: int) -> int:
    """0 … ``partition_count`` - 1. A record without a key has no partition of its own: the producer picks."""
    return murmur2(key) % partition_count
