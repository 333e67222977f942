"""The leader epoch of all partitions of a server: the file ``leader-epoch`` of the data folder.

Each start is another leader, as in Apache Kafka, whatever is believed to be lost: a power cut may take a log's end at
the end of a batch, and a folder may be put back from an older copy. Who has read what is gone finds an epoch that
ended in front of it (KIP-320). One number for all partitions, for a start must not write a file for each.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from semel.core.log.leader_epochs import next_leader_epoch, unsaved_leader_epoch
from semel.core.log.names import LEADER_EPOCH
from semel.server.storage.filesystem import FileSystem, read_file, replace_file

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def begin_leader_epoch(file_system: FileSystem, data_dir: Path, now_ms: int, random: int) -> int:
    """That of the server that starts now, durable when it returns: above all that it had.

    With no room for it the epoch is not saved; the next start's is above it all the same.
    """
    path = data_dir / LEADER_EPOCH
    content = (read_file(file_system, path) or b"").strip()
    before = int(content) if content.isdigit() else 0
    drawn = next_leader_epoch(before, now_ms, random)
    try:
        replace_file(file_system, path, b"%d\n" % drawn)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        return unsaved_leader_epoch(before)
    return drawn
