"""An end of a history: the server stops in good order, and its indexes rot before it starts again.

A stop in good order is what makes the next start believe the indexes. They have no checksum, and need none: an
entry is only a hint where to begin to look. So whatever has rotted, every partition opens, every batch is found by
each of its offsets, and every time leads to the record to which it led before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from semel.core.log.names import INDEX_SUFFIX, TIME_INDEX_SUFFIX, folder_of
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.sim.disk import Folder, find
from semel.sim.faults import Fault
from semel.sim.history import LoggedBatch, Violation
from semel.sim.inode import Inode
from semel.sim.server import DATA_DIR
from semel.sim.witness import logged_batches, whole_log
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.simulation import Simulation

STOPS_WITHIN_MS: Final = 60_000
READ_BYTES: Final = 300
_INVARIANT: Final = "index_only_shortens"

Found = dict[
    TopicPartition, tuple[list[LoggedBatch], list[object]]
]  # the batches, and where their times lead


def rot_indexes(world: Simulation, random: Random) -> None:
    """One bit of every index: few of its bits lead astray, and most of those far enough to be noticed."""
    world.workload.end()
    if not world.scheduler.run(lambda: world.server.is_idle, world.scheduler.now_ms + STOPS_WITHIN_MS):
        raise Violation("healed_world_finishes", "the server is never idle")
    before = {tp: _what_is_found(partition) for tp, partition in _partitions(world).items()}
    world.server.stop()
    for tp in world.server.tps:
        for path, size_bytes in _indexes(world, tp):
            if world.counts.occurs(Fault.INDEX_ROT):
                world.disk.rot(path, random.randrange(size_bytes), random.randrange(8))
                world.counts.bit(Fault.INDEX_ROT)
    world.wait_until_up()
    for tp, partition in _partitions(world).items():
        _check(partition, *before[tp])


def _partitions(world: Simulation) -> dict[TopicPartition, Partition]:
    storage = world.server.storage
    assert storage is not None
    found = {tp: storage.partition(tp.topic, tp.partition) for tp in world.server.tps}
    return {tp: partition for tp, partition in found.items() if partition is not None}


def _indexes(world: Simulation, tp: TopicPartition) -> Iterator[tuple[Path, int]]:
    """Those that hold something, and how much."""
    path = DATA_DIR / folder_of(tp)
    folder = find(world.disk.root, path)
    assert isinstance(folder, Folder)
    for name in sorted(folder.names):
        file = folder.names[name]
        if isinstance(file, Inode) and file.cached and name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
            yield path / name, len(file.cached)


def _what_is_found(partition: Partition) -> tuple[list[LoggedBatch], list[object]]:
    batches = whole_log(partition)
    return batches, [_found_by_time(partition, batch) for batch in batches]


def _found_by_time(partition: Partition, batch: LoggedBatch) -> object:
    found = partition.offset_for_timestamp(batch.header.max_timestamp)
    return found and found[:2]


def _check(partition: Partition, batches: list[LoggedBatch], since: list[object]) -> None:
    if not partition.is_online:
        raise Violation(_INVARIANT, f"{partition.name} is not served: {partition.recovery}")
    # Backwards, for a partition knows where a read has ended and where the next one will go on.
    for batch, by_time in reversed(list(zip(batches, since, strict=True))):
        try:
            found = [
                _found_at(partition, offset)
                for offset in (batch.header.last_offset, batch.header.base_offset)
            ]
            found_by_time = _found_by_time(partition, batch)
        except OSError as error:
            raise Violation(_INVARIANT, f"{partition.name}: {batch} is not found: {error}") from error
        if found != [batch, batch]:
            raise Violation(_INVARIANT, f"{partition.name}: {batch} was asked for, {found} found")
        if found_by_time != by_time:
            raise Violation(
                _INVARIANT, f"{partition.name}: the time of {batch} led to {by_time}, now {found_by_time}"
            )


def _found_at(partition: Partition, offset: int) -> LoggedBatch | None:
    piece = partition.read(offset, READ_BYTES)
    return next(iter(logged_batches(piece.read())), None) if isinstance(piece, Slice) else None
