"""The keys of many records as hashes of 16 bytes, without a Python object a record.

A short key is hashed by four multilinear sums over its 32-bit words, each with random 64-bit factors of its own, of
which the upper 32 bits count (Lemire and Kaser, "Strongly universal string hashing is fast", 2014): of two keys,
however chosen, the hashes are equal in one of 2^128 cases as long as nobody knows the factors. They come from a
secret, so that nobody can make two keys of which compaction takes one for the other; of the MD5 that Kafka uses one
could. A long key goes through BLAKE2b, keyed with the secret.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b, shake_256
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from semel.errors import CorruptRecordBatch
from semel.record.batch import BatchHeader
from semel.record.compression import Buffer
from semel.record.index import (
    Bytes,
    Int64s,
    key_blocks,
    starts_of,
)

_UInt64s = npt.NDArray[np.uint64]

SECRET_BYTES: Final = 32
_WORD_BYTES: Final = 4
_SHORT_WORDS: Final = 16
_SHORT_BYTES: Final = _SHORT_WORDS * _WORD_BYTES
_SUMS: Final = 4
_UPPER: Final = np.uint64(32)


class Hashes(NamedTuple):
    """One of 128 bits for each key."""

    high: _UInt64s
    low: _UInt64s


class KeyedRecords(NamedTuple):
    """The records of some batches, one entry a record; starts are positions in the payload."""

    payload: bytes  # of all, with zeros behind them
    bounds: Int64s  # where each record begins, and where the last one ends
    counts: Int64s  # records of each batch
    offset: Int64s
    timestamp_delta: Int64s
    key_start: Int64s
    key_length: Int64s  # -1: no key
    value_length: Int64s  # -1: a tombstone


def keyed_records(batches: Sequence[tuple[BatchHeader, Buffer]]) -> KeyedRecords:
    """The records of batches with the given payloads; :class:`CorruptRecordBatch` if one is not what it says."""
    payload = b"".join([*(part for _, part in batches), bytes(_SHORT_BYTES)])
    counts = np.array([header.record_count for header, _ in batches], np.int64)
    ends = np.cumsum(np.array([len(part) for _, part in batches], np.int64))
    bounds = np.append(starts_of(payload, ends, counts), ends[-1])
    blocks = list(key_blocks(np.frombuffer(payload, np.uint8), bounds))

    def column(name: str) -> Int64s:
        parts = [getattr(block, name) for block in blocks]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    delta = column("offset_delta")
    _check_deltas(delta, counts, np.array([header.last_offset_delta for header, _ in batches], np.int64))
    base = np.array([header.base_offset for header, _ in batches], np.int64)
    return KeyedRecords(
        payload,
        bounds,
        counts,
        np.repeat(base, counts) + delta,
        column("timestamp_delta"),
        column("key_start"),
        column("key_length"),
        column("value_length"),
    )


def _check_deltas(delta: Int64s, counts: Int64s, last_delta: Int64s) -> None:
    before = np.empty_like(delta)
    before[1:] = delta[:-1]
    firsts = (np.cumsum(counts) - counts)[counts > 0]
    before[firsts] = -1
    if (delta <= before).any() or (delta > np.repeat(last_delta, counts)).any():
        raise CorruptRecordBatch("offset deltas fall, repeat, or pass their batch's last")


class KeyHash:
    """``secret``: of :data:`SECRET_BYTES`, and not to be guessed."""

    def __init__(self, secret: bytes) -> None:
        words = _SUMS * (_SHORT_WORDS + 2)
        drawn = np.frombuffer(shake_256(secret).digest(words * 8), np.uint64).reshape(_SUMS, -1)
        self._factors: Final = drawn[:, :_SHORT_WORDS]
        self._of_length: Final = drawn[:, _SHORT_WORDS]
        self._constant: Final = drawn[:, _SHORT_WORDS + 1]
        self._secret: Final = secret

    def of(self, payload: bytes, start: Int64s, length: Int64s) -> Hashes:
        """Of the keys that lie there; :data:`_SHORT_BYTES` at least follow the last one in the payload."""
        high, low = np.empty(len(start), np.uint64), np.empty(len(start), np.uint64)
        content = np.frombuffer(payload, np.uint8)
        words = (length + _WORD_BYTES - 1) // _WORD_BYTES
        for count in np.unique(words[length <= _SHORT_BYTES]).tolist():
            which = np.flatnonzero(words == count)
            high[which], low[which] = self._short(content, start[which], length[which], count)
        long = np.flatnonzero(length > _SHORT_BYTES)
        if len(long):
            high[long], low[long] = self._long(payload, start[long], length[long])
        return Hashes(high, low)

    def _short(self, content: Bytes, start: Int64s, length: Int64s, words: int) -> Hashes:
        sums = [
            constant + factor * length.astype(np.uint64)
            for constant, factor in zip(self._constant, self._of_length, strict=True)
        ]
        if words:
            width = words * _WORD_BYTES
            key = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(content, width)[start])
            last = np.arange(width - _WORD_BYTES + 1, width)  # some of these may be somebody else's
            key[:, last[0] :] *= last < length[:, np.newaxis]
            columns = key.view(np.uint32)
            for n in range(words):
                word = columns[:, n].astype(np.uint64)
                for at, factors in enumerate(self._factors):
                    sums[at] += factors[n] * word
        upper = [one >> _UPPER for one in sums]
        return Hashes(upper[0] << _UPPER | upper[1], upper[2] << _UPPER | upper[3])

    def _long(self, payload: bytes, start: Int64s, length: Int64s) -> Hashes:
        found = array("Q")
        for begin, end in zip(start.tolist(), (start + length).tolist(), strict=True):
            found.frombytes(blake2b(payload[begin:end], digest_size=16, key=self._secret).digest())
        table = np.frombuffer(found, np.uint64).reshape(-1, 2)
        return Hashes(table[:, 0], table[:, 1])
