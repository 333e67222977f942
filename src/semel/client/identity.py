"""Where a producer's identity is kept: a file, a value, or the metadata of an offset commit.

A store replaces what it holds as a whole, so that a crash at any moment leaves the old identity or the new
one. Saves go through :class:`IdentityKeeper`, one after the other: never two at a time, never an older one
over a newer one, and never cut short because a caller stopped waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import itertools
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from semel.client.cluster import Cluster
from semel.core.client.saved import SavedIdentity, Unreadable, decode_identity, decode_text, encode_identity
from semel.errors import ConfigError, InputDiffers, SemelError, StorageError
from semel.types import TopicPartition

_SAVE_S_MAX: Final = 600  # no save takes longer

_save_numbers = itertools.count()


class IdentityStore(Protocol):
    """One place for one identity."""

    async def load(self, cluster: Cluster) -> SavedIdentity | None:
        """What it holds, or None if nothing was ever saved."""

    async def save(self, cluster: Cluster, saved: SavedIdentity) -> None:
        """Replace what it holds; durable on return."""


class IdentityFile:
    """A file: written beside itself, synced, renamed, the folder synced. Its checksum tells a damaged one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    async def load(self, cluster: Cluster) -> SavedIdentity | None:
        await asyncio.to_thread(self.clear_up)
        return await asyncio.to_thread(self.read)

    async def save(self, cluster: Cluster, saved: SavedIdentity) -> None:
        await asyncio.to_thread(self.write, saved)

    def read(self) -> SavedIdentity | None:
        """The identity, or None when there is no file yet."""
        try:
            found = decode_identity(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot read the identity in {self.path}: {error}") from error
        if isinstance(found, Unreadable):
            raise StorageError(
                f"cannot use the identity in {self.path}: {found.why}; bring back a copy of it, however old, "
                f"or start a new identity from a known position"
            )
        return found

    def clear_up(self) -> None:
        """Remove what copies that were killed in mid-save left beside the file; a living one's is young."""
        with contextlib.suppress(OSError):
            for beside in self.path.parent.glob(f"{glob.escape(self.path.name)}.*-*.new"):
                with contextlib.suppress(OSError):
                    if beside.stat().st_mtime < time.time() - _SAVE_S_MAX:
                        beside.unlink()

    def write(self, saved: SavedIdentity) -> None:
        """Replace the file; returns once that is durable."""
        # A name of its own: a fenced copy in this process may still be writing.
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}-{next(_save_numbers)}.new")
        try:
            with beside.open("wb") as file:
                file.write(encode_identity(saved))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            # Of the text only the reason: the file that it names is not the one that the caller knows.
            reason = error.strerror or str(error)
            raise StorageError(f"cannot save the identity in {self.path}: {reason}") from error


class IdentityValue:
    """A value in the caller's hands: kept in memory, read back as ``producer.identity``.

    What the caller keeps of it may be older than what the logs know. Rows that were stored since are found and
    counted, as long as the logs still hold them; else the resume is refused. Keep it anew after a topic's first row.
    """

    def __init__(self, saved: SavedIdentity) -> None:
        self._saved = saved

    def __str__(self) -> str:
        return f"the value {self._saved.name!r}"

    async def load(self, cluster: Cluster) -> SavedIdentity | None:
        return self._saved

    async def save(self, cluster: Cluster, saved: SavedIdentity) -> None:
        self._saved = saved


