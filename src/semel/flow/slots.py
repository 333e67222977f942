"""Folders of stores on a disk that zombies and pooled workers share: who holds which, and what may be deleted.

A store has a few slots, each a whole copy. Whoever uses one holds its lock alone, so that no two processes ever have
one database open. The lock is of the process (``fcntl``): it ends with it, also by kill -9, and a fork does not hand
it on. Its file is never deleted, or somebody could hold the lock of a file that is not there any more.

What belongs to an earlier boot of the machine, or is of another format, is deleted and never opened: without waiting
for the disk, a database is whole after any end of its process, and may be anything after an end of the machine.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SLOTS_MAX: Final = 4
_PREFIX: Final = "semel-state-"
_ROOT: Final = re.compile(rf"{_PREFIX}[0-9]+-([0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}|synced)")
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_HELD: Final[set[tuple[int, Path]]] = set()  # by process id: such a lock does not keep its own process out
_HELD_LOCK: Final = threading.Lock()


def boot_id() -> str | None:
    """Another one after each start of the machine; ``None`` where the system has none."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def default_folder() -> Path:
    """Where this user's stores are, unless somebody says otherwise."""
    return Path(tempfile.gettempdir()) / f"semel-state-{os.getuid()}"


def root_of(folder: Path, format_version: int, boot: str | None) -> Path:
    """Where the stores of this format and this boot are, made if need be; what is there of others is deleted."""
    root = folder / f"{_PREFIX}{format_version}-{boot or 'synced'}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for other in folder.glob(f"{_PREFIX}*"):
        if other == root or not _ROOT.fullmatch(other.name):
            continue
        if not any(is_held(lock) for lock in other.glob("*/*.lock")):
            shutil.rmtree(other, ignore_errors=True)
    return root


@dataclass(frozen=True, slots=True)
class Slot:
    """One copy of a store, held by this process alone until it is released."""

    folder: Path
    descriptor: int
    lock: Path

    @property
    def database(self) -> Path:
        """LMDB's file."""
        return self.folder / "data.mdb"

    def release(self) -> None:
        """Let others have it."""
        with _HELD_LOCK:
            os.close(self.descriptor)
            _HELD.discard((os.getpid(), self.lock))

    def clear(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)


def take_slots(store: Path) -> list[Slot]:
    """Every slot that nobody holds and that has a copy; without one, an empty one; none, when all are held."""
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    numbers = sorted(range(SLOTS_MAX), key=lambda number: not (store / str(number)).exists())
    taken: list[Slot] = []
    for number in numbers:
        folder = store / str(number)
        if taken and not folder.exists():
            break
        slot = _take(folder, store / f"{number}.lock")
        if slot is not None:
            taken.append(slot)
    return taken


def is_held(lock: Path) -> bool:
    """Whether somebody holds it."""
    slot = _take(lock.with_suffix(""), lock)
    if slot is None:
        return True
    slot.release()
    return False


def _take(folder: Path, lock: Path) -> Slot | None:
    held = (os.getpid(), lock)
    with _HELD_LOCK:
        if held in _HELD:
            return None
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            with suppress(OSError):
                os.close(descriptor)
            return None
        _HELD.add(held)
    return Slot(folder, descriptor, lock)
