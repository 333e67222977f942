"""Who may write: producer ids and their epochs. A log-backed core (:mod:`semel.core.decision`).

Invariants:
- A producer id is given out once, ever. Ids come in blocks, and a block is in the log before its first id is
  used: a crash wastes the rest of a block and reuses none (KIP-98; the proposal's "global sequence").
- Of one id, every epoch is granted to one caller only. After a grant of epoch n+1 nothing is granted for n:
  of two copies of one saved identity the first to ask goes on, the other is ``PRODUCER_FENCED``.
- When the epochs of an id are used up, whoever resumes it goes on with a fresh id at epoch 0.

In Kafka an id without a transactional id cannot be resumed (``InitProducerId`` ignores it); here it can. Those that
have one are :mod:`semel.core.transaction`'s; by its number alone nobody resumes such an id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.core.decision import Decision, StateRecord
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX, ProducerGrant

BLOCK_IDS: Final = 100
IDENTITIES_MAX: Final = 100_000

_BLOCK_KEY: Final = b"producer-ids"
NAMED_PREFIX: Final = b"identity/"
_RESUMED_PREFIX: Final = b"producer/"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class IdBlock:
    """Producer ids that nobody else has: from ``first_id`` up to ``end_id``, exclusive."""

    first_id: int
    end_id: int


@dataclass(frozen=True, slots=True)
class Refused:
    """No grant."""

    error_code: ErrorCode
    reason: str


NO_FRESH_ID: Final = Refused(
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no fresh producer id is at hand: ask again"
)


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Ask for the right to write: without an id a fresh one, else that one, and the other copies are fenced.

    ``fresh_producer_id`` comes from a claimed block; it is wasted when not needed. If there is none at hand, whoever
    needs it is told to ask again.
    """

    fresh_producer_id: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Identity:
    """A named identity as it was last granted, in a folder of format 2 or below."""

    name: str
    producer_id: int
    producer_epoch: int
    granted_ms: int

    @property
    def grant(self) -> ProducerGrant:
        return ProducerGrant(self.producer_id, self.producer_epoch)


Response: TypeAlias = ProducerGrant | Refused


class Identities:
    """All that was ever granted and still matters."""

    def __init__(self, name_of: Callable[[int], str | None] = lambda producer_id: None) -> None:
        """``name_of``: the transactional id that an id belongs to."""
        self._next_id = 0
        self._name_of = name_of
        self.named: Final[dict[str, Identity]] = {}  # of a folder that is to be taken over
        self._resumed_epochs: dict[int, int] = {}  # ids without a name whose epoch is above 0

    @property
    def next_id(self) -> int:
        """All ids below are claimed."""
        return self._next_id

    def take(self, block: IdBlock) -> Decision[IdBlock]:
        """A block from wherever they come from; not below what was claimed before."""
        assert block.first_id >= self._next_id, "no id twice"
        return Decision((_record(_BLOCK_KEY, {"next": block.end_id}),), block)

    def decide(self, request: InitProducer) -> Decision[Response]:
        """What becomes of ``request``."""
        decision = self._init(request)
        fresh_id = request.fresh_producer_id
        # Whoever guesses an id of a claimed block may have resumed it before it was given out.
        is_at_hand = fresh_id != NO_PRODUCER_ID and fresh_id not in self._resumed_epochs
        if decision.response == ProducerGrant(fresh_id, 0) and not is_at_hand:
            return Decision((), NO_FRESH_ID)
        return decision

    def seal(self, producer_id: int) -> Decision[None]:
        """Nobody resumes it any more."""
        return Decision((_resumed_record(producer_id, PRODUCER_EPOCH_MAX),), None)

    def forget_named(self) -> Decision[None]:
        """They are known elsewhere, durably."""
        keys = [NAMED_PREFIX + name.encode() for name in sorted(self.named)]
        return Decision(tuple(StateRecord(key, None) for key in keys), None)

    def _init(self, request: InitProducer) -> Decision[Response]:
        if request.producer_id == NO_PRODUCER_ID:
            return Decision((), ProducerGrant(request.fresh_producer_id, 0))
        return self._resume(request)

    def apply(self, record: StateRecord) -> bool:
        if record.key == _BLOCK_KEY:
            assert record.value is not None
            self._next_id = json.loads(record.value)["next"]
        elif record.key.startswith(NAMED_PREFIX):
            name = record.key[len(NAMED_PREFIX) :].decode()
            if record.value is None:
                self.named.pop(name, None)
            else:
                fields = json.loads(record.value)
                self.named[name] = Identity(name, fields["id"], fields["epoch"], fields["granted_ms"])
        elif record.key.startswith(_RESUMED_PREFIX):
            producer_id = int(record.key[len(_RESUMED_PREFIX) :])
            if record.value is None:
                self._resumed_epochs.pop(producer_id, None)
            else:
                self._resumed_epochs[producer_id] = json.loads(record.value)["epoch"]
        else:
            return False
        return True

    def live_records(self) -> Iterable[StateRecord]:
        yield _record(_BLOCK_KEY, {"next": self._next_id})
        for _, identity in sorted(self.named.items()):
            yield _identity_record(identity)
        for producer_id, producer_epoch in sorted(self._resumed_epochs.items()):
            yield _resumed_record(producer_id, producer_epoch)

    def _resume(self, request: InitProducer) -> Decision[Response]:
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        if not 0 <= producer_id < self._next_id:
            return _refuse(ErrorCode.UNKNOWN_PRODUCER_ID, f"producer id {producer_id} was never given out")
        name = self._name_of(producer_id)
        if name is not None:
            reason = f"producer id {producer_id} belongs to transactional id {name!r}: ask by its name"
            return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, reason)
        current = self._resumed_epochs.get(producer_id, 0)
        if producer_epoch < current:
            return _refuse(
                ErrorCode.PRODUCER_FENCED, f"producer id {producer_id} was resumed by another copy: {current}"
            )
        if producer_epoch > current:
            reason = f"producer id {producer_id} is at epoch {current}; {producer_epoch} was never granted"
            return _refuse(ErrorCode.INVALID_PRODUCER_EPOCH, reason)
        if producer_id not in self._resumed_epochs and len(self._resumed_epochs) >= IDENTITIES_MAX:
            reason = f"{IDENTITIES_MAX} producer ids are resumed already"
            return _refuse(ErrorCode.THROTTLING_QUOTA_EXCEEDED, reason)
        if current >= PRODUCER_EPOCH_MAX - 1:
            sealed = _resumed_record(producer_id, PRODUCER_EPOCH_MAX)
            return Decision((sealed,), ProducerGrant(request.fresh_producer_id, 0))
        record = _resumed_record(producer_id, current + 1)
        return Decision((record,), ProducerGrant(producer_id, current + 1))


def _refuse(error_code: ErrorCode, reason: str) -> Decision[Response]:
    return Decision((), Refused(error_code, reason))


def _identity_record(identity: Identity) -> StateRecord:
    fields = {
        "id": identity.producer_id,
        "epoch": identity.producer_epoch,
        "granted_ms": identity.granted_ms,
    }
    return _record(NAMED_PREFIX + identity.name.encode(), fields)


def _resumed_record(producer_id: int, producer_epoch: int) -> StateRecord:
    return _record(_RESUMED_PREFIX + str(producer_id).encode(), {"epoch": producer_epoch})


def _record(key: bytes, fields: dict[str, int]) -> StateRecord:
    return StateRecord(key, json.dumps({"v": _VERSION, **fields}, separators=(",", ":")).encode())
