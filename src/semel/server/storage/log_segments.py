"""The segments of one log (Kafka's ``LogSegments``): which one holds an offset, whose files may rest, whose go.

``all`` is one value, replaced as a whole: another thread that has read it has the segments of one moment. What was
cut off the front is out of readers' reach at once; its files follow, on whatever thread has the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from semel.core.log.policy import SegmentFacts
from semel.core.log.transactions import AbortedTxn
from semel.server.storage.filesystem import FileSystem
from semel.server.storage.segment import Segment, remove_segment_files


class LogSegments:
    """Oldest first; the last one grows. Empty when the log could not be opened, or was let go."""

    __slots__ = ("_bases", "_cold", "_going", "all", "has_aborted")

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._cold = max(0, len(segments) - 1)  # so many of the oldest; their files come and go
        self.has_aborted = any(segment.aborted.count for segment in segments)  # or had, since the start
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

    def note_aborted(self, entry: AbortedTxn) -> None:
        """The last segment has got the marker of an aborted transaction."""
        self.has_aborted = True
        self.all[-1].aborted.append(entry)

    def aborted_in(self, from_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions of which something lies within these offsets, by the offsets of their markers.

        Kafka's ``UnifiedLog.collectAbortedTransactions``: of each segment from the one that holds ``from_offset``
        on, to the first that tells that no later one has any.
        """
        found: list[AbortedTxn] = []
        if not self.has_aborted:
            return found
        for segment in self.all[max(0, bisect_right(self._bases, from_offset) - 1) :]:
            if segment.aborted.count:
                some, is_complete = segment.aborted.overlapping(from_offset, end_offset)
                found += some
                if is_complete:
                    break
        return found

    def cool_down(self, synced_offset: int) -> None:
        """Let go of the files of full segments, as far as they are synced. Never waits for that."""
        full = self.all[:-1]
        while self._cold < len(full) and full[self._cold].end_offset <= synced_offset:
            full[self._cold].cool()
            self._cold += 1

    def replace(self, group: Sequence[Segment], fresh: Segment) -> None:
        """``fresh`` has what is left of some full ones; no reader finds those any more."""
        first = self.all.index(group[0])
        end = first + len(group)
        assert self.all[first:end] == tuple(group), "segments that do not follow each other"
        assert end <= self._cold, "segments whose files may be written"
        self.all = (*self.all[:first], fresh, *self.all[end:])
        self._bases[first:end] = [fresh.base_offset]
        self._cold -= len(group) - 1

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
