"""How many producers the server may remember: more than it ever meets, or so few that many are refused.

Ids without a lease live for a day after their last append, for whoever forgets one sooner takes its late first
batch for a new one: in a history their room never comes back. So each start of a short server is given a little
more, and whoever heals the world gives it enough, as an operator would.
Beside sinks it is no other: their drivers wait, stop and start until there is room.
"""

from __future__ import annotations

from random import Random
from typing import Final

from semel.server.storage.settings import StorageSettings

SHORT_CHANCE: Final = 0.6  # where there are no sinks, which makes a quarter of all seeds
SHORT_BESIDE_SINKS_CHANCE: Final = 0.2  # of the others: a sink that waits for room gets little done
FIRST_A_PARTITION: Final = (2, 6)
MORE_A_START_MAX: Final = 1


class ProducersMax:
    """The setting of one process after another."""

    def __init__(self, random: Random, partitions: int, *, beside_sinks: bool) -> None:
        self._random = random
        self.is_short = random.random() < (SHORT_BESIDE_SINKS_CHANCE if beside_sinks else SHORT_CHANCE)
        self._present = partitions * random.randint(*FIRST_A_PARTITION)

    def of_next_process(self) -> int:
        if not self.is_short:
            return StorageSettings().producers_max
        self._present += self._random.randint(0, MORE_A_START_MAX)
        return self._present

    def suffice(self) -> None:
        """From the next start on."""
        self.is_short = False
