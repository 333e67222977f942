"""The simulated disk forgets exactly what it may forget."""

from pathlib import Path
from random import Random

import pytest

from semel.sim.world.disk import Disk, Folder, Killed, Mount, PowerCut, find
from semel.sim.world.faults import NO_FAULTS, Counts, Fault, FaultMix
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace

LOG = Path("/data/log")


def make_disk(seed: int, mix: FaultMix = NO_FAULTS) -> Disk:
    return Disk(Random(seed), Trace(Scheduler()), Counts(), lambda: mix)


def durable_log(disk: Disk) -> Mount:
    mount = disk.mount()
    mount.mkdir(LOG.parent)
    mount.fsync_dir(Path("/"))
    file = mount.open(LOG, create=True)
    mount.fsync_dir(LOG.parent)
    file.pwritev([b"a" * 700], 0)
    file.fdatasync()
    return mount


@pytest.mark.parametrize("seed", range(40))
def test_what_was_synced_survives_and_the_rest_is_old_new_torn_or_zero(seed: int) -> None:
    disk = make_disk(seed)
    file = durable_log(disk).open(LOG)
    file.pwritev([b"b" * 1000], 700)
    disk.power_cut()
    content = disk.mount().open(LOG).pread(5000, 0)
    assert content[:700] == b"a" * 700
    assert 700 <= len(content) <= 1700
    assert set(content[700:]) <= set(b"b\0")


def test_every_outcome_occurs() -> None:
    counts = Counts()
    for seed in range(200):
        disk = Disk(Random(seed), Trace(Scheduler()), counts, lambda: NO_FAULTS)
        durable_log(disk).open(LOG).pwritev([b"b" * 2000], 700)
        disk.power_cut()
    for fault in (
        Fault.SECTORS_KEPT,
        Fault.SECTORS_LOST,
        Fault.SECTORS_TORN,
        Fault.SECTORS_ZEROED,
        Fault.TAIL_LOST,
    ):
        assert counts.faults[fault] > 0, fault


def test_a_truncation_is_durable_once_synced() -> None:
    outcomes = set()
    for seed in range(40):
        disk = make_disk(seed)
        file = durable_log(disk).open(LOG)
        file.truncate(100)
        if seed % 2:
            file.fdatasync()
        disk.power_cut()
        content = disk.mount().open(LOG).pread(5000, 0)
        assert content == b"a" * len(content)
        outcomes.add((seed % 2, len(content)))
    assert outcomes == {(0, 100), (0, 700), (1, 100)}


def test_a_failed_sync_leaves_clean_pages_that_the_next_power_cut_takes() -> None:
    disk = make_disk(3, FaultMix(sync_failed=1.0))
    file = durable_log_despite_failures(disk)
    file.pwritev([b"b" * 600], 0)
    with pytest.raises(OSError, match="input/output"):
        file.fdatasync()
    healed = Disk(Random(0), disk.trace, disk.counts, lambda: NO_FAULTS)
    healed.root = disk.root
    healed.mount().open(LOG).fdatasync()  # succeeds, and writes nothing
    assert file.pread(600, 0) == b"b" * 600
    healed.power_cut()
    assert b"b" * 600 not in healed.mount().open(LOG).pread(600, 0)


def durable_log_despite_failures(disk: Disk):  # type: ignore[no-untyped-def]
    mount = disk.mount()
    mount.mkdir(LOG.parent)
    mount.fsync_dir(Path("/"))
    file = mount.open(LOG, create=True)
    mount.fsync_dir(LOG.parent)
    return file


def test_names_are_durable_after_a_sync_of_their_folder() -> None:
    found = set()
    for seed in range(40):
        disk = make_disk(seed)
        mount = durable_log(disk)
        mount.open(LOG.with_name("draft"), create=True)
        mount.rename(LOG.with_name("draft"), LOG.with_name("new"))
        disk.power_cut()
        found.add(tuple(disk.mount().listdir(LOG.parent)))
    assert found == {("log",), ("draft", "log"), ("log", "new")}


def test_a_killed_process_loses_its_hands_but_no_bytes() -> None:
    disk = make_disk(0)
    mount = durable_log(disk)
    file = mount.open(LOG)
    file.pwritev([b"unsynced"], 700)
    mount.alive = False
    with pytest.raises(Killed):
        file.pread(1, 0)
    assert disk.mount().open(LOG).pread(8, 700) == b"unsynced"


def test_the_power_goes_inside_the_step_that_was_named() -> None:
    disk = make_disk(0)
    mount = durable_log(disk)
    file = mount.open(LOG)
    mount.end_inside_step(1)
    file.pwritev([b"x"], 700)
    with pytest.raises(PowerCut, match="fsync"):
        file.fdatasync()


def test_a_full_disk_takes_a_part_then_refuses_then_recovers() -> None:
    disk = make_disk(1, FaultMix(disk_full=1.0))
    file = durable_log_despite_failures(disk)
    assert file.pwritev([b"x" * 100], 0) < 100
    refused = 0
    with pytest.raises(OSError, match="no space"):
        file.pwritev([b"x"], 0)
    while disk.full_writes:
        refused += 1
        with pytest.raises(OSError, match="no space"):
            file.pwritev([b"x"], 0)
    assert disk.counts.faults[Fault.DISK_FULL] == refused + 1


def test_writes_during_a_sync_are_not_covered_by_it() -> None:
    lost = False
    for seed in range(40):
        disk = make_disk(seed)
        mount = durable_log(disk)
        file = mount.open(LOG)
        file.pwritev([b"b" * 100], 700)
        mount.meanwhile = lambda file=file: file.pwritev([b"c" * 100], 800)
        file.fdatasync()
        disk.power_cut()
        content = disk.mount().open(LOG).pread(5000, 0)
        assert content[:800] == b"a" * 700 + b"b" * 100
        lost |= b"c" not in content
    assert lost


@pytest.mark.parametrize("seed", range(10))
def test_a_folder_that_is_put_back_is_as_it_was_whatever_comes(seed: int) -> None:
    disk = make_disk(seed)
    mount = durable_log(disk)
    mount.open(LOG.parent / "later", create=True).pwritev([b"x"], 0)
    folder = find(disk.root, LOG.parent)
    assert isinstance(folder, Folder)
    folder.put_back({"log": b"old", "other": b""})
    disk.power_cut()
    mount = disk.mount()
    assert mount.listdir(LOG.parent) == ["log", "other"]
    assert mount.open(LOG).pread(100, 0) == b"old"
