"""The records of ``__transaction_state``, in the form that Kafka's formatter reads.

``TransactionLogKey`` version 0 and ``TransactionLogValue`` version 1; version 0 is read, too. A record without a value
forgets its transactional id.
"""

from __future__ import annotations

import struct
from typing import Final

from semel.core.transaction.states import TransactionState
from semel.core.transaction.transaction import Transaction
from semel.types import NO_PRODUCER_ID, TopicPartition

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES: Final = struct.Struct(">qq")  # of the last update, of the start
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 1
_FLEXIBLE_FROM: Final = 1
_PREVIOUS_TAG, _NEXT_TAG, _CLIENT_VERSION_TAG = 0, 1, 2


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _INT16.pack(_KEY_VERSION) + _INT16.pack(len(name)) + name


def decode_key(key: bytes) -> str | None:
    """``None`` for a key of another kind."""
    if key[: _INT16.size] != _INT16.pack(_KEY_VERSION):
        return None
    (length,) = _INT16.unpack_from(key, _INT16.size)
    start = 2 * _INT16.size
    return key[start : start + length].decode()


def encode_value(transaction: Transaction) -> bytes:
    out = bytearray(
        _HEAD.pack(
            _VALUE_VERSION,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            transaction.state,
        )
    )
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(number)
    # Null where it is empty, as Kafka writes it.
    _put_varint(out, 0 if transaction.state is TransactionState.EMPTY else len(by_topic) + 1)
    for topic, numbers in by_topic.items():
        name = topic.encode()
        _put_varint(out, len(name) + 1)
        out += name
        _put_varint(out, len(numbers) + 1)
        for number in numbers:
            out += _INT32.pack(number)
        out.append(0)
    out += _TIMES.pack(transaction.updated_ms, transaction.started_ms)
    tags = {
        _PREVIOUS_TAG: _tagged(_INT64, transaction.previous_producer_id, NO_PRODUCER_ID),
        _NEXT_TAG: _tagged(_INT64, transaction.next_producer_id, NO_PRODUCER_ID),
        _CLIENT_VERSION_TAG: _tagged(_INT16, transaction.client_version, 0),
    }
    present = {tag: value for tag, value in tags.items() if value is not None}
    _put_varint(out, len(present))
    for tag, value in present.items():
        _put_varint(out, tag)
        _put_varint(out, len(value))
        out += value
    return bytes(out)


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    version, producer_id, producer_epoch, timeout_ms, state = _HEAD.unpack_from(value)
    read = _Reader(value, _HEAD.size, is_flexible=version >= _FLEXIBLE_FROM)
    partitions = frozenset(
        TopicPartition(topic, number)
        for topic, numbers in [(read.string(), read.int32s()) for _ in range(read.count())]
        for number in numbers
    )
    updated_ms, started_ms = _TIMES.unpack_from(value, read.position)
    tags = read.tags_behind(_TIMES.size)
    return Transaction(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        TransactionState(state),
        partitions,
        updated_ms,
        started_ms,
        _untagged(_INT64, tags.get(_PREVIOUS_TAG), NO_PRODUCER_ID),
        _untagged(_INT64, tags.get(_NEXT_TAG), NO_PRODUCER_ID),
        _untagged(_INT16, tags.get(_CLIENT_VERSION_TAG), 0),
    )


def _tagged(form: struct.Struct, value: int, default: int) -> bytes | None:
    return None if value == default else form.pack(value)


def _untagged(form: struct.Struct, data: bytes | None, default: int) -> int:
    return default if data is None else int(form.unpack(data)[0])


def _put_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class _Reader:
    """Forward through a value's partitions and tags."""

    def __init__(self, data: bytes, position: int, *, is_flexible: bool) -> None:
        self._data = data
        self.position = position
        self._is_flexible = is_flexible

    def count(self) -> int:
        """Of an array; none for null."""
        if self._is_flexible:
            return max(0, self._varint() - 1)
        return max(0, int(_INT32.unpack(self._take(_INT32.size))[0]))

    def string(self) -> str:
        length = self._varint() - 1 if self._is_flexible else int(_INT16.unpack(self._take(_INT16.size))[0])
        return self._take(length).decode()

    def int32s(self) -> list[int]:
        """An array behind which its struct ends."""
        found = [int(_INT32.unpack(self._take(_INT32.size))[0]) for _ in range(self.count())]
        self._tags()
        return found

    def tags_behind(self, size_bytes: int) -> dict[int, bytes]:
        self.position += size_bytes
        return self._tags()

    def _tags(self) -> dict[int, bytes]:
        if not self._is_flexible:
            return {}
        return {self._varint(): self._take(self._varint()) for _ in range(self._varint())}

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        return self._data[start : self.position]
