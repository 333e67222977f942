"""Producer ids that are leased: each has one fixed life, and is over for ever after it. Log-backed.

What the proposal of the "Idempotent Producer" asks for (``lease_pid_request``), and Kafka never had. Stock
clients get ids of :mod:`semel.core.identity`, which live for as long as they write.

Invariants:
- Leased ids rise in the order of their grants, and all lives have one length: so the live ones are a queue, and
  ONE number says which are over, ``expired_below``. It is in the log before anybody judges by it, and never falls.
- A life is counted from when THIS server first saw the lease, by a clock that only goes forward; after a restart
  in full again. So no time is in the log, and nothing that is written or asked makes a life longer within a run.
- Of one id every epoch is granted to one caller only. A lease begins at a random epoch: should an old copy of the
  data folder come back and give an id out again, one of the two holders is most likely fenced for good, where with
  equal epochs their rows would pass for each other's.
- The length is in the log with the first lease, and cannot be another as long as one lives.

A lease costs 14 bytes here, and a mark of the queue stands for all that were seen within a thousandth of a life.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from semel.core.decision import Decision, StateRecord
from semel.core.identity import NO_FRESH_ID, Refused
from semel.errors import ErrorCode
from semel.types import (
    LEASED_IDS_FROM,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    Lease,
    TopicPartition,
)

STARTING_EPOCHS: Final = 1 << 14  # a lease begins at an epoch below this one: half of them are left to rise

_LENGTH_KEY: Final = b"lease-length"
_EXPIRED_KEY: Final = b"leases-expired"
_LEASES_PREFIX: Final = b"leases/"
_LEASES_PER_RECORD: Final = 500
_MARKS_PER_LIFE: Final = 1000
_VERSION: Final = 1


@dataclass(slots=True)
class LiveLeases:
    """By what batches are judged: leased ids from ``expired_below`` up to ``granted_below``, exclusive, live."""

    expired_below: int = LEASED_IDS_FROM
    granted_below: int = LEASED_IDS_FROM


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Ask for a lease; or, with an id and its epoch, for the rest of the one that an earlier copy had.

    ``fresh_producer_id`` (if one is at hand) and ``starting_epoch`` (random) are wasted when not needed;
    ``free_room`` is how many more (producer, partition) pairs the server can remember, of which a lease takes
    what it asks for, and ``room_max`` how many at all. ``written`` is where the lease that is to be resumed has
    written: that it has room there need not be looked at.
    """

    partitions: tuple[TopicPartition, ...]
    fresh_producer_id: int
    starting_epoch: int
    free_room: int
    room_max: int
    length_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    written: frozenset[TopicPartition] = frozenset()

    @property
    def room(self) -> int:
        """Not even a lease that names no partition is for nothing: else there would be no bound of leases."""
        return max(1, len(self.written.union(self.partitions)))

    def further_room(self, room: int) -> int:
        """How much a lease of ``room`` lacks, to have it wherever this names a partition."""
        return max(0, self.room - max(room, len(self.written)))


@dataclass(frozen=True, slots=True)
class LiveLease:
    """What the log knows of one lease."""

    producer_id: int
    producer_epoch: int
    room: int


class _Mark(NamedTuple):
    """All leases below ``end_id``, and at or above the mark before it, were seen by ``seen_ms``."""

    end_id: int
    first_seen_ms: int
    seen_ms: int


Response: TypeAlias = Lease | Refused


