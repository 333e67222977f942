"""Buffers for large frames, used again and again.

Fresh memory costs more than the copy into it: the kernel has to find, clear and map every page.

Invariants: a buffer is lent to one frame at a time, and nothing refers to a frame once it is handled (see
:mod:`semel.server.outcome`); what lies idle here never exceeds ``idle_bytes_max``.
"""

from __future__ import annotations

from typing import Final

STEP_BYTES: Final = 64 * 1024  # sizes are rounded up to this; smaller frames are not worth the trouble


class FramePool:
    """Idle buffers by size, the size that was asked for last at the end."""

    def __init__(self, idle_bytes_max: int) -> None:
        self._idle_bytes_max = idle_bytes_max
        self._idle: dict[int, list[bytearray]] = {}
        self.idle_bytes = 0

    def take(self, size_bytes: int) -> memoryview:
        """Room for exactly ``size_bytes``; what is in it means nothing."""
        if size_bytes < STEP_BYTES:
            return memoryview(bytearray(size_bytes))
        rounded = -(-size_bytes // STEP_BYTES) * STEP_BYTES
        idle = self._idle[rounded] = self._idle.pop(rounded, [])
        if not idle:
            return memoryview(bytearray(rounded))[:size_bytes]
        self.idle_bytes -= rounded
        return memoryview(idle.pop())[:size_bytes]

    def give_back(self, frame: memoryview) -> None:
        """The frame is handled: its buffer may serve the next."""
        buffer = frame.obj
        assert isinstance(buffer, bytearray), "a frame that was not taken here"
        size_bytes = len(buffer)
        if not STEP_BYTES <= size_bytes <= self._idle_bytes_max:
            return
        while self.idle_bytes + size_bytes > self._idle_bytes_max:
            self._drop_one()
        self._idle.setdefault(size_bytes, []).append(buffer)
        self.idle_bytes += size_bytes

    def _drop_one(self) -> None:
        """Let go of a buffer of the size that has not been asked for the longest."""
        oldest = next(iter(self._idle))
        if self._idle[oldest]:
            self._idle[oldest].pop()
            self.idle_bytes -= oldest
        else:
            del self._idle[oldest]
