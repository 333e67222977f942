"""``lease_over_for_ever``: nothing is appended under a lease that is over, and none that is over lives again.

Whoever was told that a lease is over takes its batch for refused, so this holds across crashes too.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker
from semel.types import LEASED_IDS_FROM


class LeaseOverForEver(Checker):
    """At every append, and at every change of the number below which leases are over."""

    name: ClassVar[str] = "lease_over_for_ever"

    def __init__(self) -> None:
        self._expired_below = LEASED_IDS_FROM

    def leases_over(self, expired_below: int) -> None:
        if expired_below < self._expired_below:
            raise self.violated(
                f"leases below {self._expired_below} were over, now those below {expired_below}"
            )
        self._expired_below = expired_below

    def lease_used(self, producer_id: int) -> None:
        if producer_id < self._expired_below:
            raise self.violated(
                f"a batch of {producer_id} was appended, over are all below {self._expired_below}"
            )
