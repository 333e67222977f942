"""The life of leases."""

from __future__ import annotations

from semel.sim.checkers.checker import Checker
from semel.sim.checkers.watchers import LeaseWatcher
from semel.types import LEASED_IDS_FROM

# Leases that the server saw within a thousandth of a life may end together, with the last of them.
TOGETHER_SHARE = 1000


class LeaseOverForEver(Checker, LeaseWatcher):
    """``lease_over_for_ever``: nothing is appended under a lease that is over, and none that is over lives again.

    Whoever was told that a lease is over takes its batch for refused, so this holds across crashes too. Judged at every
    append, and at every change of the number below which leases are over.
    """

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


class LeaseLivesItsLength(Checker, LeaseWatcher):
    """``lease_lives_its_length``: no lease is over before its length has passed, and none is spared after that.

    Nor does the server say that one lives which it has found to be over. Lives are counted, by true time, from when the
    server's present process first saw them. Judged whenever the server has looked which leases are over, and whenever
    it says what is left of one.
    """

    def __init__(self) -> None:
        self._seen_ms: dict[int, int] = {}  # of those not said to be over
        self._found_over_below = 0  # by the server's present process

    def lease_issued(self, producer_id: int, now_ms: int) -> None:
        self._seen_ms[producer_id] = now_ms

    def lives_begin_anew(self, granted_below: int, now_ms: int) -> None:
        """What was issued and is not in the log was told to nobody: ``answers_are_definite`` would know of it."""
        self._found_over_below = 0  # what the last process found may not have been durable
        self._seen_ms = {one: now_ms for one in self._seen_ms if one < granted_below}

    def lease_told_of(self, producer_id: int, remaining_ms: int) -> None:
        if remaining_ms and producer_id < self._found_over_below:
            raise self.violated(f"{producer_id} is over, and is said to live for {remaining_ms} ms more")

    def leases_looked_at(self, expired_below: int, length_ms: int, now_ms: int) -> None:
        self._found_over_below = expired_below
        for producer_id, seen_ms in list(self._seen_ms.items()):
            lived_ms = now_ms - seen_ms
            if producer_id < expired_below:
                del self._seen_ms[producer_id]
                if lived_ms < length_ms:
                    raise self.violated(f"{producer_id} is over after {lived_ms} of {length_ms} ms")
            elif lived_ms > length_ms + length_ms // TOGETHER_SHARE:
                raise self.violated(f"{producer_id} lives on after {lived_ms} of {length_ms} ms")
