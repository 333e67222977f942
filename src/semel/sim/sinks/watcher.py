"""What may be watched of sinks; no hook does anything by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from semel.core.sink.run import Ticket
from semel.errors import SemelError

if TYPE_CHECKING:
    from semel.sim.sinks.driver import SimulatedDriver
    from semel.sim.sinks.story import SinkStory
    from semel.sim.sinks.view import SinkView


class SinkWatcher:
    """Runs, how they end, and what they leave."""

    def sink_planned(self, ticket: Ticket) -> None:
        """A planner has fenced, scanned and begun, or its run goes on."""

    def sink_commits(self, ticket: Ticket, batch_id: int) -> None:
        """The tasks of a micro-batch have reported, and its commit begins."""

    def sink_stopped(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        """A driver has ended with an error."""

    def sink_left(self, story: SinkStory, driver: SimulatedDriver, error: SemelError) -> None:
        """No restart and no way out has helped: the sink has stopped for good."""

    def sink_logs(self, views: Sequence[SinkView]) -> None:
        """What lies in the sinks' outputs and in the decision log, whenever all logs are judged."""
