"""Who sees both sites of copies, and has the checkers judge what is there."""

from __future__ import annotations

from functools import partial
from typing import Final

from semel.errors import SemelError
from semel.sim.copies.ledger import SiteLedger
from semel.sim.copies.life import CopyLife
from semel.sim.copies.story import DESTINATION, SOURCE, CopyStory
from semel.sim.copies.view import CopyView
from semel.sim.world.watchers import Watchers


class CopyWatcher:
    """What may be watched of copies; no hook does anything by itself."""

    def copy_stopped(self, story: CopyStory, life: CopyLife, error: SemelError) -> None:
        """A copy has ended with an error."""

    def copy_looked(self, view: CopyView) -> None:
        """The destination has something new to read, or has come up."""

    def copy_ended(self, view: CopyView) -> None:
        """A world without faults has had its time."""


class CopyWatch:
    """Of one history."""

    def __init__(self, story: CopyStory, watchers: Watchers) -> None:
        self.is_on = True  # False: what comes now is damage on purpose
        self._story = story
        self._watcher = watchers.of(CopyWatcher)
        self.ledgers: Final = {
            role: SiteLedger(partial(story.topics_at, role), partial(self._looked, role))
            for role in (SOURCE, DESTINATION)
        }
        self._views: list[CopyView] = []

    def views(self) -> list[CopyView]:
        """One a job, as of now."""
        for job in self._story.jobs[len(self._views) :]:
            self._views.append(CopyView(self._story, job, self.ledgers[SOURCE], self.ledgers[DESTINATION]))
        for view in self._views:
            view.refresh()
        return self._views

    def end(self) -> None:
        """Everything has come to its end, and whatever is looked at from now on is judged no more."""
        self.is_on = False
        for view in self.views():
            self._watcher.copy_ended(view)

    def _looked(self, role: str) -> None:
        if role != DESTINATION or not self.is_on:  # what the source has is not judged
            return
        for view in self.views():
            self._watcher.copy_looked(view)
