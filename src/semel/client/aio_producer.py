"""The producer over asyncio: the same names as the blocking one, with ``await``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from semel.client.aio_consumer import AsyncConsumer
from semel.client.delivery import Delivery
from semel.client.rows import Headers
from semel.client.settings import ProducerChoices, ProducerSettings, names_checked
from semel.client.shared_producer import CLOSE_AFTER_ERROR_S, SharedProducer
from semel.client.tables import TableDelivery
from semel.client.transactions import AsyncTransaction
from semel.core.client.saved import Position, SavedIdentity
from semel.errors import ConfigError, NotStored

if TYPE_CHECKING:
    import pyarrow as pa

_Row = TypeVar("_Row")
_T = TypeVar("_T")


class AsyncProducer:
    """Use as ``async with AsyncProducer(...) as producer``; the settings are those of the blocking one."""

    @names_checked(ProducerChoices.__optional_keys__)
    def __init__(self, bootstrap: str | list[str], **settings: Unpack[ProducerChoices]) -> None:
        self._bootstrap, self._settings = bootstrap, ProducerSettings.of(settings)
        self._opened: SharedProducer | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._close(CLOSE_AFTER_ERROR_S if kind is not None else None, is_complete=kind is None)

    async def start(self) -> None:
        """Bind to the running loop; with an identity: fence, ask, count, save; in transactions: shut out copies."""
        if self._opened is not None:
            return
        shared = SharedProducer(self._bootstrap, self._settings, asyncio.get_running_loop())
        try:
            await shared.open()
        except BaseException:
            await shared.cluster.close()
            raise
        self._opened = shared

    @property
    def position(self) -> Position:
        """The saved input position that :meth:`resume` starts behind."""
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

    async def send(
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
        """Buffer one row, waiting for room; ``await`` the answer until it is stored."""
        shared = self._shared
        row = shared.row_of(value, key, timestamp_ms, headers)
        shared.begin(position, topic)
        if not shared.knows_topic(topic):
            await shared.learn_topic(topic)
        delivery = await self._when_there_is_room(partial(shared.try_append, topic, row, partition))
        assert delivery is not None
        return delivery

    async def _when_there_is_room(self, attempt: Callable[[], _T]) -> _T:
        if done := attempt():
            return done
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while not (done := attempt()):
                    await self._shared.engine.room_made()
        except TimeoutError:
            raise NotStored(
                f"the producer's buffer stayed full for {self._settings.max_block_ms} ms"
            ) from None
        return done

    async def send_table(self, topic: str, table: pa.Table, *, position: Position = None) -> TableDelivery:
        """Send a table's rows; ``await`` the answer until all are stored. Errors are those of the blocking one."""
        shared = self._shared
        shared.begin(position, topic)
        if not shared.knows_topic(topic):
            await shared.learn_topic(topic)
        delivery = TableDelivery(table.num_rows)
        try:
            for chunk in shared.chunks_of(topic, table):
                await self._when_there_is_room(partial(shared.try_append_chunk, topic, chunk, delivery))
        except BaseException as error:
            told = await shared.broke_off(delivery, error)
            if told is None:
                raise
            raise told from error
        shared.table_handed()
        return delivery

    def transaction(self, consumer: AsyncConsumer | None = None) -> AsyncTransaction:
        """``async with producer.transaction() as transaction:`` what is sent in it counts as a whole, or not at all.

        See :meth:`semel.client.producer.Producer.transaction`.
        """
        return AsyncTransaction(self._shared.transactions, consumer)

    def resume(
        self, rows: Iterable[_Row] | Callable[[Position], Iterable[tuple[Position, _Row]]]
    ) -> Iterator[tuple[Position, _Row]]:
        """The rows behind the saved position, as ``(position, row)``; send each with its position."""
        return self._shared.rows_after(rows)

    async def flush(self, timeout: float | None = None) -> None:
        """Until every row is acknowledged, and with an identity the position is saved.

        Raises TimeoutError after ``timeout`` seconds (the rows stay on their way), and the error of rows that
        failed, unless awaiting one has told it already.
        """
        await self._shared.flush_within(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Flush for up to ``timeout`` seconds, then settle what is left as not stored or in doubt."""
        await self._close(timeout, is_complete=True)

    async def _close(self, timeout_s: float | None, *, is_complete: bool) -> None:
        if self._opened is not None:
            await self._opened.close(timeout_s, is_complete=is_complete)

    @property
    def _shared(self) -> SharedProducer:
        if self._opened is None:
            raise ConfigError("start() the producer first, or use it with `async with`")
        return self._opened
