"""How many (producer, partition) pairs one server remembers, and the refusal at the bound.

Invariant: a known producer is never forgotten to make room for a new one; that would turn its next repeat
into a second copy. New ones are refused until old ones have expired, with an error that says to come again.

A lease has room kept for as many pairs as it asked for partitions: where it then writes is its own affair, and
beyond that it takes what room there is, like everybody else. A lease that is resumed has the room it had, and what
it lacks of it where it now names partitions; or it is not resumed for now.

What a lease that is over has written still counts while it takes memory; it goes before anybody is refused for it
(:mod:`semel.server.storage.expired_leases`).

A start may find more in the logs than the bound, for what was forgotten is forgotten in memory only: then none is
added before there is room. The simulator holds this to ``bound_holds``, ``lease_room_is_kept`` and
``refused_only_at_the_bound``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from semel.types import is_leased

_TRIES: Final = 3  # for one who wants room, some milliseconds each: the others wait as long


@dataclass(slots=True)
class ProducerBound:
    """Shared by all partitions of a server."""

    known_max: int
    known: int = 0
    reserved: int = 0  # for leases, and not used yet
    forget_some: Callable[[], bool] = lambda: False  # of leases that are over; whether there may be more
    _kept: dict[int, int] = field(default_factory=dict)  # for which lease, how much: never 0
    _leases: array[int] = field(default_factory=lambda: array("q"))  # all that live, with rising ids

    @property
    def free(self) -> int:
        return max(0, self.known_max - self.known - self.reserved)

    def make_room(self, room: int) -> None:
        """Have so much of it free, as far as leases that are over are in the way."""
        for _ in range(_TRIES):
            if self.free >= room or not self.forget_some():
                return

    def reserve(self, producer_id: int, room: int) -> None:
        """Keep room for a new lease, or more of it for one that lives."""
        if not self._leases or producer_id > self._leases[-1]:
            self._leases.append(producer_id)
        self._kept[producer_id] = self.kept_for(producer_id) + room
        self.reserved += room

    def kept_for(self, producer_id: int) -> int:
        """How much of a lease's room is left."""
        return self._kept.get(producer_id, 0)

    def is_lease(self, producer_id: int) -> bool:
        """Whether a lease that lives has this id."""
        at = bisect_left(self._leases, producer_id)
        return at < len(self._leases) and self._leases[at] == producer_id

    def use(self, producer_id: int) -> None:
        """A lease has written to one more partition."""
        kept = self._kept.get(producer_id)
        if kept is None:
            return
        self.reserved -= 1
        if kept > 1:
            self._kept[producer_id] = kept - 1
        else:
            del self._kept[producer_id]

    def release_below(self, expired_below: int) -> None:
        """The leases below are over."""
        over = bisect_left(self._leases, expired_below)
        for producer_id in self._leases[:over]:
            self.reserved -= self._kept.pop(producer_id, 0)
        del self._leases[:over]


class BoundShare:
    """What one partition has of it."""

    __slots__ = ("_bound", "_known")

    def __init__(self, bound: ProducerBound) -> None:
        self._bound = bound
        self._known = 0

    def has_room(self, known: int, producer_id: int) -> bool:
        """Whether this partition, which knows ``known`` producers by now, may come to know this one too.

        There is none for an id that looks leased and :meth:`is_forged`.
        """
        bound = self._bound
        if is_leased(producer_id):
            if bound.kept_for(producer_id):
                return True
            if not bound.is_lease(producer_id):
                return False
        return bound.known - self._known + known + bound.reserved < bound.known_max

    def update(self, known: int) -> None:
        """The partition knows so many producers now."""
        if known != self._known:  # a new partition, opened by another thread, leaves the sum alone
            self._bound.known += known - self._known
            self._known = known

    def is_forged(self, producer_id: int) -> bool:
        """Whether it is a leased id that nobody has; of one that is no lease's any more somebody else must know."""
        return is_leased(producer_id) and not self._bound.is_lease(producer_id)

    def make_room(self, known: int) -> None:
        """Have room for one more, if nobody but leases that are over is in the way."""
        self.update(known)
        self._bound.make_room(1)

    def kept_for(self, leased_ids: Iterable[int]) -> int:
        """For how many of these leases room is kept."""
        return sum(self._bound.kept_for(producer_id) > 0 for producer_id in leased_ids)

    def use(self, leased_ids: Iterable[int]) -> None:
        """These leases have written here for the first time."""
        for producer_id in leased_ids:
            self._bound.use(producer_id)

    @property
    def refusal(self) -> str:
        return f"the server remembers {self._bound.known_max} producers of partitions already"
