"""How a landing job gets on: for a line a second on stderr, and for Prometheus."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TextIO

from semel.wording import counted

RATE_S: Final = 10.0
LINE_S: Final = 1.0  # on a terminal
LOGGED_LINE_S: Final = 10.0  # elsewhere: a log stays readable


@dataclass(slots=True)
class Progress:
    """Since this copy was started. Rows are counted once they are committed."""

    rows: int = 0
    bad_rows: int = 0  # read so far; they are among the rows once they are committed
    files: int = 0
    files_compacted: int = 0
    compactions_failed: int = 0
    why_not_compacted: str | None = None  # the last of those
    commits: int = 0
    last_commit_ms: int | None = None  # by the wall
    lag: int = 0  # offsets that are not read, of those that the log had at the last look

    def committed(self, rows: int, files: int, now_ms: int) -> None:
        """A commit is in the table."""
        self.rows += rows
        self.files += files
        self.commits += 1
        self.last_commit_ms = now_ms


@dataclass(slots=True)
class Lines:
    """A line now and then, when something has changed."""

    table: str
    out: TextIO = field(default_factory=lambda: sys.stderr)
    now_s: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _counted: deque[tuple[float, int]] = field(default_factory=deque)
    _told: tuple[int, int, int] = (0, 0, 0)
    _next_s: float = 0.0

    def show(self, progress: Progress) -> None:
        """The newest state."""
        now_s = self.now_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (LINE_S if self.out.isatty() else LOGGED_LINE_S)
        self.tell(progress)

    def tell(self, progress: Progress) -> None:
        """At once, if there is news."""
        news = progress.rows, progress.commits, progress.lag
        if news != self._told:
            self.out.write(f"{self.line(progress)}\n")
            self.out.flush()
            self._told = news

    def line(self, progress: Progress) -> str:
        """Rate, lag and last commit."""
        ago = (
            "none yet"
            if progress.last_commit_ms is None
            else f"{max(0, self.now_ms() - progress.last_commit_ms) / 1000:.1f} s ago"
        )
        bad = f", {progress.bad_rows:,} of them with _error" if progress.bad_rows else ""
        return (
            f"{self.table}: {self._rate(progress.rows):,.0f} rows/s, lag {progress.lag:,}, {progress.rows:,} rows{bad} "
            f"in {counted(progress.commits, 'commit')}, last commit {ago}"
        )

    def _rate(self, rows: int) -> float:
        now_s = self.now_s()
        self._counted.append((now_s, rows))
        while len(self._counted) > 2 and now_s - self._counted[1][0] >= RATE_S:
            self._counted.popleft()
        begun_s, before = self._counted[0]
        return (rows - before) / (now_s - begun_s) if now_s > begun_s else 0.0
