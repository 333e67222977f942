"""``refused_is_not_stored``: a record whose producer was told "not stored" never appears in the log.

Where the network delivers requests again that were answered, which TCP does not, one thing is not judged: a
refusal for want of room holds of the moment only, and a copy that comes when there is room is new to the log.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.sim.world.history import History, Logs, Promise


class RefusedIsNotStored(Checker):
    """An error has one meaning: the answer "no" must stay true for ever."""

    name: ClassVar[str] = "refused_is_not_stored"

    def logs(self, history: History, logs: Logs) -> None:
        refused = {
            record.value
            for record in history.promised(Promise.REFUSED)
            if not (history.is_replayed and record.was_turned_away)
        }
        if not refused:
            return
        for tp, batches in logs.items():
            for batch in batches:
                for value in batch.values:
                    if value in refused:
                        raise self.violated(f"{value!r} was refused and lies in {tp}: {batch}")
