"""State in LMDB: any bytes as a key, in their order, though LMDB's own keys are of 1 to 511 bytes.

A key of 1 to 510 bytes is stored as it is. The longer ones share a *bucket* for each first 510 bytes: its key is those
bytes and one more, so that no other key is the same, and its place in the order is theirs: behind the key of just
those 510 bytes, in front of every key that is greater than it and no longer one. In it they are sorted pairs. The empty
key, which comes before all others, has a place of its own beside the state. So nothing is hashed, and no two keys
can be taken for each other; many long keys with one beginning cost more, as they are written together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.flow.changelog import Meta

PLAIN_BYTES_MAX: Final = 510
_BUCKET: Final = b"\xff"
EMPTY_KEY: Final = b"empty key"  # in the database beside the state
_PAIRS: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
_pack: Final = msgspec.msgpack.encode


class LmdbBase:
    """State as of one read transaction: what others do to the store meanwhile is not in it."""

    def __init__(self, txn: Any, states: Any, meta: Meta) -> None:
        self._txn, self._states, self.meta = txn, states, meta

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None
        if 0 < len(key) <= PLAIN_BYTES_MAX:
            found = self._txn.get(key, db=self._states)
        elif not key:
            found = self._txn.get(EMPTY_KEY)
        else:
            found = dict(_bucket(self._txn.get(_home(key), db=self._states))).get(key)
        return found

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        lengths = list(map(len, keys))
        if min(lengths) < 1 or max(lengths) > PLAIN_BYTES_MAX:
            return list(map(self.get, keys))
        get, states = self._txn.get, self._states
        return [get(key, None, states) for key in keys]

    def scan(self, first: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if not first and (end is None or end > b""):
            value = self._txn.get(EMPTY_KEY)
            if value is not None:
                yield b"", value
        with self._txn.cursor(db=self._states) as cursor:
            if not cursor.set_range(_home(first) if first else b"\0"):
                return
            for home, value in cursor:
                if len(home) <= PLAIN_BYTES_MAX:
                    if end is not None and home >= end:
                        return
                    yield home, value
                    continue
                for key, value_of_key in _bucket(value):
                    if end is not None and key >= end:
                        return
                    if key >= first:
                        yield key, value_of_key

    def __len__(self) -> int:
        return self.meta.key_count

    def close(self) -> None:
        """End the read transaction, so that the store's old pages are free again."""
        self._txn.abort()


def clear(txn: Any, states: Any) -> None:
    """Forget every key."""
    txn.drop(states, delete=False)
    txn.delete(EMPTY_KEY)


def load(txn: Any, states: Any, keys: list[bytes], values: list[bytes]) -> bool:
    """Add keys behind all that are there; ``False``: they do not rise."""
    if not keys:
        return True
    if len(keys[0]) == 0:
        txn.put(EMPTY_KEY, values[0])
        keys, values = keys[1:], values[1:]
    if max(map(len, keys), default=0) > PLAIN_BYTES_MAX:
        apply(txn, states, keys, values)
        return True
    with txn.cursor(db=states) as cursor:
        consumed, added = cursor.putmulti(zip(keys, values, strict=True), append=True)
    return bool(consumed == added == len(keys))


def apply(txn: Any, states: Any, keys: Iterable[bytes], values: Iterable[bytes | None]) -> None:
    """Change keys, in this order; ``None`` deletes."""
    newest = dict(zip(keys, values, strict=True))
    if b"" in newest:
        value = newest.pop(b"")
        if value is None:
            txn.delete(EMPTY_KEY)
        else:
            txn.put(EMPTY_KEY, value)
    long_keys = [key for key in newest if len(key) > PLAIN_BYTES_MAX]
    if long_keys:
        _apply_long(txn, states, {key: newest.pop(key) for key in long_keys})
    with txn.cursor(db=states) as cursor:
        cursor.putmulti(sorted(item for item in newest.items() if item[1] is not None))
    for key, value in newest.items():
        if value is None:
            txn.delete(key, db=states)


def apply_columns(txn: Any, states: Any, keys: pa.Array, values: pa.Array) -> None:
    """As :func:`apply`. Mostly LMDB is just handed the rows: it takes them in their order, so the last of a key counts.

    They come entry by entry, sorted in each; sorted once more and freed of doubles, they would cost twice as much.
    """
    if not len(keys):
        return
    lengths = pc.min_max(pc.binary_length(keys)).as_py()
    if values.null_count or lengths["min"] < 1 or lengths["max"] > PLAIN_BYTES_MAX:
        apply(txn, states, keys.to_pylist(), values.to_pylist())
        return
    with txn.cursor(db=states) as cursor:
        cursor.putmulti(zip(keys.to_pylist(), values.to_pylist(), strict=True))


def _apply_long(txn: Any, states: Any, changes: dict[bytes, bytes | None]) -> None:
    by_home: dict[bytes, dict[bytes, bytes | None]] = {}
    for key, value in changes.items():
        by_home.setdefault(_home(key), {})[key] = value
    for home, of_home in by_home.items():
        rows = dict(_bucket(txn.get(home, db=states))) | of_home
        left = sorted((key, value) for key, value in rows.items() if value is not None)
        if left:
            txn.put(home, _pack(left), db=states)
        else:
            txn.delete(home, db=states)


def _home(key: bytes) -> bytes:
    """Where a key that is not empty is stored."""
    return key if len(key) <= PLAIN_BYTES_MAX else key[:PLAIN_BYTES_MAX] + _BUCKET


def _bucket(value: bytes | None) -> list[tuple[bytes, bytes]]:
    return [] if value is None else _PAIRS.decode(value)
