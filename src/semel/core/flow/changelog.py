"""The messages of a changelog: what an entry of the merge log changed in a partition's state, and the way back.

A message is a record of the stage's own writer. Its key is the state's key; its value begins with the offset of its
entry in the merge log and its kind (``>qB``), and the rest is the state's value. An entry that changed nothing writes
nothing. Otherwise it writes either its net changes or a whole snapshot, and after them one message that says how the
state stands (:class:`Meta`).

Offsets of entries never fall along a changelog, rows of entries below a decided end are stored exactly once, and each
run of a sink fences the one before; so the messages of the decided entries are a beginning of what the writers of this
stage have stored, and a restore stops at the first message behind it.

All of it is proven by one digest that runs over the messages. A snapshot begins with the digest of everything in front
of it, so that the chain can be taken up there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.core.sink.digest import NO_ROWS, Digest
from semel.core.sink.refusal import Reason, Refusal

FORMAT_VERSION: Final = 1
ROW_OVERHEAD_BYTES: Final = 16  # what a key costs beside its bytes, at most, wherever it is written
PIECE_BYTES_MAX: Final = 32 * 2**20

_HEAD: Final = struct.Struct(">qB")
_META: Final = struct.Struct(">Bqqq")
_BEGIN: Final = struct.Struct(">BQIIII")


class Kind(IntEnum):
    """What a message says."""

    CHANGE = 0
    DELETION = 1
    SNAPSHOT_ROW = 2
    SNAPSHOT_BEGIN = 3  # forget what was before; the digest of it
    END = 4  # of an entry: how the state stands


@dataclass(frozen=True, slots=True)
class Meta:
    """What is counted of a state, entry by entry, and decides where it is written."""

    is_inline: bool = True
    key_count: int = 0
    size_bytes: int = 0
    written: int = 0  # changes in the changelog behind the last snapshot
    digest: Digest = NO_ROWS  # of all messages so far


@dataclass(frozen=True, slots=True)
class ChangelogRows:
    """Messages, in order, as binary columns without nulls."""

    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.keys)


def joined(pieces: Iterable[ChangelogRows]) -> ChangelogRows:
    """One piece instead of many small ones."""
    some = list(pieces) or [ChangelogRows(pa.array([], pa.binary()), pa.array([], pa.binary()))]
    if len(some) == 1:
        return some[0]
    return ChangelogRows(
        pa.concat_arrays([rows.keys for rows in some]), pa.concat_arrays([rows.values for rows in some])
    )


# --- to messages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NetChanges:
    """What an entry has changed in the end, in the order of keys, a few megabytes at a time."""

    pieces: tuple[tuple[pa.Array, pa.Array], ...]  # keys, and values; null: deleted
    count: int
    keys_more: int
    bytes_more: int  # as a state's size is counted


def net_changes(
    keys: Sequence[bytes], values: Sequence[bytes | None], before: Sequence[bytes | None]
) -> NetChanges:
    """Of ``keys``, each once, which have other ``values`` than ``before``; ``None``: it is not there."""
    cuts = list(_cuts([keys, values, before]))
    if len(cuts) > 1:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        keys = [keys[at] for at in order]
        values, before = [values[at] for at in order], [before[at] for at in order]
        cuts = list(_cuts([keys, values, before]))
    pieces, keys_more, bytes_more = [], 0, 0
    for start, end in cuts:
        key, value, old = (pa.array(each[start:end], pa.binary()) for each in (keys, values, before))
        is_other = pc.not_equal(value, old)  # null where either is null
        if is_other.null_count:
            is_other = pc.coalesce(is_other, pc.xor(value.is_null(), old.is_null()))
        if not pc.all(is_other).as_py():
            key, value, old = key.filter(is_other), value.filter(is_other), old.filter(is_other)
        if len(cuts) == 1:
            order_of_keys = pc.sort_indices(key)
            key, value = key.take(order_of_keys), value.take(order_of_keys)
            old = old.take(order_of_keys)
        keys_more += old.null_count - value.null_count
        bytes_more += _size_bytes(key, value) - _size_bytes(key, old)
        if len(key):
            pieces.append((key, value))
    return NetChanges(tuple(pieces), sum(len(key) for key, _ in pieces), keys_more, bytes_more)


def change_rows(offset: int, net: NetChanges, meta: Meta) -> list[ChangelogRows]:
    """An entry's changes and its end."""
    rows = []
    for key, value in net.pieces:
        kinds = np.zeros(len(key), np.uint8)
        if value.null_count:
            kinds[value.is_null().to_numpy(zero_copy_only=False)] = Kind.DELETION
            value = value.fill_null(b"")
        rows.append(_rows(offset, kinds, key, value))
    return [*rows[:-1], joined([*rows[-1:], _end(offset, meta)])]


