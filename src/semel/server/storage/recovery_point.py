"""Up to which offset one partition was synced once: the file ``recovery-point``, an offset and its CRC-32C.

It is a lower bound. A stale or lost one costs the next start a longer scan and nothing else, so it is written
over in place, without a sync of its own but at a clean close, and an error in writing it is no error.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

import crc32c

from semel.core.log.names import RECOVERY_POINT
from semel.server.storage.filesystem import File, FileSystem, write_whole

_POINT: Final = struct.Struct(">qI")
_OFFSET_BYTES: Final = 8


class RecoveryPoint:
    """The file in one partition's folder; ``OSError`` when it cannot be opened."""

    __slots__ = ("_file",)

    def __init__(self, file_system: FileSystem, folder: Path) -> None:
        self._file: File = file_system.open(folder / RECOVERY_POINT, create=True)

    def load(self) -> int:
        """The offset; 0 when none was saved, or what is there is torn."""
        content = self._file.pread(_POINT.size, 0)
        if len(content) < _POINT.size:
            return 0
        offset, crc = _POINT.unpack(content)
        return int(offset) if crc32c.crc32c(content[:_OFFSET_BYTES]) == crc else 0

    def save(self, offset: int, *, durable: bool = False) -> None:
        """Put ``offset``, which has been synced, in place of the one before."""
        encoded = offset.to_bytes(_OFFSET_BYTES, "big")
        with suppress(OSError):
            write_whole(self._file, encoded + crc32c.crc32c(encoded).to_bytes(4, "big"), 0)
            if durable:
                self._file.fdatasync()
