"""A producer's leases, as their holder reckons: when to ask for the next one, and until when one may be used.

The holder counts a life from before it asked, by a clock that only goes forward; the server counts from later. So
a lease is over here first, and whoever keeps to it never meets the refusal. There is no renewal: a next lease is
asked for long before the end (``LEASE_ANEW_AT``), and each partition moves over by itself
(:mod:`semel.core.client.partition_queue`). Refused for now, the producer goes on under the lease that it has while
that lives, and asks again, less often each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from semel.types import Lease, ProducerGrant

LEASE_ANEW_AT: Final = 0.5  # of a lease's length: half a life is left to settle what went under the old one


@dataclass(frozen=True, slots=True)
class Tenure:
    """A grant and how long its holder may use it."""

    grant: ProducerGrant
    anew_at_ms: int
    ends_ms: int

    @classmethod
    def of(cls, lease: Lease, asked_ms: int) -> Self:
        ends_ms = asked_ms + lease.remaining_ms
        return cls(lease.grant, ends_ms - int(lease.length_ms * (1 - LEASE_ANEW_AT)), ends_ms)


class Leasing:
    """The newest lease, and the question for the next one."""

    __slots__ = ("_ask_not_before_ms", "_backoff_ms", "_backoff_ms_max", "_refusals", "is_asking", "tenure")

    def __init__(self, backoff_ms: int, backoff_ms_max: int) -> None:
        self.tenure: Tenure | None = None
        self.is_asking = False
        self._backoff_ms, self._backoff_ms_max = backoff_ms, backoff_ms_max
        self._refusals = 0
        self._ask_not_before_ms = 0

    @property
    def grant(self) -> ProducerGrant | None:
        return None if self.tenure is None else self.tenure.grant

    @property
    def ends_ms(self) -> int | None:
        return None if self.tenure is None else self.tenure.ends_ms

    def take(self, lease: Lease, asked_ms: int, now_ms: int) -> bool:
        """A lease came; False if it came too late to be of use."""
        tenure = Tenure.of(lease, asked_ms)
        if now_ms >= tenure.ends_ms:
            self.refuse(now_ms)
            return False
        self.tenure, self.is_asking, self._refusals = tenure, False, 0
        return True

    def refuse(self, now_ms: int) -> None:
        """There is no new lease for now."""
        pause_ms = self._backoff_ms * 2 ** min(self._refusals, 10)
        self._ask_not_before_ms = now_ms + min(pause_ms, self._backoff_ms_max)
        self._refusals += 1
        self.is_asking = False

    def give_up(self, now_ms: int) -> None:
        """The newest lease is of no use any more: the next one is due, though not in a busy loop."""
        self.tenure = None
        self._ask_not_before_ms = max(self._ask_not_before_ms, now_ms + self._backoff_ms)

    def ends_by(self, now_ms: int) -> bool:
        return self.ends_ms is not None and now_ms >= self.ends_ms

    def next_question_ms(self) -> int | None:
        """When a new lease is to be asked for; None while an answer is due."""
        if self.is_asking:
            return None
        if self.tenure is None:
            return self._ask_not_before_ms
        return max(self.tenure.anew_at_ms, self._ask_not_before_ms)
