"""Under which boot of its machine a server had the data folder last: the file ``last-boot``.

A server that is killed leaves all that it has written, synced or not, for the page cache is the machine's. A power cut,
or a folder that comes from another machine, may have taken what was not synced, and shows in another boot. So may a
sync that failed: then the file goes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from semel.core.log.names import LAST_BOOT
from semel.server.storage.filesystem import FileSystem, read_file, replace_file


class LastBoot:
    """The file."""

    def __init__(self, file_system: FileSystem, data_dir: Path) -> None:
        self._file_system = file_system
        self._path = data_dir / LAST_BOOT
        self._now = file_system.boot_id().encode()
        self._last = read_file(file_system, self._path)

    @property
    def is_this(self) -> bool:
        """Whether it was this one, and no sync has failed since; False where nobody knows."""
        return self._last == self._now

    def note(self) -> None:
        """It is this one from now on. Durable when it returns; ``OSError``: perhaps not."""
        if not self.is_this:
            replace_file(self._file_system, self._path, self._now)
            self._last = self._now

    def forget(self) -> None:
        """A sync has failed: the pages look clean, and may be gone. In any thread.

        It need not be durable: behind a power cut the boot is another one in any case.
        """
        self._last = None
        with suppress(OSError):
            self._file_system.unlink(self._path)
