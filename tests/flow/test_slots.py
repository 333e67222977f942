"""Who holds which copy of a store, and what may be deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semel.flow import slots
from semel.flow.slots import SLOTS_MAX, Slot, is_held, root_of, take_slots

BOOTS = ("b97aff44-5b12-4d7e-b509-6e4fb0230b2d", "0dcb2f11-8d6c-4a55-9a3c-2b1f0e9d8c7b")
HOLDER = """
import sys
from pathlib import Path
from semel.flow.slots import take_slots
(slot, *_) = take_slots(Path(sys.argv[1]))
print(slot.folder.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder() -> Iterator[Callable[[Path], tuple[subprocess.Popen[str], str]]]:
    """Another process that takes a slot, and which one."""
    started = []

    def start(store: Path) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def take_one(store: Path) -> Slot | None:
    taken = take_slots(store)
    for slot in taken:
        slot.folder.mkdir(exist_ok=True)
    assert len(taken) <= 1
    return taken[0] if taken else None


def test_a_slot_is_of_one_task(tmp_path: Path) -> None:
    held = [take_one(tmp_path) for _ in range(SLOTS_MAX)]
    assert [slot and slot.folder.name for slot in held] == ["0", "1", "2", "3"]
    assert take_one(tmp_path) is None
    assert held[2] is not None
    held[2].release()
    again = take_one(tmp_path)
    assert again is not None
    assert again.folder.name == "2"


def test_every_free_copy_is_offered(tmp_path: Path) -> None:
    for slot in [take_one(tmp_path) for _ in range(3)]:
        assert slot is not None
        slot.release()
    assert [slot.folder.name for slot in take_slots(tmp_path)] == ["0", "1", "2"]


@pytest.mark.slow
def test_another_process_keeps_it_until_its_end(tmp_path: Path, holder) -> None:
    process, name = holder(tmp_path)
    assert name == "0"
    slot = take_one(tmp_path)
    assert slot is not None
    assert slot.folder.name == "1"
    slot.release()
    process.kill()
    process.wait()
    assert take_slots(tmp_path)[0].folder.name == "1"  # the one that has a copy; nobody made one in 0


@pytest.mark.slow
def test_a_fork_does_not_hold_what_its_parent_holds(tmp_path: Path, holder) -> None:
    slot = take_one(tmp_path)
    assert slot is not None
    child = os.fork()
    if not child:
        code = 1
        try:
            slot.release()  # of no effect: it is not this process's
            other = take_one(tmp_path)
            code = 0 if other is not None and other.folder.name == "1" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert holder(tmp_path)[1] == "1"  # and the parent has it still
    slot.release()


def test_what_is_of_another_boot_or_format_is_deleted(tmp_path: Path) -> None:
    older = root_of(tmp_path, 0, BOOTS[1])
    before = root_of(tmp_path, 1, BOOTS[0])
    assert not older.exists()
    (before / "store" / "0").mkdir(parents=True)
    others = ["semel-state-1000", f"semel-state-1-{BOOTS[0]}.copy", "somebody's"]
    for name in others:
        (tmp_path / name / "store").mkdir(parents=True)
    now = root_of(tmp_path, 1, BOOTS[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([now.name, *others])
    assert root_of(tmp_path, 1, BOOTS[1]) == now


@pytest.mark.slow
def test_what_somebody_uses_is_not_deleted(tmp_path: Path, holder) -> None:
    other = root_of(tmp_path, 0, BOOTS[0])
    holder(other / "store")
    assert is_held(other / "store" / "0.lock")
    root_of(tmp_path, 1, BOOTS[0])
    assert other.exists()


def test_the_machine_tells_its_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if sys.platform == "linux":
        assert slots.boot_id()
    monkeypatch.setattr(slots, "_BOOT_ID", tmp_path / "none")
    assert slots.boot_id() is None
    assert root_of(tmp_path, 1, None).name.endswith("synced")
