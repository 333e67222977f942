"""The store of a stage's partition on this machine's disk: decided state only, in LMDB.

The changelog is the truth and the store a copy of it, which may be deleted at any time. It holds the state as of one
decided end, and a tag that says which: that end, the digest of the changelog's messages up to it (which the DECISION
has too, so that a number alone is never believed), and the offset from which to read on. State and tag change in one
transaction of LMDB, so a process that is killed in the middle leaves the state as it was. What is found is brought to
the end that a task was given by its ticket: the right tag is used as it is, an older one is rolled forward, and with
any other one the state is built anew from the newest decided snapshot. The digest is of all messages since the state
left the decision, entry by entry, so it tells apart what has the same numbers: a sink that was reset, other steps, an
attempt that another one has overtaken.

*Pending*: an attempt that is at its end may leave its changes beside the state, with the digest that it reported.
They are used where the next ticket's decision has that very digest, and save reading them back from the log.

Who may open it, and after which crashes, is in :mod:`semel.flow.slots`. LMDB does not wait for the disk there, as a
copy needs no durability, only wholeness. The folder has to be on a disk of this machine.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import lmdb
import msgspec
import pyarrow as pa

from semel.core.flow.changelog import Instruction, Load, Meta, Restore, StartOver
from semel.core.flow.state import Base, MemoryBase, State
from semel.core.sink.committed_state import CommittedState
from semel.core.sink.digest import Digest
from semel.core.sink.refusal import Refusal
from semel.errors import StorageError
from semel.flow.lmdb_base import LmdbBase, apply, apply_columns, clear, load
from semel.flow.slots import SLOTS_MAX, Slot, boot_id, root_of, take_slots
from semel.spark.refusing import allow

FORMAT_VERSION: Final = 1
PENDING_MAX: Final = 4
PENDING_BYTES_MAX: Final = 32 * 2**20
MAP_BYTES: Final = 2**34  # of address space, not of disk; doubled when it is full
MAP_BYTES_MAX: Final = 2**44

# From one offset of the changelog's partition to another (exclusive): keys and values of this stage's own writers.
ReadChangelog = Callable[[int, int], Iterator[tuple[pa.Array, pa.Array]]]

_TAG: Final = b"tag"
_NAMES: Final = b"names"
_PENDING: Final = b"pending/"
_STATES: Final = b"states"
_BROKEN: Final = (  # as a copy it may be deleted
    lmdb.CorruptedError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
    lmdb.ProblemError,
    lmdb.VersionMismatchError,
    msgspec.DecodeError,
)


class Tag(msgspec.Struct, frozen=True, array_like=True):
    """Which decided state it is."""

    decided_end: int
    changelog_to: int  # its messages stand in front of this offset, and no later entry's
    key_count: int
    size_bytes: int
    written: int
    digest: tuple[int, ...]

    @property
    def meta(self) -> Meta:
        """As the core has it."""
        return Meta(False, self.key_count, self.size_bytes, self.written, Digest.from_list(self.digest))

    @classmethod
    def of(cls, decided_end: int, changelog_to: int, meta: Meta) -> Tag:
        """The tag of a state."""
        digest = tuple(meta.digest.to_list())
        return cls(decided_end, changelog_to, meta.key_count, meta.size_bytes, meta.written, digest)


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """What a finished attempt has changed, from one state to another."""

    before: tuple[int, ...]  # digest
    after: Tag
    keys: list[bytes]
    values: list[bytes | None]


class Store:
    """The decided state of one stage partition, for one task at a time."""

    def __init__(
        self, folder: Path, sink_id: str, merge_topic_id: str, partition: int, *, map_bytes: int = MAP_BYTES
    ) -> None:
        self._folder = folder
        self._names = msgspec.json.encode([FORMAT_VERSION, sink_id, merge_topic_id, partition])
        self._place = f"the state of {sink_id}, partition {partition}, in {folder}"
        self._map_bytes = map_bytes
        self._slot: Slot | None = None
        self._env: Any = None
        self._states: Any = None
        self._base: LmdbBase | None = None
        self._tag: Tag | None = None
        self.origin = ""  # how the last state came about: inline, found, pending, rolled, rebuilt

    @classmethod
    def open(cls, folder: Path, sink_id: str, merge_topic_id: str, partition: int) -> Store:
        """The store of a stage partition below ``folder``; nothing is made before it is needed."""
        return cls(folder, sink_id, merge_topic_id, partition)

    def as_of(
        self,
        decided_end: int,
        committed: CommittedState | None,
        changelog_end: int,
        read_changelog: ReadChangelog,
    ) -> Base:
        """The state as of a ticket's decided end; it holds until the next call, or until the store is closed.

        ``changelog_end`` is the offset in front of which every message of a decided entry stands, and at or behind
        which every other one does (:meth:`semel.core.sink.run.Ticket.scan_from`).
        """
        self._end_reading()
        if committed is None or committed.inline is not None:
            self.origin = "inline"
            return MemoryBase.decoded(None if committed is None else committed.inline)
        try:
            self._take()
            may_forget = True
            while True:
                try:
                    return self._bring_to(decided_end, committed, changelog_end, read_changelog)
                except lmdb.MapFullError:
                    self._grow()
                except _BROKEN:
                    if not may_forget:
                        raise
                    may_forget = False
                    self._forget()
        except (OSError, lmdb.Error, msgspec.DecodeError) as error:
            raise self._failed(error) from error

    def keep(self, state: State, decided_end: int) -> None:
        """Leave a finished attempt's changes as pending: they make the state of ``decided_end`` if it is decided.

        Only where that is cheap; what is not kept is read from the changelog.
        """
        if self._base is None or self._tag is None or state.meta.is_inline:
            return
        overlay = state.overlay()
        keys, values = list(overlay), list(overlay.values())
        if sum(map(len, keys)) + sum(len(value) for value in values if value) > PENDING_BYTES_MAX:
            return
        after = Tag.of(decided_end, 0, state.meta)
        body = msgspec.msgpack.encode(Pending(self._tag.digest, after, keys, values))
        key = _PENDING + after.meta.digest.mixed().to_bytes(8, "big")
        try:
            with self._env.begin(write=True) as txn:
                found = dict(_pendings(txn))
                if key not in found and len(found) >= PENDING_MAX:
                    txn.delete(next(iter(found)))
                txn.put(key, body)
        except (OSError, lmdb.Error):
            return  # no room: the changelog has it

    def close(self) -> None:
        """Let another task have it."""
        self._end_reading()
        self._close_database()
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- to the decided end -----------------------------------------------------------------------------

    def _bring_to(
        self, decided_end: int, committed: CommittedState, changelog_end: int, read_changelog: ReadChangelog
    ) -> LmdbBase:
        with self._env.begin() as txn:
            tag = self._read_tag(txn)
        if tag is None or tag.meta.digest.mixed() != committed.digest:
            with self._env.begin(write=True) as txn:
                meta = self._made(txn, tag, decided_end, committed, changelog_end, read_changelog)
                tag = Tag.of(decided_end, changelog_end, meta)
                txn.put(_NAMES, self._names)
                txn.put(_TAG, msgspec.msgpack.encode(tag))
                for key, _ in list(_pendings(txn)):
                    txn.delete(key)
        else:
            self.origin = "found"
        self._tag = tag
        self._base = LmdbBase(self._env.begin(), self._states, tag.meta)
        return self._base

    def _made(
        self,
        txn: Any,
        tag: Tag | None,
        decided_end: int,
        committed: CommittedState,
        changelog_end: int,
        read_changelog: ReadChangelog,
    ) -> Meta:
        if tag is not None:
            for _, body in _pendings(txn):
                pending = msgspec.msgpack.decode(body, type=Pending)
                after = pending.after.meta
                if pending.before == tag.digest and after.digest.mixed() == committed.digest:
                    apply(txn, self._states, pending.keys, pending.values)
                    self.origin = "pending"
                    return after
            if (
                tag.decided_end <= decided_end
                and committed.changelog_from <= tag.changelog_to <= changelog_end
            ):
                fold = Restore(decided_end, tag.meta)
                meta = self._followed(txn, fold, committed, read_changelog(tag.changelog_to, changelog_end))
                if isinstance(meta, Meta):
                    self.origin = "rolled"
                    return meta
        fold = Restore(decided_end)  # forgets what is there where the snapshot begins
        rows = read_changelog(committed.changelog_from, changelog_end)
        meta = self._followed(txn, fold, committed, rows)
        if isinstance(meta, Refusal):
            meta = Refusal(meta.reason, f"{self._place}: {meta.evidence}")
        self.origin = "rebuilt"
        return allow(meta)

    def _followed(
        self,
        txn: Any,
        fold: Restore,
        committed: CommittedState,
        messages: Iterator[tuple[pa.Array, pa.Array]],
    ) -> Meta | Refusal:
        for keys, values in messages:
            instructions = fold.feed(keys, values)
            if isinstance(instructions, Refusal):
                return instructions
            for instruction in instructions:
                self._follow(txn, instruction)
            if fold.is_over:
                break
        return fold.finish(committed.digest)

    def _follow(self, txn: Any, instruction: Instruction) -> None:
        if isinstance(instruction, StartOver):
            clear(txn, self._states)
            return
        if isinstance(instruction, Load):
            load(txn, self._states, instruction.keys.to_pylist(), instruction.values.to_pylist())
        else:
            apply_columns(txn, self._states, instruction.keys, instruction.values)

    # -- the database -----------------------------------------------------------------------------------

    def _take(self) -> None:
        """Open the free copy with the newest tag, and delete the other free ones."""
        if self._env is not None:
            return
        boot = boot_id()
        name = hashlib.blake2b(self._names, digest_size=12).hexdigest()
        slots = take_slots(root_of(self._folder, FORMAT_VERSION, boot) / name)
        if not slots:
            raise StorageError(
                f"{self._place}: tasks of this machine are using all {SLOTS_MAX} copies of it. Nothing was stored. End "
                f"the processes that hang there, and start the flow again"
            )
        try:
            self._slot = max(slots, key=lambda slot: self._end_of(slot, boot)) if slots[1:] else slots[0]
            self._open(self._slot, boot)
        finally:
            for slot in slots:
                if slot is not self._slot:
                    slot.clear()
                    slot.release()

    def _end_of(self, slot: Slot, boot: str | None) -> int:
        self._open(slot, boot)
        with self._env.begin() as txn:
            tag = self._read_tag(txn)
        self._close_database()
        return -1 if tag is None else tag.decided_end

    def _open(self, slot: Slot, boot: str | None) -> None:
        try:
            self._open_database(slot, boot)
        except _BROKEN:
            slot.clear()
            self._open_database(slot, boot)

    def _open_database(self, slot: Slot, boot: str | None) -> None:
        slot.folder.mkdir(mode=0o700, exist_ok=True)
        self._env = lmdb.open(
            str(slot.folder),
            map_size=self._map_bytes,
            max_dbs=2,
            sync=boot is None,
            metasync=False,
            mode=0o600,
        )
        try:
            used_bytes = (self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"]
            if slot.database.stat().st_size < used_bytes:
                raise lmdb.CorruptedError(f"{slot.database} has lost its end")
            self._env.reader_check()  # of processes that were killed
            self._states = self._env.open_db(_STATES)
        except BaseException:
            self._close_database()
            raise

    def _read_tag(self, txn: Any) -> Tag | None:
        body = txn.get(_TAG)
        if body is None or txn.get(_NAMES) != self._names:
            return None
        return msgspec.msgpack.decode(body, type=Tag)

    def _close_database(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    def _grow(self) -> None:
        if self._map_bytes >= MAP_BYTES_MAX:
            raise lmdb.MapFullError(f"{self._map_bytes} bytes are in use")
        self._map_bytes *= 2
        self._env.set_mapsize(self._map_bytes)

    def _forget(self) -> None:
        """It is broken: begin with an empty one."""
        assert self._slot is not None
        self._close_database()
        self._slot.clear()
        self._open(self._slot, boot_id())

    def _end_reading(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = self._tag = None

    def _failed(self, error: Exception) -> StorageError:
        is_full = isinstance(error, lmdb.DiskError) or getattr(error, "errno", None) == errno.ENOSPC
        what = "the disk is full" if is_full else str(error)
        return StorageError(
            f"{self._place}: {what}. Nothing was stored, and nothing is lost: the changelog has it. Make room there, "
            f"or name a folder of another disk, and start the flow again"
        )


def _pendings(txn: Any) -> Iterator[tuple[bytes, bytes]]:
    with txn.cursor() as cursor:
        if not cursor.set_range(_PENDING):
            return
        for key, body in cursor:
            if not key.startswith(_PENDING):
                return
            yield key, body
