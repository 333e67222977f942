"""What may be watched of flows; no hook does anything by itself."""

from __future__ import annotations

from collections.abc import Sequence

from semel.errors import SemelError
from semel.sim.flows.driver import StageDriver
from semel.sim.flows.story import StageStory
from semel.sim.flows.view import FlowView


class FlowWatcher:
    """How stages end, and what they leave. Each is a sink too, and what a sink's run does is told of it as well."""

    def flow_stopped(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        """A driver of a stage has ended with an error."""

    def flow_left(self, story: StageStory, driver: StageDriver, error: SemelError) -> None:
        """Neither mended steps nor those of before have helped: the stage has stopped for good."""

    def flow_logs(self, views: Sequence[FlowView]) -> None:
        """What lies in the topics of flows, whenever all logs are judged and all of a flow's can be read."""
