"""``copy_stops_are_right``: a copy stops with a named error only where there is reason for it.

A lost connection passes. ``ProducerFenced`` needs a rival, and ``DataLoss`` rows that were trimmed before they were
copied, or a source that is another one by now. ``ReplayUnprovable`` needs an output that was trimmed, made anew or put
back. Nothing else is right: what a copy needs is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from semel.errors import (
    BrokerError,
    ConfigError,
    ConnectionLost,
    DataLoss,
    ProducerFenced,
    ReplayUnprovable,
    SemelError,
)
from semel.sim.checkers.base import Checker

if TYPE_CHECKING:
    from semel.sim.copies.life import CopyLife
    from semel.sim.copies.story import CopyStory


class CopyStopsAreRight(Checker):
    """By what was done to the job and its topics before."""

    name: ClassVar[str] = "copy_stops_are_right"

    def copy_stopped(self, story: CopyStory, life: CopyLife, error: SemelError) -> None:
        match error:
            case ProducerFenced():
                is_right = life.had_rival
            case DataLoss() if error.partition.topic in life.job.outputs:  # its end went while it was read
                is_right = life.job.output_was_changed
            case DataLoss():
                # What one job has copied may be trimmed before a later one has.
                was_trimmed = story.source_was_trimmed and life.job is not story.jobs[0]
                is_right = story.source_was_changed or was_trimmed
            case ReplayUnprovable():
                is_right = life.job.output_was_changed
            case ConfigError():
                is_missing = story.source_was_changed and "there is no topic" in str(error)
                # Of an output that is not as the copy made it; a copy's own takes any.
                is_right = is_missing or (life.job.output_was_changed and "rows' times" in str(error))
            case BrokerError():
                is_right = error.code.retriable or life.job.output_was_changed
            case _:
                is_right = isinstance(error, ConnectionLost)
        if not is_right:
            raise self.violated(f"{life.name} stopped without reason: {type(error).__name__}: {error}")
