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

from bisect import bisect_left, bisect_right
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from semel.core.flow.changelog import (
    FORMAT_VERSION,
    ROW_OVERHEAD_BYTES,
    ChangelogRows,
    Instruction,
    Load,
    Meta,
    NetChanges,
    Restore,
    StartOver,
    change_rows,
    net_changes,
    snapshot_begin,
    snapshot_end,
    snapshot_rows,
)
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.refusal import Refusal
from semel.record.compression import Compression, compress, decompress

KEY_BYTES_MAX: Final = 64 * 1024
VALUE_BYTES_MAX: Final = 768 * 1024  # with the longest key below a record batch's 1,000,000 bytes
# A DECISION may take sixteen times as much of a partition. But it is kept for ever, and whoever starts reads all of
# them: with 64 KiB for each of four partitions and one micro-batch a second that would be 22 GB a day.
INLINE_BYTES_OF_PARTITION: Final = 4 * 1024
INLINE_BYTES_OF_DECISION: Final = 4 * 2**20
SNAPSHOT_CHANGES_MIN: Final = 10_000
PIECE_ROWS_MAX: Final = 32_768  # of a scan
_FIRST_PIECE_ROWS: Final = 64  # who looks for the first few keys pays for no more
_READS_MAX: Final = 262_144  # of the base, kept from one entry to the next
_UNREAD: Final[Any] = object()
_RAW, _ZSTD = 0, 1


