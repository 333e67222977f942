"""What comes after a history has healed and finished: damage that voids a promise, on purpose.

No client goes on behind it, so what may be lost is lost without consequence, and what must hold is easy to say.

- **A power cut where the page cache was trusted.** Acknowledged records may be gone; what is left of every
  partition is the beginning of what was there, and it opens again. Who had read what is gone is told, also once
  other rows stand there.
- **Bit rot in what was synced.** No reader ever takes a record that differs from what was read before, and no
  start of the server makes a log shorter to get rid of the damage: it is served with the batch's own CRC, which
  every reader checks, or its partition is refused.
- **Bit rot beside the logs**, in what a start reads besides (:mod:`semel.sim.server.rot_beside`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from semel.core.log.leader_epochs import parted
from semel.core.log.names import LOG_SUFFIX, file_name, folder_of
from semel.core.log.watermarks import FetchIsolation
from semel.record.batch import HEADER_BYTES
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.sim.checkers.watchers import RecoveryWatcher
from semel.sim.server.machine import DATA_DIR
from semel.sim.server.rot_beside import rot_beside_the_logs
from semel.sim.world.faults import Fault

if TYPE_CHECKING:
    from semel.sim.campaign.simulation import Simulation

ROT_CHANCE: Final = 0.4
READ_MS: Final = 6_000
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16


def live_coda(world: Simulation) -> None:
    """Draw one."""
    world.server.forgo_end_in_step()
    if not world.server.is_durable:
        _cut_power_with_page_cache(world)
    elif world.random.random() < ROT_CHANCE:
        _rot(world)
    else:
        rot_beside_the_logs(world, world.stream("rot beside"))


def _cut_power_with_page_cache(world: Simulation) -> None:
    storage = world.server.storage
    assert storage is not None
    before = world.witness.show_logs(storage)
    read_to = {
        partition.name: (partition.leader_epoch_at(partition.log_end_offset - 1), partition.log_end_offset)
        for partition in storage
        if partition.log_start_offset < partition.log_end_offset
    }
    world.workload.end()
    world.history.promises_end = True
    world.server.power_cut()
    world.wait_until_up()
    assert world.server.storage is not None
    for tp, was in before.items():
        partition = world.server.storage.partition(tp.topic, tp.partition)
        assert partition is not None
        found = world.witness.found_in(partition)
        world.watchers.of(RecoveryWatcher).left_by_power_cut(tp, was, found)
        if len(found) < len(was):
            world.counts.verdict("page cache: records lost at a power cut")
        if tp in read_to:
            leader_epoch, end = read_to[tp]
            grown = max(end, partition.log_end_offset) + 1
            parts = parted(partition.epochs, leader_epoch, end, grown)
            told = None if parts is None else max(0, end - parts.start_offset)
            lost = max(0, end - max(partition.log_end_offset, partition.log_start_offset))
            world.watchers.of(RecoveryWatcher).read_before_power_cut(tp, lost, told)


def _rot(world: Simulation) -> None:
    """One bit, anywhere in a batch but in the eight bytes of its offset, which no CRC covers."""
    storage = world.server.storage
    assert storage is not None
    random = world.random
    partitions = [storage.partition(tp.topic, tp.partition) for tp in world.server.tps]
    chosen = random.choice(partitions)
    assert chosen is not None
    if chosen.log_start_offset == chosen.log_end_offset or not world.counts.occurs(Fault.BIT_ROT):
        return
    chosen.sync()
    tp, end_offset = chosen.name, chosen.log_end_offset
    offset = random.randrange(chosen.log_start_offset, end_offset)
    position, size_bytes, segment_base = _place_of(chosen, offset)
    byte = random.choice(
        (random.randrange(_LENGTH_AT, HEADER_BYTES), random.randrange(_MAGIC_AT, size_bytes))
    )
    path = DATA_DIR / folder_of(tp) / file_name(segment_base, LOG_SUFFIX)
    world.disk.rot(path, position + byte, random.randrange(8))
    world.counts.bit(Fault.BIT_ROT)
    world.history.is_rotten = True
    _read_all(world, "rotten")
    world.server.kill()
    world.wait_until_up()
    assert world.server.storage is not None
    partition = world.server.storage.partition(tp.topic, tp.partition)
    assert partition is not None
    found_end = partition.log_end_offset if partition.is_online else None
    world.watchers.of(RecoveryWatcher).opened_damaged(tp, end_offset, found_end)
    world.counts.verdict(f"rot: partition {'online' if partition.is_online else 'refused'} after a restart")
    _read_all(world, "rereader")


def _place_of(partition: Partition, offset: int) -> tuple[int, int, int]:
    """Position and size of the batch that holds ``offset``, and the base offset of its segment."""
    piece = partition.read(offset, 1, FetchIsolation.LOG_END)
    assert isinstance(piece, Slice)
    bases = [base for base in partition.segment_base_offsets if base <= offset]
    return piece.position, piece.length, bases[-1]


def _read_all(world: Simulation, name: str) -> None:
    """The checkers watch whatever these readers take."""
    readers = world.workload.read_anew(name)
    world.scheduler.run(lambda: False, world.scheduler.now_ms + READ_MS)
    for reader in readers:
        if reader.corrupt_batches:
            world.counts.verdict("rot: found by a reader's CRC")
        elif reader.refusals:
            world.counts.verdict("rot: refused to a reader")
