"""What was asked for, and what was measured on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from semel.demo.timeline import Timeline
from semel.wording import INSTALL_LAND

FLIGHTS_IN_ALL: Final = 336_776
INPUT_TOPIC: Final = "flights"
OUTPUT_TOPIC: Final = "flights-enriched"
SECOND_PREFIX: Final = "second."  # of the copy
PARTITION_COUNT: Final = 4
NOT_LANDED: Final = f"the landing is left out: it wants {INSTALL_LAND}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """What was asked for."""

    report_path: Path
    row_count_max: int | None = None
    folder: Path | None = None  # None: a scratch folder that goes when all is well
    with_spark: bool = True

    @property
    def row_count(self) -> int:
        return min(self.row_count_max or FLIGHTS_IN_ALL, FLIGHTS_IN_ALL)


@dataclass(slots=True)
class Story:
    """What was measured; the summary and the report tell nothing else."""

    row_count: int
    timeline: Timeline
    last_topic: str = OUTPUT_TOPIC  # of the first log: what is copied
    stored_at_producer_kill: int = 0
    dropped_by_resume: int = 0
    duplicate_batches: int = 0
    undecided_at_driver_kill: int = 0
    undecided_at_server_kill: int = 0
    found_stored_by_sink: int = 0
    drivers: int = 0
    copies: int = 0
    landings: int = 0
    has_landed: bool = False  # the library for Delta tables may be missing
    missed: list[str] = field(default_factory=list)  # kills that did not come in time, and the demo went on
    load_s: float = 0.0
    stream_s: float = 0.0
    copy_s: float = 0.0
    land_s: float = 0.0
    prove_s: float = 0.0
    total_s: float = 0.0
    partitions: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def second_topic(self) -> str:
        """The copy, in the second log."""
        return SECOND_PREFIX + self.last_topic

    @property
    def rows_turned_away(self) -> int:
        """Rows that came again to the producer or to the sink, which found them stored."""
        return self.dropped_by_resume + self.found_stored_by_sink