def inline_bytes_max(partition_count: int) -> int:
    """How large a state may be that rides in the DECISION, with room for its encoding and for base64."""
    of_partition = min(INLINE_BYTES_OF_PARTITION, INLINE_BYTES_OF_DECISION // partition_count)
    return max(0, of_partition * 3 // 4 - 64)


def is_snapshot_due(written: int, key_count: int, changes_min: int = SNAPSHOT_CHANGES_MIN) -> bool:
    """Whether a snapshot is to take the place of the last of ``written`` changes, all since the one before."""
    return written > 2 * key_count + changes_min


def rules(partition_count: int) -> str:
    """What the messages of a state depend on beside the steps: undecided ones are met again under the same only."""
    return (
        f"state in the decision up to {inline_bytes_max(partition_count)} bytes, snapshot behind 2 * keys + "
        f"{SNAPSHOT_CHANGES_MIN} changes, changelog of format {FORMAT_VERSION}"
    )


def trim_offsets(states: Mapping[int, CommittedState], decided_ends: Mapping[int, int]) -> dict[int, int]:
    """Below which offset each changelog partition may be deleted, by its number.

    ``states`` are the newest DECISION's and ``decided_ends`` its ends of the changelog; of one that was read back and
    counts, for a driver that was fenced may have named a snapshot that nobody decided. What lies in front of the newest
    decided snapshot is never read again: not by a restore, and not by the sink, which looks for undecided rows behind
    a decided end.
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
        for key in _between(self._keys, first, end):
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
    stage's writers stands. Keys and values are bounded: :data:`KEY_BYTES_MAX` and :data:`VALUE_BYTES_MAX`. What the
    attempt changes is kept in memory: as many keys as its entries have rows, at most.
    """

    def __init__(
        self,
        base: Base,
        committed: CommittedState | None,
        *,
        inline_bytes_max: int,
        changelog_end: int = 0,
        snapshot_changes_min: int = SNAPSHOT_CHANGES_MIN,
    ) -> None:
        self._base = base
        self._inline_bytes_max = inline_bytes_max
        self._snapshot_changes_min = snapshot_changes_min
        self._changelog_end = changelog_end
        self._changelog_from = 0 if committed is None else committed.changelog_from
        self.meta: Meta = base.meta
        self._changes: dict[bytes, bytes | None] = {}  # of this entry; None: deleted
        self._overlay: dict[bytes, bytes | None] = {}  # of the attempt's entries before it
        self._reads: dict[bytes, bytes | None] = {}  # of the base, for who asks again
        self._overlay_order: list[bytes] = []  # its keys; sorted when somebody scans
        self._changes_order: list[bytes] = []
        self._last_offset = -1
        self._is_writing = False

    # -- reading and changing ---------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        """The value, or ``None``."""
        for known in (self._changes, self._overlay, self._reads):
            if key in known:
                return known[key]
        value = self._reads[key] = self._base.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of ``keys``, in their order."""
        changes = self._changes
        if not changes:
            return self._before(keys)
        found = [changes.get(key, _UNREAD) for key in keys]
        missing = [index for index, value in enumerate(found) if value is _UNREAD]
        for index, value in zip(missing, self._before([keys[index] for index in missing]), strict=True):
            found[index] = value
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """Set it; ``ValueError`` for a key or value beyond the bounds."""
        if len(key) > KEY_BYTES_MAX or len(value) > VALUE_BYTES_MAX:
            raise ValueError(_too_large(key, value))
        self._changes[key] = value

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """As :meth:`put`, one after the other."""
        if (
            max(map(len, keys), default=0) > KEY_BYTES_MAX
            or max(map(len, values), default=0) > VALUE_BYTES_MAX
        ):
            for key, value in zip(keys, values, strict=True):
                self.put(key, value)
        self._changes.update(zip(keys, values, strict=True))

    def delete(self, key: bytes) -> None:
        """As if it had never been there."""
        self._changes[key] = None

    def scan(self, first: bytes = b"", end: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of keys, from ``first`` up to and without ``end``; ``None``: to the last one.

        As the state is when the scan begins, or as it is changed meanwhile: change what it has given, not what it
        has yet to give.
        """
        self._sort()
        if len(self._changes_order) != len(self._changes):  # no key ever leaves it
            self._changes_order = sorted(self._changes)
        changed = _between(self._overlay_order, first, end)
        if self._changes:
            changed = sorted({*changed, *_between(self._changes_order, first, end)})
        for piece in self._pieces(changed, ChainMap(self._changes, self._overlay), first, end):
            yield from piece

    def of(self, prefix: bytes) -> View:
        """The part of it whose keys begin with ``prefix``, without it."""
        return View(self, prefix)

    def _before(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values at the beginning of this entry."""
        overlay, reads = self._overlay, self._reads
        if overlay:
            found = [overlay[key] if key in overlay else reads.get(key, _UNREAD) for key in keys]
        else:
            found = [reads.get(key, _UNREAD) for key in keys]
        missing = [index for index, value in enumerate(found) if value is _UNREAD]
        if missing:
            unread = [keys[index] for index in missing]
            values = self._base.get_many(unread)
            reads.update(zip(unread, values, strict=True))
            for index, value in zip(missing, values, strict=True):
                found[index] = value
        return found

    def _sort(self) -> None:
        if len(self._overlay_order) != len(self._overlay):
            self._overlay_order = sorted(self._overlay)

    def _pieces(
        self,
        changed: Sequence[bytes],
        now: Mapping[bytes, bytes | None],
        first: bytes,
        end: bytes | None,
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """The base's rows, and over them what is ``now`` of the ``changed`` keys (sorted), a few thousand at a time."""
        below = self._base.scan(first, end)
        done, size = 0, _FIRST_PIECE_ROWS
        while piece := list(islice(below, size)):
            upto = bisect_right(changed, piece[-1][0], done)
            if upto > done:
                merged: dict[bytes, bytes | None] = dict(piece)
                for key in changed[done:upto]:
                    merged[key] = now[key]
                piece = sorted((key, value) for key, value in merged.items() if value is not None)
                done = upto
            yield piece
            size = min(8 * size, PIECE_ROWS_MAX)
        for start in range(done, len(changed), PIECE_ROWS_MAX):
            of_piece = ((key, now[key]) for key in changed[start : start + PIECE_ROWS_MAX])
            yield [(key, value) for key, value in of_piece if value is not None]

    # -- the end of an entry, and of the attempt --------------------------------------------------------

    def end_entry(self, offset: int) -> Iterator[ChangelogRows]:
        """What the entry at ``offset`` of the merge log changed; to be taken whole before the end of the next one."""
        if self._is_writing:
            raise RuntimeError("the messages of the entry before are to be taken first")
        if offset <= self._last_offset:
            raise ValueError(f"entry {offset} comes after {self._last_offset}")
        self._last_offset = offset
        if not self._changes:
            return iter(())
        changes, self._changes, self._changes_order = self._changes, {}, []
        net = self._net(changes)
        self._overlay.update(changes)
        if len(self._reads) > _READS_MAX:
            self._reads = {}
        if not net.count:
            return iter(())
        written = self.meta.written + net.count
        self.meta = replace(
            self.meta,
            key_count=self.meta.key_count + net.keys_more,
            size_bytes=self.meta.size_bytes + net.bytes_more,
        )
        if self.meta.is_inline:
            if self.meta.size_bytes <= self._inline_bytes_max:
                return iter(())
            return self._snapshot(offset)
        if is_snapshot_due(written, self.meta.key_count, self._snapshot_changes_min):
            return self._snapshot(offset)
        self.meta = replace(self.meta, written=written)
        return iter([self._over(rows) for rows in change_rows(offset, net, self.meta)])

    def drop_entry(self) -> None:
        """Forget what the entry has changed that was not ended: as if it had not begun."""
        self._changes = {}
        self._changes_order = []

    def committed(self) -> CommittedState:
        """The state as of the last entry, for the DECISION."""
        if self._changes or self._is_writing:
            raise RuntimeError("an entry is not at its end")
        if self.meta.is_inline:
            return CommittedState(_encode_inline(list(self.scan())))
        return CommittedState(None, self._changelog_from, self.meta.digest.mixed())

    def overlay(self) -> Mapping[bytes, bytes | None]:
        """What the attempt's entries have set, by key, in no order; ``None``: deleted."""
        return self._overlay

    def _net(self, changes: Mapping[bytes, bytes | None]) -> NetChanges:
        keys = list(changes)
        return net_changes(keys, list(changes.values()), self._before(keys))

    def _snapshot(self, offset: int) -> Iterator[ChangelogRows]:
        self._is_writing = True
        self._changelog_from = self._changelog_end
        self.meta = replace(self.meta, is_inline=False, written=0)
        return self._snapshot_rows(offset)

    def _snapshot_rows(self, offset: int) -> Iterator[ChangelogRows]:
        yield self._over(snapshot_begin(offset, self.meta.digest))
        self._sort()
        for piece in self._pieces(self._overlay_order, self._overlay, b"", None):
            for rows in snapshot_rows(offset, piece):
                yield self._over(rows)
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


def _between(keys: list[bytes], first: bytes, end: bytes | None) -> list[bytes]:
    """Of sorted ``keys``."""
    return keys[bisect_left(keys, first) : len(keys) if end is None else bisect_left(keys, end)]


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
