"""``rot_beside_costs_nothing``: what rots beside the logs is survived, or said.

Nothing is lost, misplaced or forgotten for an index, a snapshot of the producers or a metadata log that has changed.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker


class RotBesideCostsNothing(Checker):
    """At the start behind such rot (:mod:`semel.sim.server.rot_beside`)."""

    name: ClassVar[str] = "rot_beside_costs_nothing"

    def rotted_beside(self, what_is_wrong: str | None) -> None:
        if what_is_wrong is not None:
            raise self.violated(what_is_wrong)
