"""Why was this batch rejected? The one answer to that question.

The table, a scenario a row, is :data:`semel.core.producer_state.table.TABLE`; ``docs/verdicts.md`` shows it.

The mark is the last sequence stored in the epoch. "Below" and "beyond" are meant by distance, never by
magnitude (:mod:`semel.sequence`): after 2^31-1 comes 0. A duplicate vouches for the sequence, not for
the content. Kafka (``ProducerAppendInfo.checkSequence``, KIP-98) differs in three rows: it takes any first
sequence of an unknown id, and answers 45 for old duplicates and for straddling batches, on which stock
clients raise their epoch and send the rows again. 87 is what they take as final (``docs/stock-clients.md``).

The two rows of leased ids come before all others, whatever is remembered of the id: when a batch was stored, its
answer lost, the lease over and the entry gone, the copy that arrives late would else be new, as it starts at 0.
Stock ids are no leases and have no such end; one that is forgotten may begin again at 0.

A batch that a client may append can still be one that its transaction forbids: while one is open, all that the producer
writes here is of it, under its epoch. Kafka (``ProducerAppendInfo.appendDataBatch``) lets a batch of a higher epoch
join; there its coordinator alone keeps that from happening, here the log does as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from semel.core.lease import LiveLeases
from semel.core.producer_state.entry import ProducerEntry
from semel.errors import ErrorCode
from semel.record.batch import BatchHeader
from semel.sequence import advance, distance
from semel.types import NO_PRODUCER_ID, NO_SEQUENCE, is_leased


@dataclass(frozen=True, slots=True)
class Append:
    """New: it goes in."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Stored already. ``base_offset`` is known as long as the very same batch is in the window."""

    base_offset: int | None


@dataclass(frozen=True, slots=True)
class OutOfOrderSequence:
    """A gap: the batches in between have not arrived."""

    expected_sequence: int
    got_sequence: int


@dataclass(frozen=True, slots=True)
class Straddling:
    """Its first rows are stored and its last ones are not; no answer could be right for the whole."""

    stored_to_sequence: int
    base_sequence: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class InvalidProducerEpoch:
    """A newer epoch of the same id is known: the sender is fenced."""

    current_epoch: int
    got_epoch: int


@dataclass(frozen=True, slots=True)
class UnknownProducer:
    """Nothing is known of the id, so what came before this sequence may or may not be stored."""

    producer_id: int
    got_sequence: int


@dataclass(frozen=True, slots=True)
class LeaseExpired:
    """The lease of the id is over, and so are all below ``expired_below``: nothing more is stored under it."""

    producer_id: int
    expired_below: int


@dataclass(frozen=True, slots=True)
class InvalidTxnState:
    """The producer's transaction is open since ``first_offset``, and the batch is no part of it."""

    first_offset: int


Refusal: TypeAlias = (
    OutOfOrderSequence | Straddling | InvalidProducerEpoch | UnknownProducer | LeaseExpired | InvalidTxnState
)
Verdict: TypeAlias = Append | Duplicate | Refusal

APPEND = Append()


def judge(entry: ProducerEntry | None, header: BatchHeader) -> Verdict:
    """What to do with a batch, by what is known of its producer on this partition."""
    if header.is_control:
        return judge_marker(entry, header.producer_epoch)
    if header.producer_id == NO_PRODUCER_ID:
        return APPEND
    verdict = _judge_sequence(entry, header)
    if verdict is APPEND and entry is not None and entry.is_in_transaction:
        is_part = header.is_transactional and header.producer_epoch == entry.producer_epoch
        return APPEND if is_part else InvalidTxnState(entry.current_txn_first_offset)
    return verdict


