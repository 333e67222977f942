"""What the acts of the story share: the log, its clocks and counters, and how the server is killed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.client.blocking import Cluster
from semel.demo.lives import Life, Part
from semel.demo.story import PARTITION_COUNT, DemoPlan, Story
from semel.demo.verdicts import VerdictCounts
from semel.local import LocalLog
from semel.types import LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel.demo.summary import Screen
    from semel.demo.timeline import Timeline

SILENCE_S_MAX: Final = 180.0  # without a row moving, on a busy machine, before the demo calls itself stuck


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage; ``story`` is what is written down."""

    plan: DemoPlan
    folder: Path
    log: LocalLog
    cluster: Cluster
    verdicts: VerdictCounts
    story: Story
    screen: Screen

    @property
    def timeline(self) -> Timeline:
        return self.story.timeline

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """The end offset of each partition of a topic that nobody writes to any more."""
        partitions = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
        listed = self.cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: at.offset for partition, at in listed.items()}

    def kill_server(self) -> Life:
        """kill -9, and start it again on the same folder and port."""
        self.verdicts.read()
        self.log.crash()
        life = self.timeline.ends(Part.SERVER, killed=True)
        self.verdicts.life_is_over()
        self.log.restart()
        self.timeline.begins(Part.SERVER)
        return life
