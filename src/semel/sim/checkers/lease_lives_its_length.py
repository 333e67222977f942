"""``lease_lives_its_length``: no lease is over before its length has passed, and none is spared after that.

Nor does the server say that one lives which it has found to be over. Lives are counted, by true time, from when the
server's present process first saw them.
"""

from __future__ import annotations

from typing import ClassVar

from semel.sim.checkers.base import Checker

# Leases that the server saw within a thousandth of a life may end together, with the last of them.
TOGETHER_SHARE = 1000


class LeaseLivesItsLength(Checker):
    """Whenever the server has looked which leases are over, and whenever it says what is left of one."""

    name: ClassVar[str] = "lease_lives_its_length"

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
