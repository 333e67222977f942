"""A producer's transactions, one after the other: what is asked of the coordinators, and what their answers mean.

A room of the producer's pipeline: rows wait until it admits their partition, and it ends a transaction once they are
settled. One request is under way at a time. Both protocols (``is_v2``): KIP-98, where the coordinator is told of each
partition before a row goes there; and part 2 of KIP-890, where the write tells it, and each transaction has an epoch
of its own. KIP-447 for offsets, KIP-360 for the next epoch.

Invariants (each has a test of its name):

- ``committed_is_stored``: EndTxn is asked to commit only when every row of the transaction is stored, all offsets are
  taken down, and nothing of it failed. What failed once is never committed.
- ``not_stored_is_not_committed``: of a transaction that ends without a doubt, and not as committed, no attempt to
  commit can have been heard; one that can, and has no definite answer, is in doubt.
- ``nothing_late_joins``: an abort, and a commit some request of which was lost, is followed by another epoch: with the
  answer in the second protocol, by InitProducerId in the first. So whatever is still on the way of the one
  transaction is refused in the next (KAFKA-14402, KAFKA-17754).
- ``no_older_offsets``: once a commit of offsets was lost on its way, no others are taken down in the transaction: the
  lost one could come behind them.
- ``one_question``: one request to a coordinator is under way at a time, and so is one commit of offsets: who asks for
  the next one waits until the one before is taken down.
- ``bounded``: starting, ending, and a commit of offsets take ``patience_ms`` at most, and one request's time-out.

Kafka's counterpart is ``TransactionManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from semel.core.client.transaction_events import (
    AbortAsked,
    AddOffsets,
    AddPartitions,
    AskCoordinator,
    AskProducerId,
    BeginAsked,
    CommitAsked,
    CommitOffsets,
    CoordinatorAnswered,
    CoordinatorLost,
    CoordinatorQuestion,
    DescribeOwn,
    EndTransaction,
    GivenUp,
    OffsetsAsked,
    OwnDescription,
    StartAsked,
    TransactionEvent,
    TransactionOffsets,
)
from semel.core.client.transaction_places import (
    Aborting,
    Broken,
    Committing,
    End,
    Ended,
    Failure,
    Flushing,
    Judging,
    Open,
    Place,
    Ready,
    Starting,
    Step,
    Unstarted,
    follow,
)
from semel.errors import ErrorCode
from semel.types import ProducerGrant, TopicPartition

_JUDGING_MS: Final = 5_000  # whoever waits for the verdict has failed already


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """``timeout_ms``: after which the coordinator aborts; ``patience_ms``: how long an answer is waited for."""

    timeout_ms: int = 60_000
    patience_ms: int = 60_000
    retry_backoff_ms: int = 50
    retry_backoff_ms_max: int = 1_000


@dataclass(frozen=True, slots=True)
class Committed:
    """It counts."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """Nothing of it counts; ``failure``: why, where nobody had asked for that."""

    failure: Failure | None


Outcome = Committed | Aborted | Ended


class Means(Enum):
    """What a coordinator's refusal leads to."""

    DONE = auto()
    AGAIN = auto()  # the same request, after a pause
    ABORT = auto()  # this transaction cannot be committed
    SHUT_OUT = auto()  # a higher epoch is known
    EXPIRED = auto()  # the transactional id is not known any more
    REFUSE = auto()  # for ever


_MEANS: Final[Mapping[ErrorCode, Means]] = {
    ErrorCode.NONE: Means.DONE,
    ErrorCode.INVALID_PRODUCER_EPOCH: Means.SHUT_OUT,
    ErrorCode.PRODUCER_FENCED: Means.SHUT_OUT,
    ErrorCode.INVALID_TXN_STATE: Means.SHUT_OUT,  # in the second protocol, of one that was aborted for its time
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Means.EXPIRED,
    ErrorCode.UNKNOWN_PRODUCER_ID: Means.EXPIRED,
    # Refused for what the transaction has in it, or for how its group stands: the next one may have better luck.
    ErrorCode.TRANSACTION_ABORTABLE: Means.ABORT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Means.ABORT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Means.ABORT,
    ErrorCode.INVALID_GROUP_ID: Means.ABORT,
    ErrorCode.ILLEGAL_GENERATION: Means.ABORT,
    ErrorCode.UNKNOWN_MEMBER_ID: Means.ABORT,
    ErrorCode.FENCED_INSTANCE_ID: Means.ABORT,
    ErrorCode.REBALANCE_IN_PROGRESS: Means.ABORT,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: Means.ABORT,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Means.ABORT,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Means.ABORT,
}
# Told before anything is written; of the others some may follow a write that did not come to all replicas in time.
_NOT_HEARD: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS})
# For good, and yet it may follow a write: a fault of the coordinator's own, or a code that is not known here.
_SAYS_NOTHING: Final = frozenset({ErrorCode.UNKNOWN})


