"""The blocking producer: idempotent, in order, bounded, resumable."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from semel.client.background import BackgroundLoop, shared_loop
from semel.client.consumer import Consumer
from semel.client.delivery import Delivery, DeliveryReport
from semel.client.rows import Headers
from semel.client.settings import ProducerChoices, ProducerSettings, names_checked
from semel.client.shared_producer import CLOSE_AFTER_ERROR_S, SharedProducer
from semel.client.tables import StoredRange, TableDelivery
from semel.client.transactions import AsyncTransaction
from semel.core.client.saved import Position, SavedIdentity
from semel.errors import NotStored

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Delivery", "DeliveryReport", "Producer", "StoredRange", "TableDelivery", "Transaction"]

_Row = TypeVar("_Row")
_T = TypeVar("_T")

_AT_EXIT_S: Final = 5.0
_open_producers: weakref.WeakSet[SharedProducer] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """A program that ends without close() still sends what it was told to send, or says that it could not."""
    failures = []
    for shared in list(_open_producers):
        if not shared.closed and shared.process_id == os.getpid():
            try:
                shared_loop().run(shared.close(_AT_EXIT_S, is_complete=False))
                shared.tell_failures()
            except Exception as error:
                failures.append(error)
    if failures:
        raise failures[0]


class Producer:
    """Rows into topics, each exactly once.

    With ``identity_store="file"`` the producer survives its process: run again after any crash, it fences the
    crashed copy, and :meth:`resume` continues behind the last row that is stored (the contract is in
    :mod:`semel.core.client.resume`). Then a batch that fails for good stops the producer. Rows are counted in the
    log: topics with ``cleanup.policy=compact`` are not for this.

    With ``lease=True`` it writes under producer ids that are leased from semel, so that what became of a row is
    definite as long as a leader answers. Apache Kafka has no leases: there every row is NotStored, and says so.

    With ``transactional_id="name"`` it sends in transactions only (:meth:`transaction`). Making it shuts out a copy
    that runs or was killed, and aborts what that one had open.
    """

    @names_checked(ProducerChoices.__optional_keys__)
    def __init__(self, bootstrap: str | list[str], **settings: Unpack[ProducerChoices]) -> None:
        chosen = ProducerSettings.of(settings)
        self._background = shared_loop()
        self._shared = SharedProducer(bootstrap, chosen, self._background.loop)
        _open_producers.add(self._shared)
        self._max_block_s = chosen.max_block_ms / 1000
        try:
            self._background.run(self._shared.open())
        except BaseException:
            self._background.run(self._shared.cluster.close())
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(CLOSE_AFTER_ERROR_S if kind is not None else None, is_complete=kind is None)

    @property
    def position(self) -> Position:
        """The saved input position that :meth:`resume` starts behind; None before the first."""
        return None if (identity := self.identity) is None else identity.position

    @property
    def identity(self) -> SavedIdentity | None:
        """The identity as it was saved last; after a flush, with all that was sent. None without one."""
        progress = self._shared.progress
        return None if progress is None else progress.saved

    @property
    def rows_to_drop(self) -> int:
        """Rows behind the saved position that an earlier run stored: they come again, and are not sent."""
        progress = self._shared.progress
        return 0 if progress is None else progress.rows_to_drop

    @property
    def rows_skipped(self) -> int:
        """Rows of the input that were not sent, for they are stored: those that :meth:`resume` passed over, up to
        the saved position, and those behind it that were dropped (``rows_dropped``).
        """
        return self._shared.rows_skipped

    @property
    def rows_dropped(self) -> int:
        """Rows behind the saved position that were handed again and not sent, for an earlier run had stored them."""
        progress = self._shared.progress
        return 0 if progress is None else progress.rows_dropped

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        position: Position = None,
    ) -> Delivery:
        """Buffer one row; ``.result()`` of the answer waits until it is stored.

        Blocks up to ``max_block_ms`` while the buffer is full, and at a topic's first row up to
        ``request_timeout_ms`` to learn of it (5 s if no broker was ever reached), then raises NotStored.
        ``position`` says where in the input the row is: all sends for one position come before the first for
        the next.
        """
        shared = self._shared
        row = shared.row_of(value, key, timestamp_ms, headers)
        shared.begin(position, topic)
        if not shared.knows_topic(topic):
            self._background.run(shared.learn_topic(topic))
        delivery = shared.try_append(topic, row, partition)
        if delivery is not None:
            return delivery
        delivery = self._when_there_is_room(partial(shared.try_append, topic, row, partition))
        assert delivery is not None
        return delivery

    def _when_there_is_room(self, attempt: Callable[[], _T]) -> _T:
        engine = self._shared.engine
        give_up_s = time.monotonic() + self._max_block_s
        while not (done := attempt()):
            if time.monotonic() >= give_up_s:
                raise NotStored(f"the producer's buffer stayed full for {self._max_block_s:.1f} s")
            with engine.lock:
                engine.wake()
                engine.settled.wait(min(0.1, max(0.0, give_up_s - time.monotonic())))
        return done

    def send_table(self, topic: str, table: pa.Table, *, position: Position = None) -> TableDelivery:
        """Send a table's rows: columns ``value`` (``key``, ``timestamp``, ``headers``).

        Rows with equal keys keep their order. ``.result()`` of the answer waits until all are stored and says
        where.

        A table that does not fit into the buffer is taken piece by piece. Where it is not taken to its end, for the
        buffer stayed full or the producer stopped, CannotKnow says how many of its rows may be stored; in a transaction
        TransactionAborted, for none of them shall count. NotStored: nothing of it was taken.
        """
        shared = self._shared
        shared.begin(position, topic)
        if not shared.knows_topic(topic):
            self._background.run(shared.learn_topic(topic))
        delivery = TableDelivery(table.num_rows)
        try:
            for chunk in shared.chunks_of(topic, table):
                self._when_there_is_room(partial(shared.try_append_chunk, topic, chunk, delivery))
        except BaseException as error:
            told = self._background.run(shared.broke_off(delivery, error))
            if told is None:
                raise
            raise told from error
        shared.table_handed()
        return delivery

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """``with producer.transaction(consumer):`` what is sent in it counts as a whole, or not at all (KIP-98).

        Leaving the block commits it, with the positions of ``consumer``, if one is given, so that a row that was read
        is written exactly once; rows are seen by readers of committed rows from then on. Leaving it by an exception
        aborts it; the exception goes on, and the consumer is put back to what its group has committed, so that its
        rows are handed out again. One at a time.

        Raises, on leaving: :class:`~semel.errors.TransactionAborted` when a row failed, or the group gave its
        partitions to others (nothing counts; begin again); :class:`~semel.errors.TransactionsEnded` and
        :class:`~semel.errors.ProducerFenced` when nothing counts and this producer is at its end, for it took too
        long, or another copy was started; :class:`~semel.errors.CommitInDoubt` when nobody answered within
        ``max_block_ms``. ``result()`` of a row says that it is stored, not that it counts.
        """
        inner = None if consumer is None else consumer.inner
        return Transaction(AsyncTransaction(self._shared.transactions, inner), self._background)

    def resume(
        self, rows: Iterable[_Row] | Callable[[Position], Iterable[tuple[Position, _Row]]]
    ) -> Iterator[tuple[Position, _Row]]:
        """The rows behind the saved position, as ``(position, row)``: send them with it.

        ``rows`` is an iterable that gives the same rows in the same order on every run (positions are then row
        numbers), or a function of the saved position that gives ``(position, row)`` from there on, best with the row
        at the position once more.

        The last rows up to the position (of an iterable up to 16; of a function that one) and those behind it that
        are stored come again: send them, which sends nothing. Each is held against what is stored, and InputDiffers
        says, before a row is dropped, that others came in their place: another input, another topic, or rows that are
        made otherwise now (``compare_rows=False`` tells them by their number and topic alone). A function that gives
        only rows behind the position vouches for its input itself. InputDiffers also when the input ends in front of
        what is stored. CannotKnow when rows to be compared were deleted from the log, or compaction took rows that have
        to be counted in it. ConfigError when this producer was given rows before: they are behind the saved position
        too.
        """
        return self._shared.rows_after(rows)

    def flush(self, timeout: float | None = None) -> None:
        """Until every row is acknowledged, and with an identity the position is saved.

        Raises TimeoutError after ``timeout`` seconds (the rows stay on their way), and the error of rows that
        failed, unless a ``result()`` has told it already. With an identity, call it between two positions.
        """
        self._background.run(self._shared.flush_within(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Flush for up to ``timeout`` seconds, then settle what is left as not stored or in doubt.

        Raises the error of rows that failed, unless a ``result()`` has told it already.
        """
        self._close(timeout, is_complete=True)

    def _close(self, timeout_s: float | None, *, is_complete: bool) -> None:
        self._background.run(self._shared.close(timeout_s, is_complete=is_complete))


class Transaction:
    """What ``with producer.transaction() as transaction`` gives: all of it counts, or nothing."""

    def __init__(self, inner: AsyncTransaction, background: BackgroundLoop) -> None:
        self._inner, self._background = inner, background

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def commit_offsets(self, consumer: Consumer) -> None:
        """Commit the consumer's positions with the transaction: of every assigned partition, the next to be read.

        As the member of its group that it is: :class:`~semel.errors.TransactionAborted` where the group has given its
        partitions to others since, for then they read the same rows (KIP-447). For a consumer that
        :meth:`Producer.transaction` was given it is done on leaving the block.
        """
        self._background.run(self._inner.commit_offsets(consumer.inner))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        """Ctrl-C may come when it was just begun, or before the leave is under way: nobody else would end it then."""
        try:
            self._background.run(work)
        except BaseException as error:
            if self._inner.is_entered:
                self._background.run(self._inner.__aexit__(type(error), error, error.__traceback__))
            raise
