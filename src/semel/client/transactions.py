"""A producer's transactions as its user sees them: begun, committed with a consumer's positions, or aborted.

What is decided is decided by :class:`~semel.core.client.transaction.Transactions`; here it is waited for, and told as
an exception whose type says whether the rows are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from semel.client.aio_consumer import AsyncConsumer
from semel.client.engine import ProducerEngine
from semel.core.client.transaction import Aborted, Committed, Transactions
from semel.core.client.transaction_events import (
    AbortAsked,
    BeginAsked,
    CommitAsked,
    GivenUp,
    OffsetsAsked,
    StartAsked,
)
from semel.core.client.transaction_places import (
    Broken,
    End,
    Ended,
    Failure,
    Flushing,
    Judging,
    Open,
    Ready,
    Starting,
)
from semel.errors import (
    BrokerError,
    CommitInDoubt,
    ConfigError,
    ConnectionLost,
    DeliveryError,
    ErrorCode,
    FencedInDoubt,
    FencedNotStored,
    NotCommitted,
    NotStored,
    SemelError,
    TransactionAborted,
    TransactionalIdExpired,
    TransactionsEnded,
    TransactionTimedOut,
)

_OUTSIDE: Final = (
    "a producer with a transactional_id sends in transactions only, inside of `with producer.transaction():`; nothing "
    "was sent"
)
_OVER: Final = (
    "commit_offsets() belongs inside of the transaction's own block; these positions do not count with it"
)
_GROUP_MOVED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class ProducerTransactions:
    """The transactions of one producer, on its loop."""

    def __init__(self, engine: ProducerEngine, transactional_id: str) -> None:
        assert engine.pipeline.transactions is not None
        self._engine = engine
        self._machine: Transactions = engine.pipeline.transactions
        self.transactional_id = transactional_id
        self._number = 0  # of the newest transaction
        self.consumers: list[AsyncConsumer] = []  # whose positions are to count with the one that is open
        self._taking_down = asyncio.Lock()

    # -- the producer -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the place of whoever had this transactional id, and end what it left open."""
        self._engine.handle(StartAsked())
        await self._until(lambda: not isinstance(self._machine.place, Starting | Judging))
        place = self._machine.place
        if isinstance(place, Ended):
            raise self._not_started(place)

    def check_takes_rows(self) -> None:
        """Raise what keeps a row from being sent now. Under the engine's lock, or on the loop."""
        place = self._machine.place
        if isinstance(place, Open):
            return
        if isinstance(place, Broken):
            raise self._aborted(place.failure)
        if isinstance(place, Ended):
            raise self._ended(place)
        if isinstance(place, Judging) and self._machine.outcome is None and not place.is_in_doubt:
            raise self._shut_out(place)
        raise ConfigError(_OUTSIDE)

    async def close(self) -> None:
        """Leave nothing open: readers of committed rows would wait for it until its time is over."""
        await self.abort()

    # -- one transaction --------------------------------------------------------------------------------

    async def begin(self) -> int:
        """The number of the transaction, by which it is told from a later one."""
        await self._until(lambda: not isinstance(self._machine.place, Starting | Judging))
        place = self._machine.place
        if isinstance(place, Ended):
            raise self._ended(place, is_begun=False)
        if not isinstance(place, Ready):
            raise ConfigError("this producer is in a transaction already: it has one at a time")
        is_v2 = self._engine.cluster.is_transaction_v2
        self._engine.handle(BeginAsked(is_v2))
        self._number += 1
        return self._number

    async def check_reads_from_here(self, consumer: AsyncConsumer) -> None:
        """Refuse a consumer of another cluster: the coordinator takes its positions, where there are topics of these
        names, and they would count where it never looks for them.
        """
        theirs, ours = await consumer.cluster.cluster_id(), await self._engine.cluster.cluster_id()
        if None not in (theirs, ours) and theirs != ours:
            raise ConfigError(
                f"this consumer reads from cluster {theirs}, and this producer writes to cluster {ours}: a transaction "
                f"is of one cluster. Nothing of it was committed. To copy from one cluster to another: semel copy"
            )

    async def commit_offsets(self, consumer: AsyncConsumer, number: int) -> None:
        """Have the consumer's positions count with the transaction; they are taken down when this returns.

        Where they are not, the rows shall not count either, whatever the caller makes of the error. Of several callers
        at once one is served after the other.
        """
        await self._check_open(number)
        try:
            consumer.check_commits_in_transactions()
            await self.check_reads_from_here(consumer)
            async with self._taking_down:
                await self._check_open(number)  # it may have ended while this caller waited
                await self._take_down(consumer, number)
        except NotCommitted as error:
            why = Failure(error.code or ErrorCode.UNKNOWN_MEMBER_ID, str(error))
            self._give_up(why, number)
            raise self._aborted(why) from error
        except BaseException as error:
            self._give_up(Failure(ErrorCode.UNKNOWN, f"its offsets were not taken down: {error!r}"), number)
            raise

    async def _take_down(self, consumer: AsyncConsumer, number: int) -> None:
        offsets = await consumer.offsets_for_transaction()
        await self._check_open(number)
        if not offsets.offsets:
            return
        self._engine.handle(OffsetsAsked(offsets))
        await self._until(lambda: not (self._is_open(number) and self._machine.has_offsets))
        place = self._machine.place
        is_ours = number == self._number
        if is_ours and isinstance(place, Broken) and place.failure.code in _GROUP_MOVED:
            consumer.offsets_were_refused(offsets, place.failure.code)
        await self._check_open(number)

    def _is_open(self, number: int) -> bool:
        return number == self._number and isinstance(self._machine.place, Open)

    async def _check_open(self, number: int) -> None:
        """Raise what keeps offsets from counting with this transaction; of a shut-out, once it is known by whom."""
        await self._until(lambda: not isinstance(self._machine.place, Judging))
        if number != self._number:
            raise ConfigError(_OVER)
        self.check_takes_rows()

    def _give_up(self, why: Failure, number: int) -> None:
        if number == self._number:  # else a later one is under way, which that does not concern
            self._engine.handle(GivenUp(why.code, why.why))

    async def commit(self) -> None:
        """Until it counts; else raises what became of it."""
        self._engine.handle(CommitAsked())
        outcome = await self._ending()
        if isinstance(outcome, Committed):
            return
        self._engine.take_untold()  # what failed is told with the transaction
        if isinstance(outcome, Aborted):
            raise self._aborted(outcome.failure or Failure(ErrorCode.UNKNOWN, "it was asked for"))
        raise self._ended(outcome)

    async def abort(self) -> SemelError | None:
        """Until nothing of it counts, for sure; else what keeps that from being known."""
        if isinstance(self._machine.place, Open | Broken | Flushing):
            self._engine.handle(AbortAsked())
        if self._machine.outcome is None and not isinstance(self._machine.place, Starting | Ready):
            await self._ending()
        self._engine.take_untold()
        outcome = self._machine.outcome
        return self._ended(outcome) if isinstance(outcome, Ended) else None

    async def _ending(self) -> Committed | Aborted | Ended:
        await self._until(lambda: self._machine.outcome is not None)
        outcome = self._machine.outcome
        assert outcome is not None
        return outcome

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._engine.broken is not None:
                raise RuntimeError("the producer broke, by a fault of its own") from self._engine.broken
            await self._engine.moved_on()

    # -- errors -----------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"the transaction of {self.transactional_id!r}"

    def _aborted(self, failure: Failure) -> TransactionAborted:
        return TransactionAborted(
            f"{self._name} is aborted: {failure.why} [{failure.code.name}]; none of its rows counts, and no offset of "
            f"it is committed. Begin another one, with the same rows",
            failure.code,
            f"{failure.why} [{failure.code.name}]",
        )

    def _shut_out(self, place: Judging) -> TransactionsEnded:
        why = f"{place.why} [{place.code.name}]"
        return TransactionsEnded(
            f"{self._name} is not committed, and will not be: {why}. Whether another copy was started, or it was open "
            f"for too long, its coordinator is being asked; leaving the block tells",
            place.code,
            why,
        )

    def _ended(self, place: Ended, *, is_begun: bool = True) -> DeliveryError:
        why = f"{place.why} [{place.code.name}]"
        if place.is_in_doubt:
            became = "may or may not be committed"
            find_out = (
                "To find out, look at the offsets that its group has committed, or read the output; never send "
                "its rows again blindly. A new producer with this transactional_id goes on"
            )
        else:
            became = "is not committed, and will not be" if is_begun else "was not begun"
            find_out = ""
        text = f"{self._name} {became}: "
        match place.end:
            case End.FENCED:
                kind = FencedInDoubt if place.is_in_doubt else FencedNotStored
                text += (
                    f"another copy with this transactional_id was started, or somebody ended it (semel txn abort): "
                    f"{why}. Stop this one"
                )
                return kind(f"{text}. {find_out}" if find_out else text, place.code, why)
            case End.TIMED_OUT if not place.is_in_doubt:
                return TransactionTimedOut(
                    f"{text}it was open for longer than transaction_timeout_ms={self._timeout_ms}, so its coordinator "
                    f"aborted it: {why}. Make a new producer and begin again, with fewer rows in one transaction, or "
                    f"with a longer time",
                    place.code,
                    why,
                )
            case End.EXPIRED if not place.is_in_doubt:
                return TransactionalIdExpired(
                    f"{text}its coordinator does not know the transactional_id any more, which it forgets after "
                    f"transactional.id.expiration.ms (a week) without a transaction: {why}. Make a new producer and "
                    f"begin again",
                    place.code,
                    why,
                )
        if place.is_in_doubt:
            return CommitInDoubt(f"{text}{why}. {find_out}", place.code, why)
        return TransactionsEnded(
            f"{text}{why}. What is open of it is aborted after transaction_timeout_ms={self._timeout_ms}, or by a new "
            f"producer with this transactional_id: make one and begin again",
            place.code,
            why,
        )

    @property
    def _timeout_ms(self) -> int:
        return self._machine.settings.timeout_ms

    def _not_started(self, place: Ended) -> SemelError:
        what = f"start with transactional_id={self.transactional_id!r}"
        if place.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return ConfigError(
                f"transaction_timeout_ms={self._timeout_ms} is more than the brokers allow "
                "(transaction.max.timeout.ms, 15 min by default); nothing was sent"
            )
        if place.end is End.FENCED:
            return FencedNotStored(
                f"{what}: another copy started at the same time, and holds it ({place.why}); nothing was sent",
                place.code,
            )
        if place.end is End.UNANSWERED:
            return ConnectionLost(f"{what}: {place.why}; nothing was sent")
        return BrokerError(place.code, what, f"{place.why}; nothing was sent")


