"""``granted_once``: no right to write, a producer id with its epoch, is told to two callers, across crashes too.

What was told of a lease is in the log that the next process reads: else it might be told once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import ProducerGrant


class GrantedOnce(Checker):
    """At every answer; a fresh grant, with or without a lease, has an id that no answer has had before."""

    name: ClassVar[str] = "granted_once"

    def __init__(self) -> None:
        self._epochs: dict[int, set[int]] = {}

    def granted(self, grant: ProducerGrant, *, is_fresh: bool) -> None:
        epochs = self._epochs.setdefault(grant.producer_id, set())
        if grant.producer_epoch in epochs or (is_fresh and epochs):
            raise self.violated(
                f"{grant.producer_id}/{grant.producer_epoch} was granted before: epochs {sorted(epochs)}"
            )
        epochs.add(grant.producer_epoch)

    def leases_found(self, epochs: Mapping[int, int]) -> None:
        for producer_id, found in epochs.items():
            told = max(self._epochs.get(producer_id, ()), default=found)
            if told > found:
                raise self.violated(f"{producer_id}/{told} was granted, and a restart finds epoch {found}")
