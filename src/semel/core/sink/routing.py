"""Where a sink's rows go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Routing:
    """What decides where a row goes, beside what is in the row. It binds as long as rows are undecided."""

    topic: str | None  # the option's; None: each row names its own
    columns: tuple[str, ...] = ()  # ``key`` and ``partition``, if the frame has them
    partitioner: str = ""

    def __str__(self) -> str:
        topic = "each row's own topic" if self.topic is None else f"topic {self.topic!r}"
        _, _, letters = self.partitioner.partition("; ")
        placed_by = " and ".join(self.columns) or "row number"
        return f"{topic} by {placed_by}" + (f", {letters}" if letters else "")