class AsyncTransaction:
    """What ``async with producer.transaction() as transaction`` gives: all of it counts, or nothing.

    Leaving the block commits; leaving it by an exception aborts, and the exception goes on. A consumer whose positions
    were to be committed is put back to where they were committed last, or sought before, whenever the transaction did
    not come to count, so that its rows are handed out again (KAFKA-17582).
    """

    def __init__(self, transactions: ProducerTransactions, consumer: AsyncConsumer | None = None) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self._consumers = [] if consumer is None else [consumer]
        self._number = 0
        self.is_entered = False  # it was begun, and nobody has begun to leave it

    async def __aenter__(self) -> Self:
        if self._consumer is not None:
            self._consumer.check_commits_in_transactions()
        try:
            if self._consumer is not None:
                await self._transactions.check_reads_from_here(self._consumer)
            self._number = await self._transactions.begin()
        except BaseException:
            await self._undo_enter()
            raise
        self._transactions.consumers = self._consumers
        self.is_entered = True
        return self

    async def _undo_enter(self) -> None:
        """Rows that were handed out before are in no transaction: the next one shall not commit them.

        Those of a consumer that is in the one that is open are, and it does with them what it comes to.
        """
        if self._consumer is not None and self._consumer not in self._transactions.consumers:
            await self._consumer.put_back(is_in_doubt=False)

    async def commit_offsets(self, consumer: AsyncConsumer) -> None:
        """Commit the consumer's positions with the transaction: of every assigned partition, the next to be read.

        As the member of its group that it is: :class:`~semel.errors.TransactionAborted` where the group has given its
        partitions to others since, for then they read the same rows (KIP-447).
        """
        if consumer not in self._consumers and consumer.settings.group_id is not None:
            self._consumers.append(consumer)
        await self._transactions.commit_offsets(consumer, self._number)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_entered = False
        try:
            await self._leave(error)
        finally:
            if self._transactions.consumers is self._consumers:  # else the next one was begun meanwhile
                self._transactions.consumers = []

    async def _leave(self, error: BaseException | None) -> None:
        if error is None:
            is_asked = False
            try:
                if self._consumer is not None:
                    await self._transactions.commit_offsets(self._consumer, self._number)
                is_asked = True
                await self._transactions.commit()
            except BaseException as failure:
                await self._undo(is_in_doubt=is_asked and not isinstance(failure, NotStored))
                raise
            for consumer in self._consumers:
                consumer.offsets_were_committed()
            return
        unknown = await self._undo()
        if unknown is not None and not isinstance(error, SemelError):
            error.add_note(f"semel: {unknown}")

    async def _undo(self, *, is_in_doubt: bool = False) -> SemelError | None:
        try:
            return await self._transactions.abort()
        finally:
            for consumer in self._consumers:
                await consumer.put_back(is_in_doubt=is_in_doubt)