def means(code: ErrorCode) -> Means:
    """The one table of coordinators' codes; what Produce answers is :func:`semel.core.client.fate.next_step`'s."""
    known = _MEANS.get(code)
    if known is not None:
        return known
    return Means.AGAIN if code.retriable else Means.REFUSE


class Transactions:
    """Timed: ``handle(event, now_ms)``, ``advance(now_ms, …)`` for what is to be asked, ``next_deadline_ms()``."""

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.place: Place = Unstarted()
        self.grant: ProducerGrant | None = None
        self.outcome: Outcome | None = None  # of the newest transaction, once it is known
        self.is_v2 = False
        self._added: set[TopicPartition] = set()  # the coordinator knows that they are written to
        self._wanted: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._offsets: TransactionOffsets | None = None
        self._is_begun = False  # the coordinator may have heard of the transaction
        self._has_lost = False  # some request of it is perhaps still on its way
        self._has_lost_offsets = False  # one of them would take offsets down
        self._began_ms = 0
        self._asking: AskCoordinator | None = None
        self._next_request_id = 0
        self._attempts = 0
        self._not_before_ms = 0
        self._gives_up_ms: int | None = None
        self._offsets_give_up_ms: int | None = None
        self._trouble = Failure(ErrorCode.REQUEST_TIMED_OUT, "no answer came")

    # -- for the pipeline -------------------------------------------------------------------------------

    @property
    def takes_rows(self) -> bool:
        return isinstance(self.place, Open)

    @property
    def sends(self) -> bool:
        """Whether rows of the transaction may be on their way to the log."""
        return isinstance(self.place, Open | Flushing)

    @property
    def is_lost(self) -> bool:
        """Whether rows that wait will never count: to send them would be in vain."""
        return isinstance(self.place, Broken | Aborting | Judging | Ended)

    @property
    def has_offsets(self) -> bool:
        """Whether offsets wait to be taken down."""
        return self._offsets is not None

    def admits(self, tp: TopicPartition) -> bool:
        """Whether a row may go to the partition now; if not yet, the coordinator is told of it."""
        if not self.sends:
            return False
        if self.is_v2 or tp in self._added:
            return True
        self._wanted.add(tp)
        return False

    def sent(self) -> None:
        """Rows left for the log: by that, in the second protocol, the coordinator may know of the transaction."""
        self._is_begun = True

    def lost_rows(self) -> None:
        """A request with rows was not answered."""
        self._has_lost = True

    def broke(self, failure: Failure, now_ms: int) -> None:
        """A row failed for good."""
        if isinstance(self.place, Open | Flushing):
            self._break(failure, now_ms)

    def shut_out(self, code: ErrorCode, why: str, now_ms: int) -> None:
        """A leader knows a higher epoch."""
        if isinstance(self.place, Judging | Ended | Unstarted | Ready):
            return
        in_doubt = isinstance(self.place, Committing) and self.place.is_in_doubt
        self._go(Step.SHUT_OUT, now_ms, _JUDGING_MS, code=code, why=why, is_in_doubt=in_doubt)

    # -- Timed ------------------------------------------------------------------------------------------

    def handle(self, event: TransactionEvent, now_ms: int) -> None:
        """Take in what happened; :meth:`advance` says what is to be asked."""
        match event:
            case StartAsked():
                self._go(Step.STARTED, now_ms, self.settings.patience_ms)
            case BeginAsked(is_v2):
                self._begin(is_v2, now_ms)
            case OffsetsAsked(offsets):
                if isinstance(self.place, Open) and self._has_lost_offsets:
                    why = (
                        "an earlier commit of offsets in it was lost on the way, and may come after this one"
                    )
                    self._break(Failure(ErrorCode.NETWORK_EXCEPTION, why), now_ms)
                elif isinstance(self.place, Open):
                    assert self._offsets is None, "offsets are under way"
                    self._offsets = offsets
                    self._offsets_give_up_ms = now_ms + self.settings.patience_ms
            case GivenUp(code, why):
                self.broke(Failure(code, why), now_ms)
            case CommitAsked():
                self._ask_to_commit(now_ms)
            case AbortAsked():
                if isinstance(self.place, Open | Broken | Flushing):
                    failure = self.place.failure if isinstance(self.place, Broken) else None
                    self._go(Step.ABORT_ASKED, now_ms, self.settings.patience_ms, failure=failure)
            case CoordinatorAnswered():
                asked = self._close(event.request_id)
                if asked is not None:
                    self._answered(asked, event, now_ms)
            case CoordinatorLost(request_id, sent, why):
                asked = self._close(request_id)
                if asked is not None:
                    self._has_lost |= sent
                    self._is_begun |= sent
                    self._has_lost_offsets |= sent and isinstance(asked, CommitOffsets)
                    self._trouble = Failure(ErrorCode.NETWORK_EXCEPTION, why)
                    self._again(asked, now_ms, may_be_heard=sent)

    def advance(self, now_ms: int, *, is_drained: bool) -> AskCoordinator | None:
        """What is to be asked now. ``is_drained``: no row is unsettled."""
        self._give_up_if_due(now_ms)
        if isinstance(self.place, Flushing) and is_drained and self._asking is None and not self.has_offsets:
            self._all_stored(now_ms)
        if self._asking is not None or now_ms < self._not_before_ms:
            return None
        if isinstance(self.place, Aborting) and is_drained and not self._is_begun:
            self._aborted(None, now_ms)
        question = self._question(is_drained)
        if question is None:
            return None
        self._asking = AskCoordinator(self._next_request_id, question)
        self._next_request_id += 1
        return self._asking

    def next_deadline_ms(self) -> int | None:
        """When the next look is due, if nothing happens before."""
        deadlines = [when for when in (self._gives_up_ms, self._offsets_give_up_ms) if when is not None]
        if self._asking is None and not isinstance(self.place, Unstarted | Ready | Broken | Ended):
            deadlines.append(self._not_before_ms)
        return min(deadlines, default=None)

    # -- one transaction --------------------------------------------------------------------------------

    def _begin(self, is_v2: bool, now_ms: int) -> None:
        self.place = follow(self.place, Step.BEGUN)
        self.outcome, self.is_v2 = None, is_v2
        self._began_ms = now_ms
        self._is_begun = self._has_lost = self._has_lost_offsets = False
        self._forget()

    def _forget(self) -> None:
        self._added.clear()
        self._wanted.clear()
        self._groups.clear()
        self._offsets = self._offsets_give_up_ms = None
        self._attempts = self._not_before_ms = 0

    def _ask_to_commit(self, now_ms: int) -> None:
        if isinstance(self.place, Broken):
            self._go(Step.COMMIT_ASKED, now_ms, self.settings.patience_ms, failure=self.place.failure)
        elif isinstance(self.place, Open):
            self._go(Step.COMMIT_ASKED, now_ms, self.settings.patience_ms)

    def _all_stored(self, now_ms: int) -> None:
        if self._is_begun:
            self.place = follow(self.place, Step.ALL_STORED)
            self._attempts = self._not_before_ms = 0
        else:  # nothing was in it: there is nothing to end
            self._committed(None, now_ms)

    def _committed(self, grant: ProducerGrant | None, now_ms: int) -> None:
        self.outcome = Committed()
        if grant is not None or not self._has_lost:
            self.grant = self.grant if grant is None else grant
            self._rest(Step.COMMITTED)
        else:
            self._go(Step.COMMITTED_IN_OLD_EPOCH, now_ms, self.settings.patience_ms, before=self.grant)

    def _aborted(self, grant: ProducerGrant | None, now_ms: int) -> None:
        assert isinstance(self.place, Aborting)
        self.outcome = Aborted(self.place.failure)
        if grant is not None or (self.is_v2 and not self._is_begun):
            self.grant = self.grant if grant is None else grant
            self._rest(Step.ABORTED)
        else:
            self._go(Step.ABORTED_IN_OLD_EPOCH, now_ms, self.settings.patience_ms, before=self.grant)

    def _break(self, failure: Failure, now_ms: int) -> None:
        self._offsets = self._offsets_give_up_ms = None
        kept = self.place.failure if isinstance(self.place, Broken | Aborting) else None
        is_asked = isinstance(self.place, Flushing | Committing)
        patience_ms = self.settings.patience_ms if is_asked else None
        self._go(Step.BROKE, now_ms, patience_ms, failure=kept or failure)

    def _rest(self, step: Step) -> None:
        self.place = follow(self.place, step)
        self._gives_up_ms = None
        self._forget()

    def _go(self, step: Step, now_ms: int, patience_ms: int | None, **told: object) -> None:
        self.place = follow(self.place, step, **told)
        if patience_ms is not None:
            self._gives_up_ms = now_ms + patience_ms
        if not isinstance(self.place, Open | Broken | Flushing):
            self._forget()

    def _end(self, end: End, code: ErrorCode, why: str, *, is_in_doubt: bool = False) -> None:
        # Of a transaction whose outcome is known, what comes after changes nothing.
        self.place = follow(self.place, Step.ENDED, end=end, code=code, why=why, is_in_doubt=is_in_doubt)
        assert isinstance(self.place, Ended)
        if self.outcome is None:
            self.outcome = self.place
        self._gives_up_ms = None
        self._forget()

    # -- questions --------------------------------------------------------------------------------------

    def _question(self, is_drained: bool) -> CoordinatorQuestion | None:
        match self.place:
            case Starting(before):
                return AskProducerId(before)
            case Judging():
                return DescribeOwn()
        grant = self.grant
        assert grant is not None or isinstance(self.place, Unstarted | Ended), self.place
        match self.place:
            case Open() | Flushing():
                return self._question_of_open(grant)
            case Committing():
                return None if grant is None else EndTransaction(grant, True, self.is_v2)
            case Aborting() if is_drained:
                return None if grant is None else EndTransaction(grant, False, self.is_v2)
        return None

    def _question_of_open(self, grant: ProducerGrant | None) -> CoordinatorQuestion | None:
        if grant is None:
            return None
        if wanted := frozenset(self._wanted - self._added):
            return AddPartitions(grant, wanted)
        if self._offsets is None:
            return None
        if not self.is_v2 and self._offsets.group not in self._groups:
            return AddOffsets(grant, self._offsets.group)
        return CommitOffsets(grant, self._offsets, self.is_v2)

    # -- answers ----------------------------------------------------------------------------------------

    def _close(self, request_id: int) -> CoordinatorQuestion | None:
        if self._asking is None or self._asking.request_id != request_id:
            return None
        asked, self._asking = self._asking.question, None
        return None if isinstance(self.place, Ended) else asked

    def _answered(self, asked: CoordinatorQuestion, answer: CoordinatorAnswered, now_ms: int) -> None:
        code = answer.code
        why = f"{answer.what or _what(asked)} was refused as {code.name}"
        if isinstance(asked, DescribeOwn):
            self._judge(answer, now_ms)
            return
        self._is_begun |= code not in _NOT_HEARD
        is_abort = isinstance(asked, EndTransaction) and not asked.is_commit
        match means(code):
            case _ if code is ErrorCode.INVALID_TXN_STATE and is_abort and not self.is_v2:
                self._aborted(None, now_ms)  # nothing was open: it never heard of this transaction
            case Means.DONE:
                self._attempts = self._not_before_ms = 0
                self._done(asked, answer, now_ms)
            case Means.AGAIN:
                self._trouble = Failure(code, why)
                self._again(asked, now_ms, may_be_heard=code not in _NOT_HEARD)
            case Means.ABORT if not isinstance(asked, AskProducerId):
                self._refused(asked, Failure(code, why), now_ms)
            case Means.SHUT_OUT:
                self.shut_out(code, why, now_ms)
            case Means.EXPIRED:
                self._end(End.EXPIRED, code, why, is_in_doubt=self._is_in_doubt)
            case _:
                is_commit = isinstance(asked, EndTransaction) and asked.is_commit
                is_in_doubt = self._is_in_doubt or (is_commit and code in _SAYS_NOTHING)
                self._end(End.REFUSED, code, why, is_in_doubt=is_in_doubt)

    def _refused(self, asked: CoordinatorQuestion, failure: Failure, now_ms: int) -> None:
        if self._is_in_doubt:
            self._end(End.REFUSED, failure.code, failure.why, is_in_doubt=True)
        elif isinstance(self.place, Aborting) and isinstance(asked, EndTransaction):
            self._end(End.REFUSED, failure.code, failure.why)  # an abort that cannot be had
        elif isinstance(self.place, Open | Broken | Flushing | Committing | Aborting):
            self._break(failure, now_ms)

    @property
    def _is_in_doubt(self) -> bool:
        return isinstance(self.place, Committing) and self.place.is_in_doubt

    def _again(self, asked: CoordinatorQuestion, now_ms: int, *, may_be_heard: bool) -> None:
        if may_be_heard and isinstance(self.place, Committing) and isinstance(asked, EndTransaction):
            self.place = follow(self.place, Step.DOUBTED, is_in_doubt=True)
        pause_ms = self.settings.retry_backoff_ms * 2 ** min(self._attempts, 10)
        self._attempts += 1
        self._not_before_ms = now_ms + min(pause_ms, self.settings.retry_backoff_ms_max)

    def _done(self, asked: CoordinatorQuestion, answer: CoordinatorAnswered, now_ms: int) -> None:
        match asked:
            case AskProducerId() if isinstance(self.place, Starting):
                self.grant = answer.grant
                self._rest(Step.GRANTED)
            case AddPartitions(_, tps):
                self._added |= tps
                self._wanted -= tps
            case AddOffsets(_, group):
                self._groups.add(group)
            case CommitOffsets(_, offsets):
                if self._offsets is offsets:
                    self._offsets = self._offsets_give_up_ms = None
            case EndTransaction(_, True) if isinstance(self.place, Committing):
                self._committed(answer.grant, now_ms)
            case EndTransaction(_, False) if isinstance(self.place, Aborting):
                self._aborted(answer.grant, now_ms)

    def _judge(self, answer: CoordinatorAnswered, now_ms: int) -> None:
        """Who shut us out, by how our name stands with the coordinator now."""
        if not isinstance(self.place, Judging):
            return
        if means(answer.code) is Means.AGAIN:
            self._again(DescribeOwn(), now_ms, may_be_heard=False)
            return
        self._shut_out_by(self._who(answer.described, now_ms))

    def _who(self, described: OwnDescription | None, now_ms: int) -> End:
        is_over = self._began_ms > 0 and now_ms - self._began_ms >= self.settings.timeout_ms
        if described is not None and described.grant == self.grant:
            return End.REFUSED  # nobody has shut us out
        if described is None or self.grant is None or not is_over:
            return End.FENCED if not is_over else End.TIMED_OUT
        # Another copy that took the name is past the abort: it has begun something, or has begun nothing yet.
        is_ours = described.grant.producer_id == self.grant.producer_id
        is_aborted = described.state in ("PrepareEpochFence", "PrepareAbort", "CompleteAbort")
        return End.TIMED_OUT if is_ours and is_aborted else End.FENCED

    def _shut_out_by(self, end: End) -> None:
        assert isinstance(self.place, Judging)
        self._end(end, self.place.code, self.place.why, is_in_doubt=self.place.is_in_doubt)

    # -- time -------------------------------------------------------------------------------------------

    def _give_up_if_due(self, now_ms: int) -> None:
        if self._offsets_give_up_ms is not None and now_ms >= self._offsets_give_up_ms:
            if isinstance(self.place, Open | Flushing):
                self._break(self._in_vain("the group's coordinator has not taken the offsets"), now_ms)
            self._offsets_give_up_ms = None
        if self._gives_up_ms is None or now_ms < self._gives_up_ms:
            return
        match self.place:
            case Flushing():
                self._break(self._in_vain("it could not be stored"), now_ms)
            case Committing():
                # One that is on its way now may be heard yet.
                in_doubt = self.place.is_in_doubt or self._asking is not None
                self._give_up(is_in_doubt=in_doubt)
            case Starting() | Aborting():
                self._give_up()
            case Judging():
                self._shut_out_by(self._who(None, now_ms))

    def _give_up(self, *, is_in_doubt: bool = False) -> None:
        failure = self._in_vain("the coordinator has not answered")
        self._end(End.UNANSWERED, failure.code, failure.why, is_in_doubt=is_in_doubt)

    def _in_vain(self, what: str) -> Failure:
        return Failure(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{what} within {self.settings.patience_ms} ms ({self._trouble.why})",
        )


def _what(asked: CoordinatorQuestion) -> str:
    match asked:
        case AskProducerId():
            return "InitProducerId"
        case AddPartitions():
            return "AddPartitionsToTxn"
        case AddOffsets(_, group):
            return f"AddOffsetsToTxn for group {group!r}"
        case CommitOffsets(_, offsets):
            return f"the commit of offsets for group {offsets.group!r}"
        case EndTransaction(_, is_commit):
            return "the commit" if is_commit else "the abort"
        case DescribeOwn():
            return "DescribeTransactions"
