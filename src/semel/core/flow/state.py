"""The state of a stage's partition: what it was as of the decided end, and what one attempt makes of it.

State is a map of bytes to bytes. A task has it as of the end that the log has decided (:class:`Base`), and lays its
own changes over it (:class:`State`); nothing undecided is ever read from anywhere else, so an attempt that fails
leaves nothing behind.

Everything that is written depends on the sequence of the merge log's entries alone, never on how a micro-batch cuts
it, because a replay after a lost checkpoint cuts it elsewhere and has to give the same rows:

* The state begins *inline*: all of it rides in the DECISION. At the end of the first entry after which it is larger
  than :func:`inline_bytes_max`, it goes to the changelog for good, by a snapshot.
* From then on each entry writes its net changes, in the order of their keys; or a snapshot in their place, where the
  changes since the last one would outgrow the keys (:func:`is_snapshot_due`).
* Size, number of keys and changes written are counted entry by entry and stand in an entry's last message, so that a
  restored state goes on counting where the other one did.

A changelog is a topic with ``cleanup.policy=delete`` and no retention. A compacted one would be unsound: k@100 is
decided, k@200 is not, compaction takes the first, and the decided state is gone. It is kept short by deleting what
lies in front of the newest decided snapshot (:func:`trim_offsets`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import msgspec

from semel.core.flow.changelog import (
    ChangelogRows,
    Instruction,
    Load,
    Meta,
    Restore,
    StartOver,
    change_rows,
    pieces_of,
    snapshot_begin,
    snapshot_end,
    snapshot_rows,
)
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.refusal import Refusal
from semel.record.compression import Compression, compress, decompress

KEY_BYTES_MAX: Final = 64 * 1024
VALUE_BYTES_MAX: Final = (
    768 * 1024
)  # with the longest key still below the 1,000,000 bytes of one record batch
INLINE_BYTES_OF_PARTITION: Final = 64 * 1024
INLINE_BYTES_OF_DECISION: Final = 4 * 2**20
ROW_OVERHEAD_BYTES: Final = 16  # what a key costs beside its bytes, at most, wherever it is written
SNAPSHOT_CHANGES_MIN: Final = 10_000
_KEPT_READS_MAX: Final = 262_144
_UNREAD: Final[Any] = object()
_RAW, _ZSTD = 0, 1


def inline_bytes_max(partition_count: int) -> int:
    """How large a state may be that rides in the DECISION, with room for its encoding and for base64."""
    of_partition = min(INLINE_BYTES_OF_PARTITION, INLINE_BYTES_OF_DECISION // partition_count)
    return max(0, of_partition * 3 // 4 - 64)


def is_snapshot_due(written: int, key_count: int) -> bool:
    """Whether a snapshot is to take the place of ``written`` changes, all since the last snapshot."""
    return written > 2 * key_count + SNAPSHOT_CHANGES_MIN


def trim_offsets(states: Mapping[int, CommittedState], decided_ends: Mapping[int, int]) -> dict[int, int]:
    """Below which offset each changelog partition may be deleted, by its number.

    ``states`` are the newest DECISION's and ``decided_ends`` its ends of the changelog. What lies in front of the
    newest decided snapshot is never read again: not by a restore, and not by the sink, which looks for undecided rows
    behind a decided end.
    """
    return {
        partition: min(state.changelog_from, decided_ends[partition])
        for partition, state in states.items()
        if state.inline is None and partition in decided_ends
    }


# --- decided state ------------------------------------------------------------------------------------


class Base(Protocol):
    """State as of a decided end; nobody changes it."""

    @property
    def meta(self) -> Meta: ...

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, first: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of keys, from ``first`` up to and without ``end``; ``None``: to the last one."""

    def __len__(self) -> int: ...


