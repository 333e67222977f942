"""The machines on which tasks run, as far as a task can tell: each has a folder with copies of large state.

The folders are real ones, because LMDB's files are; nothing of a history depends on where they lie. A machine may come
back without its folder, or with one of long ago.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

MACHINES: Final = 2


class Machines:
    """Of one history."""

    def __init__(self) -> None:
        self._root: Path | None = None

    def folder(self, machine: int) -> Path:
        """Where a task on this machine keeps its state."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="semel-sim-"))
        return self._root / f"machine{machine}"

    def without_paths(self, text: str) -> str:
        """As it is told in a trace, which is the same everywhere."""
        return text if self._root is None else text.replace(str(self._root), "")

    def lose(self, machine: int) -> bool:
        """Delete its folder; who has it open goes on with what is deleted. ``False``: there was none."""
        if self._root is None or not self.folder(machine).exists():
            return False
        shutil.rmtree(self.folder(machine))
        return True

    def copy_away(self, machine: int) -> None:
        """Keep a copy of its folder as it is now."""
        if self._root is not None and self.folder(machine).exists():
            kept = self._copy_of(machine)
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.folder(machine), kept)

    def has_copy(self, machine: int) -> bool:
        """Whether a copy of its folder was kept."""
        return self._root is not None and self._copy_of(machine).exists()

    def put_back(self, machine: int) -> bool:
        """Give it the folder of which a copy was kept; ``False``: there is none."""
        if not self.has_copy(machine):
            return False
        shutil.rmtree(self.folder(machine), ignore_errors=True)
        shutil.copytree(self._copy_of(machine), self.folder(machine))
        return True

    def close(self) -> None:
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def _copy_of(self, machine: int) -> Path:
        return self.folder(machine).with_name(f"copy{machine}")
