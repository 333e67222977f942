"""The mix of what one seed does to its sinks."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class SinkMix:
    """The chances of one seed: of a task attempt, of a driver's death, of a driver's start."""

    fail_task: float = 0.0
    kill_task: float = 0.0
    lose_task: float = 0.0
    double_task: float = 0.0
    zombie: float = 0.0
    second_driver: float = 0.0
    other_planner: float = 0.0
    other_rows: float = 0.0
    tamper: float = 0.0
    recut: float = 0.0
    driver_kill_interval_ms: int = 0  # mean; 0: none
    forget_interval_ms: int = 0
    trim_interval_ms: int = 0
    name_forgotten_interval_ms: int = 0

    @staticmethod
    def draw(random: Random) -> SinkMix:
        """Each kind is on in about half of the seeds."""

        def chance(most: float) -> float:
            return random.random() * most if random.random() < 0.5 else 0.0

        return SinkMix(
            fail_task=chance(0.2),
            kill_task=chance(0.2),
            lose_task=chance(0.5),
            double_task=chance(0.6),
            zombie=random.choice((0.0, 0.5, 0.9)),
            second_driver=random.choice((0.0, 0.3, 0.7)),
            other_planner=chance(0.3),
            other_rows=random.choice((0.2, 0.5)),
            tamper=random.choice((0.0, 0.3, 0.8)),
            recut=random.choice((0.0, 0.3, 0.7)),
            driver_kill_interval_ms=random.randint(300, 3_000),
            forget_interval_ms=random.choice((0, 0, 2_000, 5_000)),
            trim_interval_ms=random.choice((0, 0, 0, 1_000, 4_000)),
            name_forgotten_interval_ms=random.choice((0, 0, 1_000, 4_000)),
        )


NOTHING_HAPPENS = SinkMix()
