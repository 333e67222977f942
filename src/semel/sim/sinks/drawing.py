"""Which sinks a seed has, and where they write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from semel.core.sink.journal import SINKS_TOPIC
from semel.sim.sinks.story import SinkStory
from semel.spark.sink_log import DECISION_LOG_CONFIG
from semel.types import TopicPartition

SINK_CHANCE: Final = 0.6
STRAGGLE: Final = 0.3
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


def seed_has_sinks(seed: int) -> bool:
    """Whether the simulation of ``seed`` has any, where nothing else takes their place."""
    return has_sinks(Random(f"{seed}/sinks"))


def has_sinks(random: Random) -> bool:
    """Not in all seeds: they are the dearest of all clients."""
    return random.random() < SINK_CHANCE


def draw_sinks(random: Random, stragglers: Random, elapsed_ms: Callable[[], int]) -> list[SinkStory]:
    """None in some seeds. ``stragglers`` is a stream of its own."""
    if not has_sinks(random):
        return []
    return [
        SinkStory(
            "k0",
            source_partitions=random.choice((1, 2)),
            topics=["out"] if random.random() < 0.7 else ["out", "other"],
            output_partitions=random.choice((1, 1, 2)),
            row_gap_ms=random.choice((60, 150, 400)),
            rows_per_batch=random.choice(((8,), (3, 8, 25), (3, 8, 25))),
            has_keys=random.random() < 0.7,
            elapsed_ms=elapsed_ms,
            rows_differ=random.random() < 0.35,
            straggle=STRAGGLE if stragglers.random() < 0.5 else 0.0,
        )
    ]


def sink_topics(sinks: Sequence[SinkStory]) -> list[tuple[str, int, Mapping[str, str]]]:
    """The topics to be made: name, partitions, settings. No retention takes rows that a scan has to find."""
    if not sinks:
        return []
    outputs = {topic: story.output_partitions for story in sinks for topic in story.topics}
    made: list[tuple[str, int, Mapping[str, str]]] = [(SINKS_TOPIC, 1, DECISION_LOG_CONFIG)]
    return made + [(topic, count, FOR_EVER) for topic, count in outputs.items()]


def sink_partitions(sinks: Sequence[SinkStory]) -> list[TopicPartition]:
    """All partitions of these."""
    return [TopicPartition(topic, n) for topic, count, _ in sink_topics(sinks) for n in range(count)]
