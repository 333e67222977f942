"""What the acts of the story share: the logs, clocks and counters, and how the server is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.client.blocking import Cluster
from semel.demo.child import Child
from semel.demo.lives import Life, Part
from semel.demo.story import PARTITION_COUNT, DemoPlan, Story
from semel.demo.verdicts import VerdictCounts
from semel.errors import SemelError
from semel.local import LocalLog
from semel.spark.reading import read_range
from semel.types import LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from semel.demo.summary import Screen
    from semel.demo.timeline import Timeline

SILENCE_S_MAX: Final = 180.0  # without a row moving, on a busy machine, before the demo calls itself stuck
_ASK_EVERY_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage; ``story`` is what is written down."""

    plan: DemoPlan
    folder: Path
    log: LocalLog
    second: LocalLog
    cluster: Cluster
    second_cluster: Cluster
    verdicts: VerdictCounts
    story: Story
    screen: Screen

    @property
    def timeline(self) -> Timeline:
        return self.story.timeline

    @property
    def table(self) -> Path:
        """The Delta table's folder."""
        return self.folder / "table"

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        """The end offset of each partition of a topic that nobody writes to any more."""
        partitions = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
        listed = self.cluster.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        return {partition: at.offset for partition, at in listed.items()}

    def second_offsets(self) -> int:
        """What the ends of the copy's partitions add up to; markers count, so it may be a few above its rows."""
        return sum(self._second_ends().values())

    def second_rows(self) -> int:
        """The rows of the copy."""
        return sum(
            header.record_count
            for partition, end in self._second_ends().items()
            for batches in read_range(self.second_cluster, partition, 0, end)
            for _, header in batches
            if not header.is_control
        )

    def _second_ends(self) -> dict[TopicPartition, int]:
        topic = self.story.second_topic
        described = self.second_cluster.metadata([topic]).topics.get(topic)
        numbers = () if described is None else described.partitions  # none before the first copy has made it
        wanted = {TopicPartition(topic, number): LATEST_TIMESTAMP for number in numbers}
        listed = self.second_cluster.list_offsets(wanted) if wanted else {}
        return {partition: at.offset for partition, at in listed.items()}

    def missed(self, words: str, killed: Life | None = None) -> None:
        """Go on without a kill that came too late, and say so. ``killed`` had come to its end before."""
        if killed is not None:
            killed.killed = False
        self.story.missed.append(words)
        self.screen.step(words)

    def wait_for(self, reached: Callable[[], object], child: Child) -> bool:
        """Until ``reached()`` is true, which is asked all the time; False when the child ends first.

        A command that hangs, on however busy a machine, is a :class:`SemelError`.
        """
        began = time.monotonic()
        while not reached():
            if not child.is_running:
                return False
            if time.monotonic() - began > SILENCE_S_MAX:
                raise SemelError(
                    f"the demo got stuck: the {child.name} went on for {SILENCE_S_MAX:.0f} s; "
                    f"what it said is in {child.stderr_path}"
                )
            time.sleep(_ASK_EVERY_S)
        return True

    def kill_server(self) -> Life:
        """kill -9, and start it again on the same folder and port."""
        self.verdicts.read()
        self.log.crash()
        life = self.timeline.ends(Part.SERVER, killed=True)
        self.verdicts.life_is_over()
        self.log.restart()
        self.timeline.begins(Part.SERVER)
        return life
