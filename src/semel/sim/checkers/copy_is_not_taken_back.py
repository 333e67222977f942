"""``copy_is_not_taken_back``: who has held a job takes it back from no newer copy by itself, and so stops.

Else the two would take turns for ever, and nobody would be told. What came while its run had begun already it may not
have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from semel.sim.checkers.base import Checker

if TYPE_CHECKING:
    from semel.sim.copies.view import CopyView, SeenHeld


class CopyIsNotTakenBack(Checker):
    """By the order of the HELDs in the journal, and by when each could be read."""

    name: ClassVar[str] = "copy_is_not_taken_back"

    def __init__(self) -> None:
        self._done: dict[str, int] = {}  # by job

    def copy_looked(self, view: CopyView) -> None:
        held = view.journal.held
        for number in range(self._done.get(view.job.name, 0), len(held)):
            self._judge(view, held[:number], held[number])
        self._done[view.job.name] = len(held)

    def _judge(self, view: CopyView, before: list[SeenHeld], new: SeenHeld) -> None:
        owner = new.entry.owner
        own = [number for number, each in enumerate(before) if each.entry.owner == owner]
        if not own:
            return
        life = next(life for life in view.job.lives if life.name == owner)
        began_ms = life.run_began_ms(new.entry.held_ms)
        for newer in before[own[-1] + 1 :]:
            if newer.seen_ms < began_ms:
                held = (
                    f"{newer.entry.owner} held it from {newer.seen_ms} on, and it began its run at {began_ms}"
                )
                raise self.violated(f"{owner} has taken {view.job.name} back by itself, though {held}")
