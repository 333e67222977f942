"""``flow_stops_are_right``: a stage stops with a named error only where there is reason for it, and never for good.

A lost connection passes. ``SinkFenced`` needs a rival. ``StepFailed`` needs a step that is not mended, and
``ReplayDiffers`` steps that were changed. ``StorageError`` needs so many
attempts on one machine that all copies of a state are in use. Nothing else is right: what was recorded is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from semel.errors import (
    BrokerError,
    ConnectionLost,
    ErrorCode,
    ReplayDiffers,
    SemelError,
    SinkFenced,
    StepFailed,
    StorageError,
)
from semel.flow.slots import SLOTS_MAX
from semel.sim.checkers.base import Checker

if TYPE_CHECKING:
    from semel.sim.flows.driver import StageDriver
    from semel.sim.flows.story import StageStory


class FlowStopsAreRight(Checker):
    """By what was done to the stage before."""

    name: ClassVar[str] = "flow_stops_are_right"

    def flow_stopped(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        match error:
            case SinkFenced():
                is_right = driver.had_rival
            case StepFailed():
                is_right = not driver.is_mended
            case ReplayDiffers():
                is_right = story.was_mended
            case StorageError():
                is_right = sum(len(other.workers) for other in story.drivers) > SLOTS_MAX
            case BrokerError():
                # Rows bear their driver's time, and the server's clock may be too far behind it to take them.
                is_right = error.code.retriable or error.code is ErrorCode.INVALID_TIMESTAMP
            case _:
                is_right = isinstance(error, (ConnectionLost, *driver.SPARKS_OWN))
        if not is_right:
            raise self.violated(f"{driver.name} stopped without reason: {type(error).__name__}: {error}")

    def flow_left(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        raise self.violated(f"nothing gets {story.sink_id} over {type(error).__name__}: {error}")