def snapshot_begin(offset: int, before: Digest) -> ChangelogRows:
    """The first message of a snapshot."""
    return _row(offset, Kind.SNAPSHOT_BEGIN, _BEGIN.pack(FORMAT_VERSION, *before.to_list()))


def snapshot_rows(offset: int, items: Sequence[tuple[bytes, bytes]]) -> Iterator[ChangelogRows]:
    """Rows of a snapshot, a few megabytes at a time."""
    keys, values = [key for key, _ in items], [value for _, value in items]
    for start, end in _cuts([keys, values]):
        kinds = np.full(end - start, Kind.SNAPSHOT_ROW, np.uint8)
        yield _rows(
            offset, kinds, pa.array(keys[start:end], pa.binary()), pa.array(values[start:end], pa.binary())
        )


def snapshot_end(offset: int, meta: Meta) -> ChangelogRows:
    """The last message of a snapshot."""
    return _end(offset, meta)


def _end(offset: int, meta: Meta) -> ChangelogRows:
    return _row(offset, Kind.END, _META.pack(FORMAT_VERSION, meta.key_count, meta.size_bytes, meta.written))


def told_meta(value: bytes) -> Meta | None:
    """What a message says of how the state stands, without its digest; ``None`` for one that is of another kind."""
    if len(value) != _HEAD.size + _META.size or _HEAD.unpack_from(value)[1] != Kind.END:
        return None
    return Meta(False, *_META.unpack_from(value, _HEAD.size)[1:])


def _row(offset: int, kind: Kind, body: bytes) -> ChangelogRows:
    return _rows(
        offset, np.array([kind], np.uint8), pa.array([b""], pa.binary()), pa.array([body], pa.binary())
    )


def _rows(offset: int, kinds: npt.NDArray[np.uint8], keys: pa.Array, bodies: pa.Array) -> ChangelogRows:
    heads = pa.array([_HEAD.pack(offset, kind) for kind in Kind], pa.binary())
    return ChangelogRows(
        keys, pc.binary_join_element_wise(heads.take(pa.array(kinds)), bodies, pa.scalar(b"", pa.binary()))
    )


def _cuts(columns: Sequence[Sequence[bytes | None]]) -> Iterator[tuple[int, int]]:
    """Pieces of at most :data:`PIECE_BYTES_MAX`, or one row; mostly all of it is one."""
    count = len(columns[0])
    if sum(sum(map(len, filter(None, column))) for column in columns) <= PIECE_BYTES_MAX:
        if count:
            yield 0, count
        return
    sizes = sum(np.fromiter((len(each or b"") for each in column), np.int64, count) for column in columns)
    ends = np.cumsum(sizes)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + PIECE_BYTES_MAX, side="right")))
        yield start, end
        start = end


def _size_bytes(keys: pa.Array, values: pa.Array) -> int:
    """What the rows whose value is not null add to a state's size."""
    if values.null_count:
        keys, values = keys.filter(values.is_valid()), values.drop_null()
    lengths = [pc.sum(pc.binary_length(column)).as_py() or 0 for column in (keys, values)]
    return int(sum(lengths)) + ROW_OVERHEAD_BYTES * len(keys)


# --- and back -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartOver:
    """Forget every key: a snapshot follows."""


@dataclass(frozen=True, slots=True)
class Load:
    """Rows of a snapshot: keys that are not there yet, rising from one piece to the next."""

    keys: pa.Array
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Apply:
    """Changes in order, several of one key perhaps; a null value is a deletion."""

    keys: pa.Array
    values: pa.Array


Instruction = StartOver | Load | Apply