class MemoryBase:
    """Decided state that is small, or a simulator's."""

    def __init__(self, rows: Mapping[bytes, bytes] | None = None, meta: Meta | None = None) -> None:
        self._rows: Mapping[bytes, bytes] = {} if rows is None else rows
        self._keys = sorted(self._rows)
        size = sum(len(key) + len(value) + ROW_OVERHEAD_BYTES for key, value in self._rows.items())
        self.meta = meta or Meta(True, len(self._keys), size)

    @classmethod
    def decoded(cls, inline: bytes | None) -> MemoryBase:
        """That of a DECISION; ``None``: of a stage that has decided nothing yet."""
        return cls() if inline is None else cls(dict(_decode_inline(inline)))

    @classmethod
    def restored(
        cls, messages: Iterable[ChangelogRows], decided_end: int, committed: CommittedState
    ) -> MemoryBase | Refusal:
        """What the messages of a changelog give, from ``committed.changelog_from`` on."""
        fold = Restore(decided_end)
        rows: dict[bytes, bytes] = {}
        for piece in messages:
            instructions = fold.feed(piece.keys, piece.values)
            if isinstance(instructions, Refusal):
                return instructions
            for instruction in instructions:
                _follow(rows, instruction)
        meta = fold.finish(committed.digest)
        return meta if isinstance(meta, Refusal) else cls(rows, meta)

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self._rows.get, keys))

    def scan(self, first: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        for key in self._keys[bisect_left(self._keys, first) : _end_index(self._keys, end)]:
            yield key, self._rows[key]

    def __len__(self) -> int:
        return len(self._keys)


def _follow(rows: dict[bytes, bytes], instruction: Instruction) -> None:
    if isinstance(instruction, StartOver):
        rows.clear()
        return
    keys, values = instruction.keys.to_pylist(), instruction.values.to_pylist()
    if isinstance(instruction, Load):
        rows.update(zip(keys, values, strict=True))
        return
    for key, value in zip(keys, values, strict=True):
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value


def _encode_inline(rows: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Sorted pairs; the same at every attempt but for zstd's release, which is why nobody compares them."""
    packed = msgspec.msgpack.encode(rows)
    squeezed = bytes(compress(packed, Compression.ZSTD))
    return bytes([_ZSTD]) + squeezed if len(squeezed) < len(packed) else bytes([_RAW]) + packed


_PAIRS: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


def _decode_inline(inline: bytes) -> list[tuple[bytes, bytes]]:
    """``ValueError`` for what is none, or of a later semel."""
    if inline[:1] == bytes([_RAW]):
        return _PAIRS.decode(inline[1:])
    if inline[:1] == bytes([_ZSTD]):
        packed = decompress(
            inline[1:], Compression.ZSTD, decompressed_bytes_max=2 * INLINE_BYTES_OF_PARTITION
        )
        return _PAIRS.decode(packed)
    raise ValueError(
        f"the state in the decision is of a later format ({inline[:1].hex()}): use the newer semel"
    )


# --- an attempt's view --------------------------------------------------------------------------------


class State:
    """One attempt's view: decided state below, its own changes above.

    ``changelog_end`` is the offset of the changelog's partition at or behind which every undecided message of this
    stage's writers stands. Keys and values are bounded: :data:`KEY_BYTES_MAX` and :data:`VALUE_BYTES_MAX`.
    """

    def __init__(
        self, base: Base, committed: CommittedState | None, *, inline_bytes_max: int, changelog_end: int = 0
    ) -> None:
        self._base = base
        self._inline_bytes_max = inline_bytes_max
        self._changelog_end = changelog_end
        self._changelog_from = 0 if committed is None else committed.changelog_from
        self.meta: Meta = base.meta
        self._known: dict[bytes, bytes | None] = {}  # by key, what is read or changed; None: there is none
        self._before: dict[
            bytes, bytes | None
        ] = {}  # of keys touched in this entry, what was there at its beginning
        self._changed: dict[bytes, None] = {}  # keys touched in this attempt
        self._in_order: list[bytes] = []  # the same, sorted; with what came since at its end
        self._is_sorted = True
        self._last_offset = -1
        self._is_writing = False

    # -- reading and changing ---------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value, or ``None``."""
        value: bytes | None = self._known.get(key, _UNREAD)
        if value is _UNREAD:
            value = self._known[key] = self._base.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order."""
        known = self._known
        values = [known.get(key, _UNREAD) for key in keys]
        if _UNREAD in values:
            missing = list(dict.fromkeys(key for key in keys if key not in known))
            known.update(zip(missing, self._base.get_many(missing), strict=True))
            return [known[key] for key in keys]
        return values

    def put(self, key: bytes, value: bytes) -> None:
        """Set it; ``ValueError`` for a key or value beyond the bounds."""
        if len(key) > KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
            raise ValueError(_too_large(key, value))
        self._touch(key)
        self._known[key] = value

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """As :meth:`put`, one after the other."""
        if not keys:
            return
        if max(map(len, keys)) > KEY_BYTES_MAX or max(map(len, values)) > VALUE_BYTES_MAX:
            for key, value in zip(keys, values, strict=True):
                self.put(key, value)
        for key in keys:
            self._touch(key)
        self._known.update(zip(keys, values, strict=True))

    def delete(self, key: bytes) -> None:
        """As if it had never been there."""
        self._touch(key)
        self._known[key] = None

    def _touch(self, key: bytes) -> None:
        if key not in self._before:
            if self._is_writing:
                raise RuntimeError("the messages of the entry before are to be taken first")
            self._before[key] = self._known.get(key, _UNREAD)
            if key not in self._changed:
                self._changed[key] = None
                self._in_order.append(key)
                self._is_sorted = False

    def scan(self, first: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of keys, from ``first`` up to and without ``end``; ``None``: to the last one.

        What is changed while it goes on may be met or not, but for keys that were there: they have their new value.
        """
        if not self._is_sorted:
            self._in_order.sort()
            self._is_sorted = True
        keys = self._in_order
        changed = keys[bisect_left(keys, first) : _end_index(keys, end)]
        known, index, count = self._known, 0, len(changed)
        for key, value in self._base.scan(first, end):
            while index < count and changed[index] < key:
                new = known[changed[index]]
                if new is not None:
                    yield changed[index], new
                index += 1
            if index < count and changed[index] == key:
                new = known[key]
                index += 1
                if new is not None:
                    yield key, new
            else:
                yield key, value
        for key in changed[index:]:
            new = known[key]
            if new is not None:
                yield key, new

    def of(self, prefix: bytes) -> View:
        """The part of it whose keys begin with ``prefix``, without it."""
        return View(self, prefix)

    # -- the end of an entry, and of the attempt --------------------------------------------------------

    def end_entry(self, offset: int) -> Iterator[ChangelogRows]:
        """What the entry at ``offset`` of the merge log changed, to be taken whole before the next entry begins."""
        if self._is_writing:
            raise RuntimeError("the messages of the entry before are to be taken first")
        if offset <= self._last_offset:
            raise ValueError(f"entry {offset} comes after {self._last_offset}")
        self._last_offset = offset
        keys, values = self._net_changes()
        if len(self._known) > len(self._changed) + _KEPT_READS_MAX:
            self._known = {key: self._known[key] for key in self._changed}
        if not keys:
            return iter(())
        if self.meta.is_inline:
            if self.meta.size_bytes <= self._inline_bytes_max:
                return iter(())
            return self._write_snapshot(offset)
        written = self.meta.written + len(keys)
        if is_snapshot_due(written, self.meta.key_count):
            return self._write_snapshot(offset)
        self.meta = replace(self.meta, written=written)
        rows = change_rows(offset, keys, values, self.meta)
        self._over(rows)
        return iter((rows,))

    def drop_entry(self) -> None:
        """Forget what the entry has changed that was not ended: as if it had not begun."""
        for key, value in self._before.items():
            self._known[key] = self._base.get(key) if value is _UNREAD else value
        self._before = {}

    def committed(self) -> CommittedState:
        """The state as of the last entry, for the DECISION."""
        if self._before or self._is_writing:
            raise RuntimeError("an entry is not at its end")
        if self.meta.is_inline:
            return CommittedState(_encode_inline(list(self.scan())))
        return CommittedState(None, self._changelog_from, self.meta.digest.mixed())

    def changes(self) -> tuple[list[bytes], list[bytes | None]]:
        """What the attempt has touched, in the order of keys, and what it is now; ``None``: it is not there."""
        keys = sorted(self._changed)
        return keys, [self._known[key] for key in keys]

    def _net_changes(self) -> tuple[list[bytes], list[bytes | None]]:
        known, before = self._known, self._before
        unread = [key for key, value in before.items() if value is _UNREAD]
        if unread:
            before.update(zip(unread, self._base.get_many(unread), strict=True))
        keys = sorted(key for key, value in before.items() if known[key] != value)
        values = [known[key] for key in keys]
        count = size = 0
        for key, value in zip(keys, values, strict=True):
            old = before[key]
            if old is None:
                count += 1
                size += len(key) + ROW_OVERHEAD_BYTES + len(value or b"")
            elif value is None:
                count -= 1
                size -= len(key) + ROW_OVERHEAD_BYTES + len(old)
            else:
                size += len(value) - len(old)
        self.meta = replace(
            self.meta, key_count=self.meta.key_count + count, size_bytes=self.meta.size_bytes + size
        )
        self._before = {}
        return keys, values

    def _write_snapshot(self, offset: int) -> Iterator[ChangelogRows]:
        self._is_writing = True
        self._changelog_from = self._changelog_end
        self.meta = replace(self.meta, is_inline=False, written=0)
        return self._snapshot(offset)

    def _snapshot(self, offset: int) -> Iterator[ChangelogRows]:
        yield self._over(snapshot_begin(offset, self.meta.digest))
        for piece in pieces_of(self.scan()):
            yield self._over(snapshot_rows(offset, piece))
        end = self._over(snapshot_end(offset, self.meta))
        self._is_writing = False
        yield end

    def _over(self, rows: ChangelogRows) -> ChangelogRows:
        self.meta = replace(self.meta, digest=self.meta.digest.over(rows.keys, rows.values))
        return rows


class View:
    """The keys of a state that begin with a prefix, without it."""

    __slots__ = ("_prefix", "_state")

    def __init__(self, state: State, prefix: bytes) -> None:
        self._state, self._prefix = state, prefix

    def get(self, key: bytes) -> bytes | None:
        """The value, or ``None``."""
        return self._state.get(self._prefix + key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order."""
        prefix = self._prefix
        return self._state.get_many([prefix + key for key in keys])

    def put(self, key: bytes, value: bytes) -> None:
        """Set it; ``ValueError`` for a key or value beyond the bounds."""
        self._state.put(self._prefix + key, value)

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """As :meth:`put`, one after the other."""
        prefix = self._prefix
        self._state.put_many([prefix + key for key in keys], values)

    def delete(self, key: bytes) -> None:
        """As if it had never been there."""
        self._state.delete(self._prefix + key)

    def scan(self, first: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of keys, as :meth:`State.scan`."""
        skip = len(self._prefix)
        behind = successor(self._prefix) if end is None else self._prefix + end
        for key, value in self._state.scan(self._prefix + first, behind):
            yield key[skip:], value

    def of(self, prefix: bytes) -> View:
        """The part of it whose keys begin with ``prefix``, without it."""
        return View(self._state, self._prefix + prefix)


def successor(prefix: bytes) -> bytes | None:
    """The first key behind all that begin with ``prefix``; ``None``: there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _end_index(keys: list[bytes], end: bytes | None) -> int:
    return len(keys) if end is None else bisect_left(keys, end)


def _too_large(key: bytes, value: bytes) -> str:
    what, size, bound = (
        ("key", len(key), KEY_BYTES_MAX)
        if len(key) > KEY_BYTES_MAX
        else ("value", len(value), VALUE_BYTES_MAX)
    )
    return (
        f"a {what} of the state has {size} bytes, and may have {bound}, because it has to fit in one record of the "
        f"changelog: keep less under one key, or spread it over several (the key begins with {key[:40]!r})"
    )
