"""The topics that are copied, the jobs that copy them, and all that was done to both. What the checkers know of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from semel.copy import CopyPlan
from semel.copy.plan import UPKEEP, Upkeep
from semel.spark.options import Connection

if TYPE_CHECKING:
    from semel.sim.copies.life import CopyLife

SOURCE, DESTINATION = "source", "destination"
ADDRESSES: Final = {SOURCE: "source:9092", DESTINATION: "destination:9092"}
REQUEST_TIMEOUT_MS: Final = 15_000


@dataclass(slots=True, eq=False)
class CopyJob:
    """One job. Where it stops for good, another one copies what the source still has, to outputs of its own."""

    name: str
    topics: tuple[str, ...]
    prefix: str
    linger_ms: int
    upkeep: Upkeep = UPKEEP
    goes_on_after_loss: bool = False
    lives: list[CopyLife] = field(default_factory=list)
    is_finished: bool = False  # all rows of the source are copied, and none comes any more
    has_stopped: bool = False  # for good
    output_was_changed: bool = False  # trimmed, made anew, or put back from an older copy

    @property
    def plan(self) -> CopyPlan:
        """As it is started now."""
        return CopyPlan(
            self.name,
            source=_connection(SOURCE),
            destination=_connection(DESTINATION),
            topics=self.topics,
            prefix=self.prefix,
            linger_ms=self.linger_ms,
            upkeep=self.upkeep,
            goes_on_after_loss=self.goes_on_after_loss,
        )

    @property
    def life_to_the_end(self) -> CopyLife | None:
        """The newest copy that goes to the end of the source, wherever that is when it begins."""
        return next((life for life in reversed(self.lives) if life.until_end), None)

    @property
    def journal(self) -> str:
        return self.plan.journal

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.plan.output_of(topic) for topic in self.topics)


@dataclass(slots=True)
class CopyStory:
    """Of one history. ``topics`` are the source's, each with its partitions, and its settings."""

    topics: dict[str, int]
    settings: dict[str, str]
    destination_is_first: bool  # the server that all histories have
    row_gap_ms: int
    rows_max: int
    linger_ms: int
    now_ms: Callable[[], int]
    upkeep: Upkeep = UPKEEP
    jobs: list[CopyJob] = field(default_factory=list)  # one after the other
    is_made: bool = False  # the topics are there
    source_was_trimmed: bool = False  # behind what the job of then had copied
    source_was_changed: bool = False  # trimmed in front of what was copied, or made anew
    is_closed: bool = False  # no row comes any more

    def __post_init__(self) -> None:
        self.begin_job()

    def begin_job(self) -> CopyJob:
        """Another one, behind those that stopped."""
        number = len(self.jobs)
        job = CopyJob(f"c{number}", tuple(self.topics), f"c{number}.", self.linger_ms, self.upkeep)
        self.jobs.append(job)
        return job

    @property
    def job(self) -> CopyJob:
        """The one that is to copy now."""
        return self.jobs[-1]

    def topics_at(self, role: str) -> Sequence[str]:
        """All that are a matter of copies, whether they are there or not."""
        if role == SOURCE:
            return list(self.topics)
        return [topic for job in self.jobs for topic in (job.journal, *job.outputs)]


def _connection(role: str) -> Connection:
    return Connection(ADDRESSES[role], request_timeout_ms=REQUEST_TIMEOUT_MS)