@dataclass(slots=True)
class Restore:
    """A fold over the messages of a changelog: what to do to a state, to have it as of ``decided_end``.

    ``known`` is how the state stands that is gone on with; ``None``: begin with the first snapshot that comes.
    """

    decided_end: int
    known: Meta | None = None
    is_over: bool = False  # what comes from here on belongs to entries that are not decided
    meta: Meta = field(init=False)
    _digest: Digest = NO_ROWS
    _is_whole: bool = True  # the last message was the end of its entry
    _last_entry: int = -1

    def __post_init__(self) -> None:
        self.meta = self.known or Meta(is_inline=False)
        self._digest = self.meta.digest

    def feed(self, keys: pa.Array, values: pa.Array) -> list[Instruction] | Refusal:
        """What the next messages of this stage's writers ask for."""
        if self.is_over or not len(values):
            return []
        heads = None if keys.null_count or values.null_count else _heads(values)
        if heads is None:
            return _lost("holds a record of this stage's own writer that is no message of a state")
        entries, kinds = heads
        if entries[0] < self._last_entry or (np.diff(entries) < 0).any():
            return _lost("holds messages of a later entry in front of an earlier one's")
        self._last_entry = int(entries[-1])
        end = int(np.searchsorted(entries, self.decided_end))
        self.is_over = end < len(entries)
        instructions: list[Instruction] = []
        begins = np.flatnonzero(kinds[:end] == Kind.SNAPSHOT_BEGIN)
        start = 0
        if len(begins):
            start = int(begins[-1])
            body = values[start].as_py()[_HEAD.size :]
            if body[0] != FORMAT_VERSION:
                return _later(body[0])
            self._digest = Digest.from_list(_BEGIN.unpack(body)[1:])
            self.known = self.meta = Meta(is_inline=False)
            instructions.append(StartOver())
        if self.known is None or start == end:
            return instructions
        keys, values, kinds = (
            keys.slice(start, end - start),
            values.slice(start, end - start),
            kinds[start:end],
        )
        self._digest = self._digest.over(keys, values)
        ends = np.flatnonzero(kinds == Kind.END)
        self._is_whole = bool(kinds[-1] == Kind.END)
        if len(ends):
            body = values[int(ends[-1])].as_py()[_HEAD.size :]
            if body[0] != FORMAT_VERSION:
                return _later(body[0])
            self.meta = Meta(False, *_META.unpack(body)[1:])
        bodies = _bodies(values)
        loads = kinds == Kind.SNAPSHOT_ROW
        if loads.any():
            instructions.append(Load(_where(keys, loads), _where(bodies, loads)))
        changes = kinds <= Kind.DELETION
        if changes.any():
            is_deleted = pa.array(kinds[changes] == Kind.DELETION)
            bodies = pc.if_else(is_deleted, pa.scalar(None, pa.binary()), _where(bodies, changes))
            instructions.append(Apply(_where(keys, changes), bodies))
        return instructions

    def finish(self, digest: int) -> Meta | Refusal:
        """How the state stands, if it is the one that was decided."""
        if self.known is None:
            return _lost("holds no snapshot where the decision says that one begins")
        meta = Meta(
            self.meta.is_inline,
            self.meta.key_count,
            self.meta.size_bytes,
            self.meta.written,
            self._digest,
        )
        if not self._is_whole or self._digest.mixed() != digest:
            return _lost(
                "does not give the state that was decided: messages of it are missing, or are others"
            )
        return meta


def _heads(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]] | None:
    """Entry and kind of each message; ``None`` if one is too short to have them, or of no kind that there is."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    if (np.diff(bounds) < _HEAD.size).any():
        return None
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), _HEAD.size)
    heads = windows[bounds[:-1]]
    entries = np.ascontiguousarray(heads[:, :8]).view(">i8").reshape(-1).astype(np.int64)
    kinds = np.ascontiguousarray(heads[:, 8])
    return (entries, kinds) if int(kinds.max()) <= Kind.END else None


def _bodies(values: pa.Array) -> pa.Array:
    """The values without their heads: Arrow sees heads and bodies as one array, and takes the bodies."""
    _, offsets, data = values.buffers()
    count = len(values)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1]
    both = np.empty(2 * count + 1, np.int32)
    both[::2] = bounds
    both[1::2] = bounds[:-1] + _HEAD.size
    parts = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(both), data])
    return parts.take(pa.array(np.arange(1, 2 * count, 2)))


def _where(column: pa.Array, mask: Any) -> pa.Array:
    return column if mask.all() else column.filter(pa.array(mask))


def _lost(why: str) -> Refusal:
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"the changelog {why}. Nothing was written now. Put it back from a copy; or run the flow under another name, "
        f"which begins with its inputs, and is exact as long as they have all their rows",
    )


def _later(version: int) -> Refusal:
    return Refusal(
        Reason.REPLAY_UNPROVABLE,
        f"the changelog holds messages of format {version}, and this semel knows {FORMAT_VERSION}: use the newer one",
    )
