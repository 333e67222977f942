"""The segments of one log (Kafka's ``LogSegments``): which one holds an offset, whose files may rest, whose go.

``all`` is one value, replaced as a whole: another thread that has read it has the segments of one moment. What was
cut off the front is out of readers' reach at once; its files follow, on whatever thread has the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from pathlib import Path

from semel.core.log.policy import SegmentFacts
from semel.server.storage.filesystem import FileSystem
from semel.server.storage.opening import remove_segment_files
from semel.server.storage.segment import Segment


class LogSegments:
    """Oldest first; the last one grows. Empty when the log could not be opened, or was let go."""

    __slots__ = ("_bases", "_cold", "_going", "all")

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._cold = max(0, len(segments) - 1)  # so many of the oldest; their files come and go
        self._going: deque[Segment] = deque()  # out of the log, but their files are still there

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(self._bases)

    @property
    def facts(self) -> list[SegmentFacts]:
        return [segment.facts for segment in self.all]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    @property
    def warm(self) -> int:
        """How many hold their files open."""
        return len(self.all) - self._cold

    @property
    def has_going(self) -> bool:
        """Whether there are files to be removed."""
        return bool(self._going)

    def holding(self, offset: int) -> Segment | None:
        """The segment that has ``offset``, or would get it next."""
        segments, n = self.all, bisect_right(self._bases, offset) - 1
        return segments[n] if segments and n >= 0 else None

    def add(self, fresh: Segment) -> None:
        """``fresh`` grows from now on."""
        self.all = (*self.all, fresh)
        self._bases.append(fresh.base_offset)

    def cool_down(self, synced_offset: int) -> None:
        """Let go of the files of full segments, as far as they are synced. Never waits for that."""
        full = self.all[:-1]
        while self._cold < len(full) and full[self._cold].end_offset <= synced_offset:
            full[self._cold].cool()
            self._cold += 1

    def cut_front(self, count: int) -> None:
        """No reader finds the oldest ``count`` any more."""
        self._going += self.all[:count]
        self._cold = max(0, self._cold - count)
        self.all = self.all[count:]
        self._bases = self._bases[count:]

    def remove_going(self, file_system: FileSystem, folder: Path) -> None:
        """Remove the files of what is not read any more. ``OSError``: what is left comes round again."""
        while self._going:
            remove_segment_files(file_system, folder, self._going[0].base_offset)
            self._going.popleft().close()

    def close(self) -> None:
        for segment in (*self._going, *self.all):
            segment.close()
        self._going.clear()
        self.all = ()
        self._bases = []
