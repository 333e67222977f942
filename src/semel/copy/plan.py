"""What a job of ``semel copy`` is: checked before anything is asked of a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from semel.errors import ConfigError
from semel.record.where import compile_where
from semel.spark.options import Connection
from semel.types import OWN_TOPICS

JOURNAL_PREFIX: Final = f"{OWN_TOPICS}copy."
LINGER_MS_DEFAULT: Final = 100
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How a copy keeps its journal short and its identity known; the defaults are right for every log."""

    begun_every: int = 1_000  # records of the journal
    kept_ms: int = 24 * 3_600_000  # of the journal: what offsets are translated by
    run_ms_max: int = 3_600_000  # far below a day, after which a log forgets who has written nothing


UPKEEP: Final = Upkeep()


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """One job. Its ``name`` is its identity at the destination: whoever starts it again goes on where it was.

    ``topics`` are names, and ``pattern`` a regular expression that has to match whole names; topics of it that come
    later are followed. Internal topics come only by name. The output of ``t`` is ``prefix + t``.

    ``start``: where partitions begin that are there when the job is new, ``earliest`` or ``latest``; those that come
    later are copied whole. ``appends``: rows that others have written to an output do not stop a new job.
    ``where``: only rows that this SQL condition holds for (:mod:`semel.record.where`), from where a run goes on.
    ``cleans``: rows of a doubling writer come once, by their lineage headers (:mod:`semel.core.copy.clean`).
    ``groups``: their positions are committed at the destination, too.
    ``dead_letter_topic``: batches that cannot be read are not copied; a topic of the destination keeps them.
    ``goes_on_after_loss``: rows that the source lost before they were copied are told and passed over.
    """

    name: str
    source: Connection
    destination: Connection
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    prefix: str = ""
    start: str = "earliest"
    appends: bool = False
    goes_on_after_loss: bool = False
    bytes_per_s: int | None = None
    linger_ms: int = LINGER_MS_DEFAULT
    groups: tuple[str, ...] = ()
    where: str | None = None
    cleans: bool = False
    dead_letter_topic: str | None = None
    upkeep: Upkeep = UPKEEP

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} cannot name a job: letters, digits, '.', '_' and '-', at most 200. Nothing was copied"
            )
        if bool(self.topics) == (self.pattern is not None):
            raise ConfigError(
                "name the topics to copy, or give a --pattern for them: one of both. Nothing was copied"
            )
        if self.start not in ("earliest", "latest"):
            raise ConfigError(
                f"a job starts at earliest or at latest, not at {self.start!r}. Nothing was copied"
            )
        if self.bytes_per_s is not None and self.bytes_per_s <= 0:
            raise ConfigError("a rate is above 0 bytes a second. Nothing was copied")
        if self.dead_letter_topic in (*self.topics, *map(self.output_of, self.topics)):
            raise ConfigError(
                f"--dead-letter {self.dead_letter_topic}: a topic of its own is wanted, none that is copied. Nothing "
                "was copied"
            )
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ConfigError(f"--pattern {self.pattern!r}: {error}. Nothing was copied") from None

        if self.where is not None and self.cleans:
            raise ConfigError(
                "--clean and --where do not go together: choose of what it wrote with another job. Nothing was copied"
            )
        if self.where is not None:
            try:
                compile_where(self.where)
            except ConfigError as error:
                raise ConfigError(f"{error}. Nothing was copied") from None

    @property
    def journal(self) -> str:
        """The topic of the job's journal, at the destination."""
        return JOURNAL_PREFIX + self.name

    @property
    def identity(self) -> str:
        """The name under which the destination's rows are written."""
        return f"semel.copy.{self.name}"

    def output_of(self, topic: str) -> str:
        """Where the rows of ``topic`` go, each to the partition of its own number."""
        return self.prefix + topic

    def is_wanted(self, topic: str, *, is_internal: bool) -> bool:
        """Whether the job copies a topic of this name."""
        if self.pattern is None:
            return topic in self.topics
        is_hidden = is_internal or topic.startswith("__")
        return not is_hidden and re.fullmatch(self.pattern, topic) is not None