class CommittedIdentity:
    """The identity in the offset commits of a consumer group: position and identity in one record.

    For a producer whose input is partition ``partition`` of a log on the same cluster, and whose positions
    are that partition's offsets: each save commits ``position + 1`` for ``group``, with the identity as the
    commit's metadata. So the group's lag is the producer's, and whoever recovers the one has the other::

        store = semel.CommittedIdentity("loader", TopicPartition("input", 0))
        with semel.Producer(bootstrap, identity_store=store) as producer:
            for offset, record in producer.resume(records_after): …

    At most 4096 characters (Kafka's ``offset.metadata.max.bytes``), which is about 150 output partitions.
    ``start_offset`` is committed while no row is done yet.

    With it goes the id of the input's topic: InputDiffers for one that was made anew, whose first rows the committed
    offset would pass over. A commit that the brokers forgot (``offsets.retention.minutes``) is no identity; the name
    that a new one has is made of group and partition, so what the old one wrote is found as long as brokers know that
    name and its producer id.
    """

    def __init__(self, group: str, partition: TopicPartition, *, start_offset: int = 0) -> None:
        self.group, self.partition, self._start_offset = group, TopicPartition(*partition), start_offset
        self.default_name = f"semel-{group}-{self.partition.topic}-{self.partition.partition}"
        self._topic_id: str | None = None

    def __str__(self) -> str:
        return f"the offset that group {self.group!r} committed for {self.partition}"

    async def load(self, cluster: Cluster) -> SavedIdentity | None:
        topic = self.partition.topic
        metadata = (await cluster.metadata([topic])).topics.get(topic)
        if metadata is not None and metadata.topic_id and not metadata.error_code:
            self._topic_id = str(metadata.topic_id)
        found = (await cluster.committed_offsets(self.group, [self.partition])).get(self.partition)
        if found is None or found.offset < 0:
            return None
        decoded = decode_text(found.metadata or "")
        if isinstance(decoded, Unreadable):
            raise StorageError(f"cannot use the identity in {self}: {decoded.why}")
        saved_id = decoded.topic_ids.get(topic, self._topic_id)
        if self._topic_id is not None and saved_id != self._topic_id:
            raise InputDiffers(
                f"topic {topic!r}, the input, was made anew: identity {decoded.name!r} read the one with id {saved_id} "
                f"up to position {decoded.position!r}, now it has id {self._topic_id}; nothing was sent",
                "For the new one take another group",
            )
        return decoded

    async def save(self, cluster: Cluster, saved: SavedIdentity) -> None:
        position = saved.position
        if position is not None and (not isinstance(position, int) or position < 0):
            raise ConfigError(f"position {position!r} is not an offset of {self.partition}")
        if self._topic_id is not None:
            saved = replace(saved, topic_ids={**saved.topic_ids, self.partition.topic: self._topic_id})
        try:
            text = saved.to_text()
        except ValueError as error:
            raise StorageError(str(error)) from None
        next_offset = self._start_offset if position is None else position + 1
        await cluster.commit_offsets(self.group, {self.partition: (next_offset, text)})


class IdentityKeeper:
    """Saves one identity at a time, in the order asked for. After a failure the producer must not go on."""

    def __init__(self, cluster: Cluster, store: IdentityStore) -> None:
        self._cluster, self.store = cluster, store
        self.failure: SemelError | None = None
        self._has_saved = False  # before the first save of a run nothing goes
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    async def load(self) -> SavedIdentity | None:
        return await self.store.load(self._cluster)

    def start(self, saved: SavedIdentity) -> None:
        """Save in the background; a failure shows in ``failure``."""
        task = asyncio.get_running_loop().create_task(self._save(saved))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def save(self, saved: SavedIdentity) -> None:
        """Durable on return; goes on to its end even if nobody waits any more."""
        self.start(saved)
        await self.finished()

    @property
    def is_saving(self) -> bool:
        return bool(self._tasks)

    async def finished(self) -> None:
        """Until no save is under way; raises the first failure there ever was."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self.failure is not None:
            raise self.failure

    async def _save(self, saved: SavedIdentity) -> None:
        async with self._turn:
            if self.failure is not None:
                return
            try:
                await self.store.save(self._cluster, saved)
                self._has_saved = True
            except StorageError as error:
                self.failure = error if self._has_saved else StorageError(f"{error}; nothing was sent")
            except SemelError as error:
                self.failure = error
            except Exception as error:
                self.failure = StorageError(f"cannot save the identity in {self.store}: {error}")
