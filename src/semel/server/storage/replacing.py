"""One segment takes the place of several, whole or not at all (Kafka's ``UnifiedLog.replaceSegments``).

1. The new one is written under its name and ``.cleaned``, and synced: until now it is nothing.
2. Its log becomes ``.swap``, and that name is durable: from now on it counts, and the others do not.
3. They are removed, the indexes get their names, and last the log gets its own.

Invariants:
- Whatever stops this, the next start finds the old segments or the new one: :func:`finish_replacing` goes on with 3
  where there is a ``.swap``, which stands for all offsets that it holds, and removes each ``.cleaned``.
- From 2 on readers have the new segment only, by its open file; it has no name to be opened by until 3 has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from semel.core.log.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    offset_of,
)
from semel.server.storage.filesystem import File, FileSystem
from semel.server.storage.segment import Segment, remove_segment_files, walk_file

_SWAP_LOG: Final = LOG_SUFFIX + SWAP_SUFFIX


def let_it_count(file_system: FileSystem, folder: Path, fresh: Segment) -> None:
    """Step 2 for a draft that is synced; durable when it returns. ``OSError``: perhaps it counts."""
    name = file_name(fresh.base_offset, LOG_SUFFIX)
    file_system.rename(folder / (name + CLEANED_SUFFIX), folder / (name + SWAP_SUFFIX))
    file_system.fsync_dir(folder)


def put_in_place(file_system: FileSystem, folder: Path, fresh: Segment, group: Sequence[Segment]) -> None:
    """Step 3. ``OSError``: the next start does the rest, and nobody may open the segment by its name before."""
    for segment in group[1:]:
        remove_segment_files(file_system, folder, segment.base_offset)
    aborted = folder / file_name(fresh.base_offset, TXN_INDEX_SUFFIX)
    if file_system.exists(aborted):  # of rows that are gone: a compacted segment has none
        file_system.unlink(aborted)
    for held, suffix in (
        (fresh.index.held, INDEX_SUFFIX),
        (fresh.time_index.held, TIME_INDEX_SUFFIX),
        (fresh.held, LOG_SUFFIX),
    ):
        path = folder / file_name(fresh.base_offset, suffix)
        draft = SWAP_SUFFIX if suffix == LOG_SUFFIX else CLEANED_SUFFIX
        file_system.rename(path.with_name(path.name + draft), path)
        held.path = path
    file_system.fsync_dir(folder)
    for segment in group:
        segment.close()


def remove_drafts(file_system: FileSystem, folder: Path) -> None:
    """What step 1 has left."""
    for name in file_system.listdir(folder):
        if name.endswith(CLEANED_SUFFIX):
            file_system.unlink(folder / name)


def finish_replacing(file_system: FileSystem, folder: Path) -> None:
    """At a start, before anything else is made of the folder. The indexes of the new segment are built anew."""
    names = file_system.listdir(folder)
    remove_drafts(file_system, folder)
    bases = [base for name in names if (base := offset_of(name, LOG_SUFFIX)) is not None]
    for name in names:
        base_offset = offset_of(name, _SWAP_LOG)
        if base_offset is None:
            continue
        end_offset = _end_of(file_system.open(folder / name), base_offset, name)
        for base in bases:
            if base_offset < base < end_offset:
                remove_segment_files(file_system, folder, base)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            index = folder / file_name(base_offset, suffix)
            if file_system.exists(index):
                file_system.unlink(index)
        file_system.rename(folder / name, folder / file_name(base_offset, LOG_SUFFIX))
        file_system.fsync_dir(folder)


def _end_of(file: File, base_offset: int, name: str) -> int:
    """Behind the last offset that it holds; :class:`DamagedLog` if it is not whole any more."""
    end_offset = base_offset
    for place in walk_file(file, name, base_offset, 0, file.size()):
        end_offset = place.last_offset + 1
    return end_offset
