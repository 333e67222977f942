"""The planted bugs of the bound: who is forgotten, counted twice or refused where a server has no room left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from semel.server.storage.expired_leases import ExpiredLeases
from semel.server.storage.known_producers import KnownProducers
from semel.server.storage.producer_bound import BoundShare, ProducerBound
from semel.server.storage.producer_ids import ProducerIds
from semel.server.storage.state_log import StateLog
from semel.sim.plants.planting import BOUND, DEFINITE, FENCED, ONCE, REFUSALS, REPLAYED, ROOM, Patches, plant
from semel.types import is_leased


@plant("a lease is granted, and no room is kept for it", "here", ROOM, BOUND)
def no_room_is_kept(patch: Patches) -> None:
    def reserves(bound: ProducerBound, producer_id: int, room: int) -> None:
        original(bound, producer_id, room)
        bound.reserved -= bound._kept.pop(producer_id)

    original = patch.set(ProducerBound, "reserve", reserves)


@plant("a restart keeps no room for the leases that it finds", "here", ROOM, BOUND)
def restart_keeps_no_room(patch: Patches) -> None:
    def begins(ids: ProducerIds, log: StateLog) -> None:
        original(ids, log)
        ids._bound.reserved = 0
        ids._bound._kept.clear()

    original = patch.set(ProducerIds, "begin", begins)


@plant(
    "at the bound the oldest lease makes room, though it lives",
    "rp7057",
    DEFINITE,
    REPLAYED,
    ONCE,
    FENCED,
)
def oldest_lease_makes_room(patch: Patches) -> None:
    _make_room(patch, lambda known: min(known.state.leased_ids(), default=None))


@plant(
    "at the bound an id without a lease makes room, though it writes",
    "here",
    DEFINITE,
    REPLAYED,
    ONCE,
    FENCED,
)
def writer_makes_room(patch: Patches) -> None:
    _make_room(patch, lambda known: next((one for one, _ in sorted(known.state) if not is_leased(one)), None))


def _make_room(patch: Patches, first_to_go: Callable[[KnownProducers], int | None]) -> None:
    """Forget one after the other, until there is room or nobody left to forget."""

    def is_one_too_many(known: KnownProducers, producer_id: int, beginning: Sequence[int]) -> bool:
        while original(known, producer_id, beginning):
            forgotten = first_to_go(known)
            if forgotten is None:
                return True
            known.state.restore(forgotten, None)
            known.count()
        return False

    original = patch.set(KnownProducers, "is_one_too_many", is_one_too_many)


@plant("a lease writes wherever it likes, with room or without", "here", BOUND)
def lease_needs_no_room(patch: Patches) -> None:
    def has_room(share: BoundShare, known: int, producer_id: int) -> bool:
        return is_leased(producer_id) or bool(original(share, known, producer_id))

    original = patch.set(BoundShare, "has_room", has_room)


@plant("a lease finds no more room than others do", "here", ROOM)
def kept_room_is_not_given(patch: Patches) -> None:
    def has_room(share: BoundShare, known: int, producer_id: int) -> bool:
        bound = share._bound
        return bound.known - share._known + known + bound.reserved < bound.known_max

    patch.set(BoundShare, "has_room", has_room)


@plant("an id without a lease takes the room that is kept", "here", ROOM, BOUND)
def kept_room_is_taken(patch: Patches) -> None:
    def has_room(share: BoundShare, known: int, producer_id: int) -> bool:
        bound = share._bound
        return bound.known - share._known + known < bound.known_max

    patch.set(BoundShare, "has_room", has_room)


@plant("room is kept for a lease for ever", "here", REFUSALS)
def room_is_never_given_back(patch: Patches) -> None:
    patch.set(ProducerBound, "release_below", lambda bound, expired_below: None)


@plant("a lease that writes has its room counted twice", "here", REFUSALS, BOUND)
def used_room_stays_kept(patch: Patches) -> None:
    def uses(share: BoundShare, leased_ids: Iterable[int]) -> None:
        """Nothing is taken from what is kept."""

    patch.set(BoundShare, "use", uses)


@plant("what leases that are over have written waits for the next upkeep", "here", REFUSALS)
def expired_leases_stay_in_the_way(patch: Patches) -> None:
    patch.set(ExpiredLeases, "forget_some", lambda over: False)
