"""Ends of a history: the server stops, and what it keeps beside its clients' logs rots while it is down.

- **The indexes.** After a stop in good order the next start believes them. They have no checksum, and need none: an
  entry is only a hint where to begin to look.
- **The newest snapshot of the producers.** The one before it has a longer tail of the log behind it, and serves as
  long as the log reaches back to that one. Else the partition is refused.
- **The metadata log.** It says which topics there are: either the server says what is damaged and does not start,
  or nothing is missing.

Whatever has rotted, a server that starts has every other partition, every batch is found by each of its offsets, and
every time leads to the record to which it led before; the checkers look at the producers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from semel.core.log.names import (
    INDEX_SUFFIX,
    KAFKA_SNAPSHOT_SUFFIX,
    LOG_SUFFIX,
    METADATA_TOPIC,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    folder_of,
    offset_of,
)
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.sim.checkers.watchers import RecoveryWatcher
from semel.sim.server.machine import DATA_DIR
from semel.sim.server.witness import logged_batches, whole_log
from semel.sim.world.disk import Folder, find
from semel.sim.world.faults import Fault
from semel.sim.world.history import LoggedBatch
from semel.sim.world.inode import Inode
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.campaign.simulation import Simulation

STOPS_WITHIN_MS: Final = 60_000
TRIES_TO_START_MS: Final = 10_000
READ_BYTES: Final = 300
_ALL: Final = -1
_File = tuple[TopicPartition, Path, int]  # whose, and how many bytes it has
_ByTime = tuple[int, int] | None  # offset and time of the first record that is as new
KINDS: Final = (Fault.INDEX_ROT, Fault.INDEX_ROT, Fault.SNAPSHOT_ROT, Fault.METADATA_ROT)
REFUSED: Final = "rot: partition refused, the snapshot of its producers is damaged"
NOT_STARTED: Final = "rot: refused to start, the metadata log is damaged"
_METADATA: Final = TopicPartition(METADATA_TOPIC, 0)


def rot_beside_the_logs(world: Simulation, random: Random) -> None:
    """Draw what rots: little enough that it must be survived, or said."""
    world.workload.end()
    is_idle = world.scheduler.run(lambda: world.server.is_idle, world.scheduler.now_ms + STOPS_WITHIN_MS)
    what_is_open = None if is_idle else "the server to be idle"
    world.watchers.of(RecoveryWatcher).healed(STOPS_WITHIN_MS, what_is_open)
    fault = random.choice(KINDS)
    in_good_order = fault is Fault.INDEX_ROT or random.random() < 0.5
    if fault is Fault.SNAPSHOT_ROT and not in_good_order:  # else the snapshot of the stop can be done without
        for partition in _partitions(world).values():
            at_once(partition.delete_records(_ALL))
    before = {tp: _what_is_found(partition) for tp, partition in _partitions(world).items()}
    if in_good_order:
        world.server.stop()
    else:
        world.server.kill()
    needed = {}
    for tp, path, size_bytes in _drawn_files(world, fault, random):
        if world.counts.occurs(fault):
            if path.suffix == SNAPSHOT_SUFFIX and not _is_spare(world, tp):
                needed[tp] = path.name
                world.history.is_rotten = True
            world.disk.rot(path, random.randrange(size_bytes), random.randrange(8))
            world.counts.bit(fault)
    if fault is Fault.METADATA_ROT and not _starts(world):
        return
    world.wait_until_up()
    for tp, partition in _partitions(world).items():
        if tp in needed:
            is_said = not partition.is_online and needed[tp] in str(partition.recovery)
            _tell(world, None if is_said else f"{tp} is served, and {needed[tp]} cannot be read")
            world.counts.verdict(REFUSED)
        else:
            _tell(world, _what_is_wrong(partition, *before[tp]))


def _tell(world: Simulation, what_is_wrong: str | None) -> None:
    world.watchers.of(RecoveryWatcher).rotted_beside(what_is_wrong)


def _starts(world: Simulation) -> bool:
    """Whether it does; else it has said where its metadata log is damaged."""
    world.history.is_rotten = True
    if world.scheduler.run(lambda: world.server.is_up, world.scheduler.now_ms + TRIES_TO_START_MS):
        return True
    if not any("does not start" in line and METADATA_TOPIC in line for line in world.trace.tail(20)):
        _tell(world, "the metadata log has rotted, and nobody says so")
    world.counts.verdict(NOT_STARTED)
    return False


def _drawn_files(world: Simulation, fault: Fault, random: Random) -> Iterator[_File]:
    match fault:
        case Fault.INDEX_ROT:  # few of its bits lead astray, and most of those far enough to be noticed
            for tp in world.server.tps:
                yield from _files(world, tp, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        case Fault.SNAPSHOT_ROT:
            for tp in world.server.tps:
                yield from _files(world, tp, SNAPSHOT_SUFFIX)[-1:]
                yield from _files(world, tp, KAFKA_SNAPSHOT_SUFFIX)[-1:]
        case _:
            yield random.choice(_files(world, _METADATA, LOG_SUFFIX))


def _is_spare(world: Simulation, tp: TopicPartition) -> bool:
    """Whether the newest snapshot can be done without: the log holds all that the one before it lacks."""
    names = _folder(world, tp).names
    begins_at = min(offset for name in names if (offset := offset_of(name, LOG_SUFFIX)) is not None)
    spoken_for = sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT_SUFFIX)) is not None)
    return begins_at <= max(spoken_for[:-1], default=0)


def _files(world: Simulation, tp: TopicPartition, *suffixes: str) -> list[_File]:
    """Those that hold something, oldest first, and how much."""
    names = _folder(world, tp).names
    files = [(name, names[name]) for name in sorted(names) if name.endswith(suffixes)]
    path = DATA_DIR / folder_of(tp)
    return [
        (tp, path / name, len(file.cached)) for name, file in files if isinstance(file, Inode) and file.cached
    ]


def _folder(world: Simulation, tp: TopicPartition) -> Folder:
    folder = find(world.disk.root, DATA_DIR / folder_of(tp))
    assert isinstance(folder, Folder)
    return folder


def _partitions(world: Simulation) -> dict[TopicPartition, Partition]:
    storage = world.server.storage
    assert storage is not None
    found = {tp: storage.partition(tp.topic, tp.partition) for tp in world.server.tps}
    missing = [str(tp) for tp, partition in found.items() if partition is None]
    _tell(world, f"{missing} are gone" if missing else None)
    return {tp: partition for tp, partition in found.items() if partition is not None}


def _what_is_found(partition: Partition) -> tuple[list[LoggedBatch], list[_ByTime]]:
    batches = whole_log(partition)
    return batches, [_found_by_time(partition, batch) for batch in batches]


def _found_by_time(partition: Partition, batch: LoggedBatch) -> _ByTime:
    found = partition.offset_for_timestamp(batch.header.max_timestamp)
    return None if found is None else (found.offset, found.timestamp_ms)


def _what_is_wrong(partition: Partition, batches: list[LoggedBatch], since: list[_ByTime]) -> str | None:
    if not partition.is_online:
        return f"{partition.name} is not served: {partition.recovery}"
    # Backwards, for a partition knows where a read has ended and where the next one will go on.
    for batch, by_time in reversed(list(zip(batches, since, strict=True))):
        if batch.header.last_offset < partition.log_start_offset:
            return None  # a trim that was told to have failed may show at the next start
        first = max(batch.header.base_offset, partition.log_start_offset)  # the log may begin amid a batch
        try:
            found = [_found_at(partition, offset) for offset in (batch.header.last_offset, first)]
            found_by_time = _found_by_time(partition, batch)
        except OSError as error:
            return f"{partition.name}: {batch} is not found: {error}"
        if found != [batch, batch]:
            return f"{partition.name}: {batch} was asked for, {found} found"
        is_there = by_time is None or by_time[0] >= partition.log_start_offset
        if is_there and found_by_time != by_time:
            return f"{partition.name}: the time of {batch} led to {by_time}, now {found_by_time}"
    return None


def _found_at(partition: Partition, offset: int) -> LoggedBatch | None:
    piece = partition.read(offset, READ_BYTES)
    return next(iter(logged_batches(piece.read())), None) if isinstance(piece, Slice) else None
