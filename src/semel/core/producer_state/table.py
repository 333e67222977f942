"""The table of verdicts: every batch that a log may be sent, what it is answered, and what comes of it.

Each row is a scenario: what the log took from the producer before, the batch that comes now, the verdict of
:mod:`semel.core.producer_state.verdict`, and what whoever wrote it learns. Tests carry every row out: on a producer
state, in the client's pipeline, on a server over the wire, and on Apache Kafka for its column. ``docs/verdicts.md``
is made from it by ``tools/make_verdicts.py``.

Epochs are counted from the one that the producer was granted, so that they say nothing of random first epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from semel.core.producer_state import verdict
from semel.core.producer_state.entry import WINDOW_BATCHES_MAX
from semel.errors import ErrorCode
from semel.sequence import SEQUENCE_MAX


class Whose(Enum):
    """Where the producer id of a scenario comes from."""

    NOBODY = "no id"
    STOCK = "an id for as long as it writes, as stock clients get them"
    LEASED = "a leased id"
    LEASE_OVER = "a leased id whose lease is over when the batch comes"
    NEVER_LEASED = "an id above all that were leased"
    PASSED_OVER = "an id that nobody was leased, below one that somebody was"


class Told(Enum):
    """What becomes of a batch of semel's own producer that is answered so, as it is told to whoever wrote it."""

    STORED = "stored"
    ANEW = "stored: it goes anew, as this one is not"
    FENCED = "not stored, fenced"
    FENCED_IN_DOUBT = "fenced, cannot know"
    CANNOT_KNOW = "cannot know"


@dataclass(frozen=True, slots=True)
class Batch:
    """A client's batch."""

    base_sequence: int
    record_count: int = 1
    producer_epoch: int = 0
    is_transactional: bool = False  # and its coordinator vouches for it


@dataclass(frozen=True, slots=True)
class Marker:
    """A fence: no lower epoch may write any more. It ends the transaction that is open, as aborted."""

    producer_epoch: int


