"""One run of a stage on Spark: what its planner, its tasks and its sink are sent, and how it is stopped."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.flow.by_value import Shipped
from semel.flow.plan import Stage, StageKind
from semel.flow.stage_ranges import Cuts
from semel.spark.offsets import Json
from semel.spark.options import Connection, SinkOptions
from semel.spark.resuming import Resumption

_STOP_FILE: Final = "stop"
_STOPPED_SUFFIX: Final = ".stopped"


@dataclass(frozen=True, slots=True)
class Stopping:
    """How a flow's driver has its planners, which are processes of their own on its machine, plan nothing more.

    Spark asks for a micro-batch when the one before is decided: so once a planner has been asked again, nothing of its
    stage is under way.
    """

    folder: Path

    @property
    def is_asked(self) -> bool:
        """Whether the flow is to stop."""
        return (self.folder / _STOP_FILE).exists()

    def ask(self) -> None:
        """Have it stop; every planner does when it is asked for its next micro-batch."""
        with suppress(FileNotFoundError):  # it was stopped before
            (self.folder / _STOP_FILE).touch()

    def tell(self, stage: str) -> None:
        """By the planner: the micro-batches before are decided, and there will be no other."""
        with suppress(FileNotFoundError):
            (self.folder / f"{stage}{_STOPPED_SUFFIX}").touch()

    def is_told(self, stage: str) -> bool:
        """Whether the planner of ``stage`` has done so."""
        return (self.folder / f"{stage}{_STOPPED_SUFFIX}").exists()


@dataclass(frozen=True)
class StageRun:
    """One run of one stage, as every process knows it."""

    name: str
    kind: StageKind
    has_state: bool
    sent: Shipped
    options: SinkOptions
    cuts: Cuts
    resumed: Resumption
    store: Path  # for a large state, on each machine
    stopping: Stopping
    until: Json | None = None  # the end of its only micro-batch

    @property
    def stage(self) -> Stage:
        """As it was sent."""
        stage = self.sent.value
        assert isinstance(stage, Stage)
        return stage

    @property
    def connection(self) -> Connection:
        """To the log."""
        return self.options.connection