class Leases:
    """All leases that are not over, in the order of their issue."""

    def __init__(self) -> None:
        self.length_ms: int | None = None  # of the leases so far
        self.expired_below = LEASED_IDS_FROM
        self.granted_below = LEASED_IDS_FROM
        self._ids = array("q")  # rising; the other two say what belongs to each
        self._epochs = array("h")
        self._rooms = array("i")
        self._marks: deque[_Mark] = deque()  # in the order of time and of ids
        self._seen_below = LEASED_IDS_FROM

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[LiveLease]:
        return map(LiveLease, self._ids, self._epochs, self._rooms)

    # Deciding

    def decide(self, request: LeaseRequest, now_ms: int) -> Decision[Response]:
        """What becomes of ``request``; ``now_ms`` is the clock of :meth:`see`."""
        if request.producer_id == NO_PRODUCER_ID:
            return self._grant(request)
        return self._resume(request, now_ms)

    def decide_expiry(self, now_ms: int) -> Decision[int]:
        """The ids below which all leases are over by now; a record only if that is more than before."""
        expired_below = self.expired_below
        for mark in self._marks:
            if not self._is_over(mark, now_ms):
                break
            expired_below = mark.end_id
        if expired_below == self.expired_below:
            return Decision((), expired_below)
        return Decision((_expired_record(expired_below, self.granted_below),), expired_below)

    def remaining_ms(self, producer_id: int, now_ms: int) -> int:
        """How much of its life a live lease has, at least."""
        assert self.length_ms is not None
        at = bisect_right(self._marks, producer_id, key=lambda mark: mark.end_id)
        if at == len(self._marks):
            return self.length_ms
        return max(0, self._marks[at].seen_ms + self.length_ms - now_ms)

    def room_of(self, producer_id: int) -> int:
        """In how many partitions a live lease finds room; 0 of one that does not live."""
        at = bisect_left(self._ids, producer_id)
        return self._rooms[at] if at < len(self._ids) and self._ids[at] == producer_id else 0

    # Seeing

    def see(self, now_ms: int) -> None:
        """Every lease that came in since the last call begins its life now."""
        if self._seen_below == self.granted_below:
            return
        assert self.length_ms is not None
        self._seen_below = self.granted_below
        last = self._marks[-1] if self._marks else None
        if last is not None and now_ms - last.first_seen_ms <= self.length_ms // _MARKS_PER_LIFE:
            self._marks[-1] = _Mark(self.granted_below, last.first_seen_ms, now_ms)
        else:
            self._marks.append(_Mark(self.granted_below, now_ms, now_ms))

    # The log

    def apply(self, record: StateRecord) -> bool:
        if record.key == _LENGTH_KEY:
            self.length_ms = _fields(record)["ms"]
        elif record.key == _EXPIRED_KEY:
            fields = _fields(record)
            self.granted_below = max(self.granted_below, fields["granted_below"])
            self._expire(fields["expired_below"])
        elif record.key.startswith(_LEASES_PREFIX):
            fields = _fields(record)
            self._put_all(fields["ids"], fields["epochs"], fields["rooms"])
        else:
            return False
        return True

    def live_records(self) -> Iterable[StateRecord]:
        if self.length_ms is not None:
            yield _length_record(self.length_ms)
            yield _expired_record(self.expired_below, self.granted_below)
        for first in range(0, len(self), _LEASES_PER_RECORD):
            some = slice(first, first + _LEASES_PER_RECORD)
            yield _leases_record(
                self._ids[some].tolist(), self._epochs[some].tolist(), self._rooms[some].tolist()
            )

    def _put_all(self, ids: list[int], epochs: list[int], rooms: list[int]) -> None:
        newest_id = self._ids[-1] if self._ids else self.expired_below - 1
        if ids[0] > newest_id:  # as leases come in; else one of them is resumed
            self._ids.extend(ids)
            self._epochs.extend(epochs)
            self._rooms.extend(rooms)
            self.granted_below = max(self.granted_below, ids[-1] + 1)
        else:
            for lease in zip(ids, epochs, rooms, strict=True):
                self._put(*lease)

    def _put(self, producer_id: int, producer_epoch: int, room: int) -> None:
        if producer_id < self.expired_below:
            return
        at = bisect_left(self._ids, producer_id)
        if at < len(self._ids) and self._ids[at] == producer_id:
            self._epochs[at], self._rooms[at] = producer_epoch, room
            return
        self._ids.insert(at, producer_id)
        self._epochs.insert(at, producer_epoch)
        self._rooms.insert(at, room)
        self.granted_below = max(self.granted_below, producer_id + 1)

    def _expire(self, expired_below: int) -> None:
        self.expired_below = max(self.expired_below, expired_below)
        gone = bisect_left(self._ids, self.expired_below)
        del self._ids[:gone], self._epochs[:gone], self._rooms[:gone]
        while self._marks and self._marks[0].end_id <= self.expired_below:
            self._marks.popleft()
        self._seen_below = max(self._seen_below, self.expired_below)

    # Within

    def _grant(self, request: LeaseRequest) -> Decision[Response]:
        assert not len(self) or self.length_ms == request.length_ms, "one length for all that live"
        refusal = _refusal_for_room(request, 0)
        if refusal is not None:
            return Decision((), refusal)
        producer_id, producer_epoch = request.fresh_producer_id, request.starting_epoch
        if producer_id == NO_PRODUCER_ID:
            return Decision((), NO_FRESH_ID)
        assert producer_id >= self.granted_below, "leased ids must rise"
        records = [_leases_record([producer_id], [producer_epoch], [request.room])]
        if self.length_ms != request.length_ms:
            records.insert(0, _length_record(request.length_ms))
        lease = Lease(
            producer_id,
            producer_epoch,
            request.length_ms,
            request.length_ms,
            dict.fromkeys(request.partitions, 0),
        )
        return Decision(tuple(records), lease)

    def _resume(self, request: LeaseRequest, now_ms: int) -> Decision[Response]:
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        at = bisect_left(self._ids, producer_id)
        if at == len(self._ids) or self._ids[at] != producer_id:
            what = "is over" if producer_id < self.expired_below else "was never granted"
            return _refuse(ErrorCode.UNKNOWN_PRODUCER_ID, f"the lease of producer id {producer_id} {what}")
        current, room = self._epochs[at], self._rooms[at]
        if producer_epoch < current:
            reason = f"the lease of producer id {producer_id} was resumed by another copy: epoch {current}"
            return _refuse(ErrorCode.PRODUCER_FENCED, reason)
        if producer_epoch > current:
            reason = f"producer id {producer_id} is at epoch {current}; {producer_epoch} was never granted"
            return _refuse(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        remaining_ms = self.remaining_ms(producer_id, now_ms)
        if not remaining_ms:
            return _refuse(ErrorCode.UNKNOWN_PRODUCER_ID, f"the lease of producer id {producer_id} is over")
        if current >= PRODUCER_EPOCH_MAX - 1:  # no epoch is left: the id is sealed, and a fresh lease begins
            granted = self._grant(replace(request, written=frozenset()))
            if isinstance(granted.response, Refused):
                return granted
            sealed = _leases_record([producer_id], [PRODUCER_EPOCH_MAX], [room])
            return Decision((sealed, *granted.records), granted.response)
        if request.further_room(room):
            refusal = _refusal_for_room(request, room)
            if refusal is not None:
                return Decision((), refusal)
            room = request.room
        assert self.length_ms is not None
        lease = Lease(
            producer_id, current + 1, self.length_ms, remaining_ms, dict.fromkeys(request.partitions, 0)
        )
        return Decision((_leases_record([producer_id], [current + 1], [room]),), lease)

    def _is_over(self, mark: _Mark, now_ms: int) -> bool:
        assert self.length_ms is not None
        return now_ms - mark.seen_ms >= self.length_ms


def _refusal_for_room(request: LeaseRequest, room: int) -> Refused | None:
    """Why a lease that has ``room`` cannot be given what it lacks: for now, or for good."""
    if request.room > request.room_max:
        reason = (
            f"the server can remember {request.room_max} producers of partitions at most, not {request.room}"
        )
        return Refused(ErrorCode.INVALID_REQUEST, reason)
    further = request.further_room(room)
    if further > request.free_room:
        reason = f"the server has room for {request.free_room} more producers of partitions, not {further}"
        return Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, reason)
    return None


def _refuse(error_code: ErrorCode, reason: str) -> Decision[Response]:
    return Decision((), Refused(error_code, reason))


def _fields(record: StateRecord) -> Any:
    assert record.value is not None
    return json.loads(record.value)


def _length_record(length_ms: int) -> StateRecord:
    return _record(_LENGTH_KEY, {"ms": length_ms})


def _expired_record(expired_below: int, granted_below: int) -> StateRecord:
    return _record(_EXPIRED_KEY, {"expired_below": expired_below, "granted_below": granted_below})


def _leases_record(ids: list[int], epochs: list[int], rooms: list[int]) -> StateRecord:
    """Several leases have a key that no single one has: the newest record of a key must say all of it."""
    key = f"{ids[0]}" if len(ids) == 1 else f"{ids[0]}-{ids[-1]}"
    return _record(_LEASES_PREFIX + key.encode(), {"ids": ids, "epochs": epochs, "rooms": rooms})


def _record(key: bytes, fields: Mapping[str, int | list[int]]) -> StateRecord:
    return StateRecord(key, json.dumps({"v": _VERSION, **fields}, separators=(",", ":")).encode())
