"""``healed_world_finishes``: once nothing is broken any more, all that is open ends in its time."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker


class HealedWorldFinishes(Checker):
    """At the end of every wait in a world without faults."""

    name: ClassVar[str] = "healed_world_finishes"

    def healed(self, waited_ms: int, what_is_open: str | None) -> None:
        if what_is_open is not None:
            raise self.violated(f"{waited_ms} ms without faults were not enough for {what_is_open}")