Sent = Batch | Marker


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comes of a batch, on the wire and for whoever wrote it. Nobody is told of a marker."""

    verdict: type[verdict.Verdict]
    code: ErrorCode
    kafka: ErrorCode | None  # what Apache Kafka answers; None: it knows no such thing
    told: Told | None = None  # by the answer to a first attempt
    told_in_doubt: Told | None = None  # by the answer to a later one, after one that never was answered


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    scenario: str
    batch: str
    before: tuple[Sent, ...]
    sent: Sent
    outcome: Outcome
    whose: Whose = Whose.STOCK
    base_offset: int | None = None  # of a duplicate's answer: where the batch is stored

    @property
    def needs_coordinator(self) -> bool:
        """Whether something of it is of a transaction."""
        sent = (*self.before, self.sent)
        return any(isinstance(one, Batch) and one.is_transactional for one in sent)

    @property
    def begins_in_the_past(self) -> bool:
        """Whether the log has to know the producer from more rows than a test could send."""
        return any(isinstance(sent, Batch) and sent.base_sequence > 0 for sent in self.before[:1])


_OK: Final = ErrorCode.NONE
_OUT_OF_ORDER: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
_STALE_EPOCH: Final = ErrorCode.INVALID_PRODUCER_EPOCH
_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_PRODUCER_ID
_TXN_STATE: Final = ErrorCode.INVALID_TXN_STATE

APPENDED: Final = Outcome(verdict.Append, _OK, _OK, Told.STORED, Told.STORED)
DUPLICATE: Final = Outcome(verdict.Duplicate, _OK, _OK, Told.STORED, Told.STORED)
OLD_DUPLICATE: Final = Outcome(
    verdict.Duplicate, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, _OUT_OF_ORDER, Told.STORED, Told.STORED
)
GAP: Final = Outcome(verdict.OutOfOrderSequence, _OUT_OF_ORDER, _OUT_OF_ORDER, Told.ANEW, Told.CANNOT_KNOW)
STRADDLING: Final = Outcome(
    verdict.Straddling, ErrorCode.INVALID_RECORD, _OUT_OF_ORDER, Told.CANNOT_KNOW, Told.CANNOT_KNOW
)
FENCED: Final = Outcome(
    verdict.InvalidProducerEpoch, _STALE_EPOCH, _STALE_EPOCH, Told.FENCED, Told.FENCED_IN_DOUBT
)
UNKNOWN: Final = Outcome(verdict.UnknownProducer, _UNKNOWN_ID, _OK, Told.ANEW, Told.CANNOT_KNOW)
NEVER_LEASED: Final = Outcome(verdict.UnknownProducer, _UNKNOWN_ID, None, Told.ANEW, Told.ANEW)
LEASED: Final = Outcome(verdict.Append, _OK, None, Told.STORED, Told.STORED)
OVER: Final = Outcome(verdict.LeaseExpired, _UNKNOWN_ID, None, Told.ANEW, Told.ANEW)
OVER_AND_STORED: Final = Outcome(verdict.LeaseExpired, _UNKNOWN_ID, None, None, Told.STORED)
WITHOUT_ID: Final = Outcome(verdict.Append, _OK, _OK)
RAISED: Final = Outcome(verdict.Append, _OK, _OK)
RAISED_ALREADY: Final = Outcome(verdict.Duplicate, _OK, _OK)
RAISED_HIGHER: Final = Outcome(verdict.InvalidProducerEpoch, _STALE_EPOCH, _STALE_EPOCH)
DUPLICATE_IN_A_TRANSACTION: Final = Outcome(verdict.Duplicate, _OK, _OK)
IN_A_TRANSACTION: Final = Outcome(verdict.Append, _OK, _OK)
OUTSIDE_OF_IT: Final = Outcome(verdict.InvalidTxnState, _TXN_STATE, _TXN_STATE)
NO_PART_OF_IT: Final = Outcome(verdict.InvalidTxnState, _TXN_STATE, _STALE_EPOCH)  # there the coordinator's
ENDED: Final = Outcome(verdict.Append, _OK, _OK)
SHUT_OUT_AS_A_WHOLE: Final = Outcome(verdict.Duplicate, _OK, None)
NOTHING_TO_FENCE: Final = Outcome(verdict.UnknownProducer, _UNKNOWN_ID, None)

_TEN: Final = (Batch(0, 5), Batch(5, 5))
_ONE_TOO_MANY: Final = tuple(map(Batch, range(WINDOW_BATCHES_MAX + 1)))
_FENCED: Final = (*_TEN, Marker(1))
_OPEN: Final = (*_TEN, Batch(10, 5, is_transactional=True))  # a transaction
_OVER: Final = (*_OPEN, Marker(0))
_BEFORE_THE_WRAP: Final = (Batch(SEQUENCE_MAX - 9, 3),)
_ACROSS_THE_WRAP: Final = (*_BEFORE_THE_WRAP, Batch(SEQUENCE_MAX - 6, 20))  # its last sequence is 12

TABLE: Final = (
    Row("no_id", "has no producer id", (), Batch(-1), WITHOUT_ID, Whose.NOBODY),
    Row("new_id", "of an unknown id, starts at 0", (), Batch(0, 5), APPENDED),
    Row("unknown_id_not_at_0", "of an unknown id, starts elsewhere", (), Batch(5, 5), UNKNOWN),
    Row("next", "starts just after the mark", _TEN, Batch(10, 3), APPENDED),
    Row("gap", "starts beyond that", _TEN, Batch(11, 3), GAP),
    Row(
        "duplicate_in_the_window",
        "at or below the mark, one of the last five",
        _ONE_TOO_MANY,
        Batch(1),
        DUPLICATE,
        base_offset=1,
    ),
    Row(
        "duplicate_beyond_the_window",
        "at or below the mark, older than the last five",
        _ONE_TOO_MANY,
        Batch(0),
        OLD_DUPLICATE,
    ),
    Row("duplicate_of_a_part", "at or below the mark, a part of a batch", _TEN, Batch(6, 2), OLD_DUPLICATE),
    Row(
        "duplicate_of_several",
        "at or below the mark, several batches as one",
        _TEN,
        Batch(0, 10),
        OLD_DUPLICATE,
    ),
    Row("straddling", "starts at or below the mark and ends above it", _TEN, Batch(8, 4), STRADDLING),
    Row(
        "lower_epoch",
        "of a lower epoch",
        (Batch(0, 5, producer_epoch=3),),
        Batch(5, 5, producer_epoch=2),
        FENCED,
    ),
    Row(
        "lower_epoch_at_0",
        "of a lower epoch, starts at 0",
        (Batch(0, 5, producer_epoch=3),),
        Batch(0, 5, producer_epoch=2),
        FENCED,
    ),
    Row("higher_epoch_at_0", "of the next epoch, starts at 0", _TEN, Batch(0, 5, producer_epoch=1), APPENDED),
    Row(
        "higher_epoch_not_at_0",
        "of the next epoch, starts elsewhere",
        _TEN,
        Batch(10, 5, producer_epoch=1),
        GAP,
    ),
    Row(
        "jump_in_the_epoch_at_0",
        "of an epoch that jumps, starts at 0",
        _TEN,
        Batch(0, 5, producer_epoch=9_000),
        APPENDED,
    ),
    Row(
        "jump_in_the_epoch_not_at_0",
        "of an epoch that jumps, starts elsewhere",
        _TEN,
        Batch(10, 5, producer_epoch=9_000),
        GAP,
    ),
    Row("lower_than_a_fence", "next, of an epoch that a marker has shut out", _FENCED, Batch(10, 5), FENCED),
    Row(
        "at_0_after_a_fence",
        "of the epoch that a marker began, starts at 0",
        _FENCED,
        Batch(0, 5, producer_epoch=1),
        APPENDED,
    ),
    Row(
        "not_at_0_after_a_fence",
        "of the epoch that a marker began, starts elsewhere",
        _FENCED,
        Batch(10, 5, producer_epoch=1),
        GAP,
    ),
    Row(
        "next_across_the_wrap",
        "starts just after the mark, ends behind 2^31-1",
        _BEFORE_THE_WRAP,
        Batch(SEQUENCE_MAX - 6, 20),
        APPENDED,
    ),
    Row(
        "next_after_the_wrap",
        "starts just after a mark that has wrapped",
        _ACROSS_THE_WRAP,
        Batch(13, 2),
        APPENDED,
    ),
    Row(
        "gap_across_the_wrap",
        "beyond the mark by distance, below it by number",
        _BEFORE_THE_WRAP,
        Batch(3, 2),
        GAP,
    ),
    Row(
        "duplicate_across_the_wrap",
        "one of the last five, across 2^31-1",
        _ACROSS_THE_WRAP,
        Batch(SEQUENCE_MAX - 6, 20),
        DUPLICATE,
        base_offset=3,
    ),
    Row(
        "duplicate_of_a_part_across_the_wrap",
        "below the mark by distance, above it by number",
        _ACROSS_THE_WRAP,
        Batch(SEQUENCE_MAX, 2),
        OLD_DUPLICATE,
    ),
    Row(
        "straddling_across_the_wrap",
        "starts before 2^31-1 and ends above a mark that has wrapped",
        _ACROSS_THE_WRAP,
        Batch(SEQUENCE_MAX, 15),
        STRADDLING,
    ),
    Row(
        "leased_id",
        "of a leased id while its lease lives, starts at 0",
        (),
        Batch(0, 5),
        LEASED,
        Whose.LEASED,
    ),
    Row(
        "lease_over",
        "of a leased id whose lease is over",
        (Batch(0, 5),),
        Batch(5, 5),
        OVER,
        Whose.LEASE_OVER,
    ),
    Row(
        "lease_over_at_0",
        "of a leased id whose lease is over, starts at 0",
        (),
        Batch(0, 5),
        OVER,
        Whose.LEASE_OVER,
    ),
    Row(
        "late_copy_of_a_lease_that_is_over",
        "of a leased id whose lease is over, stored before",
        (Batch(0, 5),),
        Batch(0, 5),
        OVER_AND_STORED,
        Whose.LEASE_OVER,
    ),
    Row(
        "never_leased",
        "of a leased id above all that were granted, starts anywhere",
        (),
        Batch(0, 5),
        NEVER_LEASED,
        Whose.NEVER_LEASED,
    ),
    Row(
        "passed_over",
        "of a leased id that was never granted, below one that was",
        (),
        Batch(0, 5),
        NEVER_LEASED,
        Whose.PASSED_OVER,
    ),
    Row(
        "begins_a_transaction",
        "begins a transaction, next",
        _TEN,
        Batch(10, 3, is_transactional=True),
        IN_A_TRANSACTION,
    ),
    Row(
        "next_in_its_transaction",
        "is of the open transaction, next",
        _OPEN,
        Batch(15, 3, is_transactional=True),
        IN_A_TRANSACTION,
    ),
    Row(
        "duplicate_in_its_transaction",
        "is of the open transaction, one of the last five",
        _OPEN,
        Batch(10, 5, is_transactional=True),
        DUPLICATE_IN_A_TRANSACTION,
        base_offset=10,
    ),
    Row(
        "outside_of_its_transaction",
        "is of no transaction while one is open, next",
        _OPEN,
        Batch(15, 3),
        OUTSIDE_OF_IT,
    ),
    Row(
        "of_a_later_transaction",
        "is of a transaction of the next epoch while one is open, starts at 0",
        _OPEN,
        Batch(0, 3, producer_epoch=1, is_transactional=True),
        NO_PART_OF_IT,
    ),
    Row(
        "next_after_a_transaction",
        "is of no transaction after one was ended, next",
        _OVER,
        Batch(15, 3),
        IN_A_TRANSACTION,
    ),
    Row(
        "marker_of_an_open_transaction",
        "is a marker of the current epoch while a transaction is open",
        _OPEN,
        Marker(0),
        ENDED,
    ),
    Row(
        "marker_of_a_transaction_that_is_over",
        "is a marker of the current epoch after the transaction was ended",
        _OVER,
        Marker(0),
        RAISED_ALREADY,
    ),
    Row(
        "marker_of_a_higher_epoch_in_a_transaction",
        "is a marker of a higher epoch while a transaction is open",
        _OPEN,
        Marker(1),
        ENDED,
    ),
    Row(
        "marker_of_a_lower_epoch_in_a_transaction",
        "is a marker of a lower epoch while a transaction is open",
        (Batch(0, 5, producer_epoch=3, is_transactional=True),),
        Marker(2),
        RAISED_HIGHER,
    ),
    Row("marker_of_an_unknown_id", "is a fence, of an unknown id", (), Marker(1), RAISED),
    Row("marker_of_a_higher_epoch", "is a fence of a higher epoch", _TEN, Marker(1), RAISED),
    Row("marker_of_the_same_epoch", "is a fence of the current epoch", _TEN, Marker(0), RAISED_ALREADY),
    Row(
        "marker_of_a_lower_epoch",
        "is a fence of a lower epoch",
        (Batch(0, 5, producer_epoch=3),),
        Marker(2),
        RAISED_HIGHER,
    ),
    Row(
        "marker_of_a_lease_that_is_over",
        "is a fence of a leased id whose lease is over",
        (),
        Marker(1),
        SHUT_OUT_AS_A_WHOLE,
        Whose.LEASE_OVER,
    ),
    Row(
        "marker_of_a_lease_never_granted",
        "is a fence of a leased id above all that were granted",
        (),
        Marker(1),
        NOTHING_TO_FENCE,
        Whose.NEVER_LEASED,
    ),
    Row(
        "marker_of_a_lease_passed_over",
        "is a fence of a leased id that was never granted, below one that was",
        (),
        Marker(1),
        NOTHING_TO_FENCE,
        Whose.PASSED_OVER,
    ),
)
