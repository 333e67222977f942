"""When what was written is committed: by rows, bytes or time, whichever comes first."""

from __future__ import annotations

from dataclasses import dataclass

from semel.errors import ConfigError


@dataclass(frozen=True, slots=True)
class CommitBounds:
    """A commit is due once one is reached. Looked at behind each fetch, so it may be a fetch more."""

    rows: int = 5_000_000
    size_bytes: int = 256 * 2**20  # of the files, as written
    every_ms: int = 60_000

    def __post_init__(self) -> None:
        if min(self.rows, self.size_bytes, self.every_ms) < 1:
            raise ConfigError("commits need bounds of at least one row, one byte and one millisecond")

    def is_due(self, rows: int, size_bytes: int, age_ms: int) -> bool:
        """Whether to commit; ``age_ms`` is since the last one."""
        return rows >= self.rows or size_bytes >= self.size_bytes or age_ms >= self.every_ms