def _judge_sequence(entry: ProducerEntry | None, header: BatchHeader) -> Verdict:
    base_sequence = header.base_sequence
    if (
        base_sequence == NO_SEQUENCE
    ):  # the server's own batch, in a client's transaction: only the epoch counts
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return InvalidProducerEpoch(entry.producer_epoch, header.producer_epoch)
        return APPEND
    if entry is None:
        return APPEND if base_sequence == 0 else UnknownProducer(header.producer_id, base_sequence)
    if header.producer_epoch < entry.producer_epoch:
        return InvalidProducerEpoch(entry.producer_epoch, header.producer_epoch)
    if header.producer_epoch > entry.producer_epoch or not entry.window:
        return APPEND if base_sequence == 0 else OutOfOrderSequence(0, base_sequence)

    mark = entry.last_sequence
    if base_sequence == advance(mark, 1):
        return APPEND
    ahead = distance(base_sequence, mark)
    if ahead > 1:
        return OutOfOrderSequence(advance(mark, 1), base_sequence)
    last_sequence = header.last_sequence
    if ahead + distance(last_sequence, base_sequence) > 0:
        return Straddling(mark, base_sequence, last_sequence)
    for span in entry.window:
        if span.base_sequence == base_sequence and span.last_sequence == last_sequence:
            return Duplicate(span.base_offset)
    return Duplicate(None)


def judge_lease(header: BatchHeader, leases: LiveLeases) -> LeaseExpired | UnknownProducer | Duplicate | None:
    """What is wrong with a leased id by its number, before its batch is judged; ``None`` while its lease lives.

    A lease that is over needs no fence: it is shut out as a whole.

    The numbers between those that are over and those to come are not all of leases that live: stock ids are taken
    from the same sequence, and what is left of a block is wasted by a crash. Only a forger has such an id, and it
    is refused as never leased where it would become known, not at each batch (``Partition._is_one_too_many``).
    """
    producer_id = header.producer_id
    if producer_id < leases.expired_below:
        return Duplicate(None) if header.is_control else LeaseExpired(producer_id, leases.expired_below)
    if producer_id >= leases.granted_below:
        return UnknownProducer(producer_id, header.base_sequence)
    return None


def judge_marker(
    entry: ProducerEntry | None, producer_epoch: int
) -> Append | Duplicate | InvalidProducerEpoch:
    """What to do with a marker: end the open transaction, raise the epoch, see that both is done already, or refuse.

    A marker of the current epoch ends the transaction that is open. Without one it has nothing left to do: it has been
    ended, and older epochs are shut out as it is.
    """
    if entry is None or producer_epoch > entry.producer_epoch:
        return APPEND
    if producer_epoch == entry.producer_epoch:
        return APPEND if entry.is_in_transaction else Duplicate(None)
    return InvalidProducerEpoch(entry.producer_epoch, producer_epoch)


def error_code(verdict: Verdict) -> ErrorCode:
    """The answer on the wire."""
    match verdict:
        case Append():
            return ErrorCode.NONE
        case Duplicate(base_offset):
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if base_offset is None else ErrorCode.NONE
        case OutOfOrderSequence():
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        case Straddling():
            return ErrorCode.INVALID_RECORD
        case InvalidProducerEpoch():
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case UnknownProducer() | LeaseExpired():
            return ErrorCode.UNKNOWN_PRODUCER_ID
        case InvalidTxnState():
            return ErrorCode.INVALID_TXN_STATE


def explain(verdict: Verdict) -> str | None:
    """The evidence in words, for the answer's error message; ``None`` for a success."""
    match verdict:
        case Append():
            return None
        case Duplicate(base_offset):
            return "stored already, before the last five batches" if base_offset is None else None
        case OutOfOrderSequence(expected, got):
            return f"expected sequence {expected}, got {got}; nothing of the batch was stored"
        case Straddling(stored_to, base, last):
            return f"sequences {base} to {last} straddle {stored_to}, up to which rows are stored"
        case InvalidProducerEpoch(current, got):
            return f"producer epoch {got} is fenced by epoch {current}"
        case UnknownProducer(producer_id, got):
            if is_leased(producer_id):
                return f"producer id {producer_id} was never leased"
            return f"producer id {producer_id} is not known here, and its sequence {got} is not a first one"
        case InvalidTxnState(first_offset):
            return (
                f"the producer's transaction is open since offset {first_offset}; the batch is no part of it"
            )
        case LeaseExpired(producer_id, expired_below):
            return f"the lease of producer id {producer_id} is over, as are all below {expired_below}"
