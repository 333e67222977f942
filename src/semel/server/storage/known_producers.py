"""What a partition knows of its producers, and its share of how many the server may know.

Invariant: the share says at every turn how many are known here; of a leased id it is known where it has written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from semel.core.lease import LiveLeases
from semel.core.producer_state.leased_ids import LeasedIds
from semel.core.producer_state.state import ProducerState
from semel.server.storage.producer_bound import BoundShare, ProducerBound


class KnownProducers:
    """One partition's: the rows that its log speaks for (:class:`ProducerState`), counted and expired."""

    __slots__ = ("_leased", "_leases", "share", "state")

    def __init__(self, state: ProducerState, bound: ProducerBound, leases: LiveLeases) -> None:
        self.state = state
        self.share = BoundShare(bound)
        self._leases = leases
        self._leased = LeasedIds(state.leased_ids())
        self.count()
        self.share.use(self._leased)

    def count(self) -> None:
        """Tell how many are known now."""
        self.share.update(len(self.state))

    def note_leases(self, leased_ids: Sequence[int]) -> None:
        """These leases have written here for the first time."""
        self.share.use(leased_ids)
        for producer_id in leased_ids:
            self._leased.add(producer_id)

    def is_one_too_many(self, producer_id: int, beginning: Sequence[int]) -> bool:
        """Whether a producer would be new here, and cannot be. ``beginning`` are the leases that write here for the
        first time, but have not been noted.
        """
        share = self.share
        if producer_id in self.state or share.has_room(len(self.state), producer_id):
            return False
        if share.is_forged(producer_id):
            return True
        twice = share.kept_for(beginning)  # as known, and in the room that is kept for them
        share.make_room(len(self.state) - twice)
        return not share.has_room(len(self.state) - twice, producer_id)

    def expire(self, before_ms: int) -> Iterator[int]:
        """Forget whoever appended nothing since ``before_ms``, and the leases that are over.

        In steps; each gives how many.
        """
        for expired in self.state.expire(before_ms, self._leases.expired_below):
            self.count()
            yield expired

    def forget_leases(self, expired_below: int, steps_max: int) -> int:
        """Forget leases that are over, the oldest first; how many steps that took, few more than were allowed."""
        leased, steps = self._leased, 0
        while steps < steps_max and (first := leased.first()) is not None and first < expired_below:
            steps += self.state.forget(leased.pop())
        if steps:
            self.count()
        return steps

    def forget_all(self, end_offset: int) -> None:
        """The partition is deleted; upkeep may be under way."""
        self.state = ProducerState(end_offset=end_offset)
        self._leased = LeasedIds()
        self.count()
