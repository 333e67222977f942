"""``sink_stops_are_right``: a sink stops with a named error only where there is reason for it.

A lost connection passes. ``SinkFenced`` needs a rival. ``ReplayDiffers`` needs a checkpoint that was put back,
torn, begun anew or taken to other splits, a rival on such a one, or one that is another query. For
``NonDeterministicReplay`` there are two reasons: the query's rows differ, or it plans a micro-batch of its own
again, from an old checkpoint, with fewer rows; where another query has begun, they are a surplus and no error.
A new query that starts at the decided ends gets over them. ``DataLoss`` needs a source topic that was made
anew. So may ``ReplayDiffers``, where rows of the older topic stand undecided and the checkpoint is lost, or
where a rival on the same checkpoint has decided rows of the newer one meanwhile, and
``NonDeterministicReplay``, where attempts read it when it went. ``ReplayUnprovable`` needs a trim that took
offsets of an output from which on the run had to look for undecided rows; a sink of another name gets over
it. Everything else is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from semel.errors import (
    BrokerError,
    ConnectionLost,
    DataLoss,
    ErrorCode,
    NonDeterministicReplay,
    ReplayDiffers,
    ReplayUnprovable,
    SemelError,
    SinkFenced,
)
from semel.sim.checkers.base import Checker
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.sim.sinks.driver import SimulatedDriver
    from semel.sim.sinks.story import SinkStory
    from semel.sim.sinks.view import SinkView


class SinkStopsAreRight(Checker):
    """By what was done to the sink before."""

    name: ClassVar[str] = "sink_stops_are_right"

    def __init__(self) -> None:
        self._log_starts: dict[TopicPartition, int] = {}
        self._unprovable: list[tuple[SimulatedDriver, SemelError, dict[TopicPartition, int]]] = []

    def log_start(self, tp: TopicPartition, log_start_offset: int) -> None:
        self._log_starts[tp] = log_start_offset

    def sink_stopped(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        plans_again = driver.checkpoint.is_old or (
            driver.had_rival and any(one.checkpoint.is_old for one in story.drivers)
        )
        # A rival of an earlier life may have decided other ranges than this query's checkpoint plans.
        lives = [one for one in story.drivers if one.checkpoint.query_id == driver.checkpoint.query_id]
        query_had_rival = any(one.had_rival for one in lives)
        match error:
            case SinkFenced():
                is_right = driver.had_rival
            case ReplayDiffers():
                was_changed = story.was_tampered or story.was_lost
                is_right = driver.is_tampered or plans_again or (query_had_rival and was_changed)
                is_right |= story.was_made_anew and (was_changed or driver.had_rival)
            case NonDeterministicReplay():
                is_right = (
                    plans_again or story.rows_differ or story.source_topics[-1].made_ms > driver.started_ms
                )
            case DataLoss():
                is_right = story.was_made_anew
            case ReplayUnprovable():
                self._unprovable.append((driver, error, dict(self._log_starts)))
                is_right = True  # or not: what the decision log had for it to read is seen later
            case BrokerError():
                # Rows bear their driver's time, and the server's clock may be too far behind it to take them.
                is_right = error.code.retriable or error.code is ErrorCode.INVALID_TIMESTAMP
            case _:
                is_right = isinstance(error, (ConnectionLost, *driver.SPARKS_OWN))
        if not is_right:
            raise self.violated(f"{driver.name} stopped without reason: {type(error).__name__}: {error}")

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        waiting, self._unprovable = self._unprovable, []
        for driver, error, log_starts in waiting:
            view = next(view for view in views if view.story is driver.story)
            if not view.is_whole:
                self._unprovable.append((driver, error, log_starts))
                continue
            needed = view.needed_by(driver)
            if not any(log_starts.get(tp, 0) > start for tp, start in needed.items()):
                starts = {tp: log_starts.get(tp, 0) for tp in needed}
                raise self.violated(
                    f"{driver.name} stopped with {error}, but needs the outputs from {needed} on, and they begin "
                    f"at {starts}"
                )

    def sink_left(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        if not (story.rows_differ or story.was_recut):
            raise self.violated(f"no new query gets {story.sink_id} over {type(error).__name__}: {error}")
