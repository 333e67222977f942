"""``lease_granted_once``: no two callers are told of the same lease at the same epoch, across crashes too."""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker


class LeaseGrantedOnce(Checker):
    """At every answer; a fresh lease has an id that no answer has had before."""

    name: ClassVar[str] = "lease_granted_once"

    def __init__(self) -> None:
        self._epochs: dict[int, set[int]] = {}

    def leased(self, producer_id: int, producer_epoch: int, *, is_fresh: bool) -> None:
        epochs = self._epochs.setdefault(producer_id, set())
        if producer_epoch in epochs or (is_fresh and epochs):
            raise self.violated(f"{producer_id}/{producer_epoch} was granted before: epochs {sorted(epochs)}")
        epochs.add(producer_epoch)
