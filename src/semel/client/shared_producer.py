"""What both producers, blocking and async, share: where a row goes, and the identity's counts."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from semel.client.cluster import Cluster
from semel.client.delivery import Delivery, error_of
from semel.client.engine import ProducerEngine
from semel.client.identity import IdentityKeeper
from semel.client.rereading import StoredRows, closed, reread
from semel.client.resumed_input import Input, ResumedInput
from semel.client.resuming import begin_topic, count_topic, resume_identity
from semel.client.rows import Headers, row_of
from semel.client.runtime import monotonic_ms
from semel.client.settings import ProducerSettings
from semel.client.tables import (
    TABLE_BATCH_BYTES,
    TableDelivery,
    chunks_of,
    digest_over,
    encode_rows,
    partitions_of,
    rows_of,
)
from semel.client.transaction_asking import CoordinatorAsker
from semel.client.transactions import ProducerTransactions
from semel.core.client.batch import estimated_bytes
from semel.core.client.events import Granted
from semel.core.client.fate import Stored
from semel.core.client.fingerprint import Differs
from semel.core.client.progress import ROWS_A_TURN, Progress
from semel.core.client.saved import Position
from semel.core.client.transaction_events import GivenUp
from semel.core.log.names import topic_name_error
from semel.errors import (
    BrokerError,
    CannotKnow,
    ConfigError,
    ConnectionLost,
    DeliveryError,
    ErrorCode,
    FencedInDoubt,
    InputDiffers,
    NotStored,
    ProducerFenced,
    SemelError,
)
from semel.record.batch import Record, decode_header
from semel.record.compression import Compression
from semel.record.partitioner import partition_for_key
from semel.types import ProducerGrant, TopicPartition
from semel.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

_Row = TypeVar("_Row")
FIRST_CONTACT_TIMEOUT_MS: Final = 5_000
HOLD_S: Final = 0.25  # rows that are to be compared mostly come at once
CLOSE_AFTER_ERROR_S: Final = 1.0  # the rows that are left may be the reason for the error
ROW_BYTES_MAX: Final = 64 * 1024 * 1024


class SharedProducer:
    """A producer without its way of waiting."""

    def __init__(
        self, bootstrap: str | list[str], settings: ProducerSettings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings = settings
        self.process_id = os.getpid()
        self.cluster = Cluster(
            bootstrap,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            # One that resumes may have been started together with the log.
            first_contact_timeout_ms=FIRST_CONTACT_TIMEOUT_MS if settings.store() is None else None,
            security_protocol=settings.security_protocol,
        )
        name = settings.transactional_id
        self.engine = ProducerEngine(
            self.cluster,
            settings.pipeline(),
            loop,
            on_stored=self._stored,
            on_settled=self._save_if_due,
            asker=None
            if name is None
            else CoordinatorAsker(self.cluster, name, settings.transaction_timeout_ms),
        )
        self._transactions = None if name is None else ProducerTransactions(self.engine, name)
        self.progress: Progress | None = None
        self.closed = False
        store = settings.store()
        self._keeper = None if store is None else IdentityKeeper(self.cluster, store)
        self._learning = asyncio.Lock()
        # As the log of a new topic said; what the answer to a row said, the pipeline knows.
        self._fenced: ProducerFenced | None = None
        self._input: ResumedInput | None = None  # that resume() gives
        self._refused: SemelError | None = None  # rows came again, and are not those that are stored
        self._stored_rows: dict[TopicPartition, StoredRows] = {}  # as they are due to come again
        # Nothing is sent without it. It is held back for a moment, for rows that must come again to be compared.
        self._held_grant: ProducerGrant | None = None
        self._is_release_due = False
        self._must_resume = False  # rows behind the saved position are stored: they must be handed again
        self._partition_counts: dict[str, int] = {}
        self._rows_without_key: dict[str, int] = {}

    async def open(self) -> None:
        """With an identity: fence, ask, count, save; with a transactional id: shut older copies out.

        Without either there is nothing to do yet.
        """
        if self._transactions is not None:
            await self.cluster.metadata([])
            await self._transactions.start()
            return
        if self._keeper is None:
            return
        name = self.settings.identity if isinstance(self.settings.identity, str) else None
        saved = await resume_identity(self.cluster, self._keeper, name)
        self.progress = Progress(saved, self.settings.save_interval_ms)
        self._must_resume = any(item.stored > item.handed for item in saved.partitions.values())
        await self._reread(saved.partitions)
        self._held_grant = ProducerGrant(saved.producer_id, saved.producer_epoch)
        if not self._stored_rows:
            self._release()

    def _release(self) -> None:
        """Let rows go; on the loop. What is refused stays here for good."""
        with self.engine.lock:  # a refusal says what was sent
            if self._refused is not None:
                return
            grant, self._held_grant = self._held_grant, None
        if grant is not None:
            self.engine.handle(Granted(grant))

    def _release_in(self, delay_s: float) -> None:
        """From any thread."""
        loop = self.engine.loop
        loop.call_soon_threadsafe(lambda: loop.call_later(delay_s, self._release))

    def _hold(self) -> None:
        """A new row was buffered, and those that are stored are still to come: near, or not waited for."""
        if self.engine.pipeline.accumulator.buffered_bytes > self.settings.buffer_bytes // 2:
            self._release_in(0)
        elif not self._is_release_due:
            self._is_release_due = True
            self._release_in(HOLD_S)

    async def _reread(self, tps: Iterable[TopicPartition]) -> None:
        if self.progress is not None and self.settings.compare_rows:
            self._stored_rows |= await reread(self.cluster, self.progress.saved, tps)

    async def learn_topic(self, topic: str) -> None:
        """Before a topic's first row: its partition count; saved at once when there is an identity.

        ``NotStored`` when there can be no such topic, or nobody who knows of it can be reached.
        """
        if not isinstance(topic, str):
            raise ConfigError(f"a topic's name is a str, not {type(topic).__name__}")
        if (wrong := topic_name_error(topic)) is not None:
            raise NotStored(f"nothing was sent: {wrong}")
        try:
            await self._learn_topic(topic)
        except ProducerFenced as error:
            self._fenced = error
            raise
        except (BrokerError, ConnectionLost) as error:
            code = error.code if isinstance(error, BrokerError) else None
            raise NotStored(f"nothing was sent to topic {topic!r}: {error}", code) from error

    async def _learn_topic(self, topic: str) -> None:
        progress = self.progress
        if progress is None:
            found = await self.cluster.topic(topic, allow_auto_topic_creation=True)
            if not self._partition_counts:
                self.engine.start(self._watch_topics())
            self._partition_counts[topic] = len(found.partitions)
            return
        assert self._keeper is not None
        async with self._learning:
            if not progress.has_begun(topic):
                begun, topic_id = await begin_topic(self.cluster, progress.saved, topic)
                with self.engine.lock:
                    self._keeper.start(progress.note_topic(topic, begun, topic_id))
            await self._keeper.finished()  # also when an interrupted call began the save
            if not progress.knows_topic(topic):
                counted = await count_topic(self.cluster, progress.saved, topic)
                with self.engine.lock:
                    self._keeper.start(progress.note_topic(topic, counted))
                if any(item.stored for item in counted.values()) and self._input is None:
                    self._must_resume = True
                await self._keeper.finished()
                await self._reread(TopicPartition(topic, partition) for partition in counted)
            self._partition_counts[topic] = progress.partition_count(topic)

    async def _watch_topics(self) -> None:
        """Without an identity: notice partitions that are added later. With one, rows stay where they went."""
        while True:
            await asyncio.sleep(self.settings.metadata_max_age_ms / 1000)
            with contextlib.suppress(SemelError):
                await self.cluster.metadata(list(self._partition_counts))
            for topic, count in self._partition_counts.items():
                self._partition_counts[topic] = max(count, self.cluster.partition_counts.get(topic, 0))

    def knows_topic(self, topic: str) -> bool:
        return topic in self._partition_counts

    def partition_count(self, topic: str) -> int:
        return self._partition_counts[topic]

    def row_of(self, value: Any, key: Any, timestamp_ms: int | None, headers: Headers) -> Record:
        """The row as it goes out; refuses what no log could hold."""
        return row_of(value, key, timestamp_ms, headers, min(ROW_BYTES_MAX, self.settings.buffer_bytes))

    def begin(self, position: Position, topic: str) -> None:
        """The caller hands the row, or the table, at ``position``."""
        self.check_usable()
        if self.progress is None:
            if position is not None:
                raise ConfigError("a position is of use only with an identity, with which it is saved")
            return
        with self.engine.lock:
            if position is not None:
                self.progress.at(position, monotonic_ms())
            elif not self.progress.has_position:
                raise ConfigError(
                    "a producer with an identity needs to know where in the input a row is: send(position=…)"
                )
            if self.progress.is_comparing or not self.progress.has_rows:
                self._refuse(
                    self.progress.topic_differs(topic) or self._begins_elsewhere(topic, self.progress)
                )
            self.progress.begin()

    def _begins_elsewhere(self, topic: str, progress: Progress) -> Differs | None:
        """Whether the first row behind the position is for a topic that no row went to, though some are stored."""
        topics = progress.topics_missing
        if progress.has_rows or not topics or progress.has_begun(topic):
            return None
        stored = " and ".join(map(repr, sorted(topics)))
        return Differs(
            f"{counted(progress.rows_to_drop, 'row')} that an earlier run stored behind position "
            f"{progress.saved.position!r} went to topic {stored}, and the first that comes is for topic {topic!r}"
        )

    def try_append(self, topic: str, row: Record, partition: int | None) -> Delivery | None:
        """Buffer the row; None when the buffer is full."""
        engine = self.engine
        with engine.lock:
            self.check_usable()
            accumulator = engine.pipeline.accumulator
            if accumulator.buffered_bytes + estimated_bytes(row) > self.settings.buffer_bytes:
                return None
            tp = TopicPartition(topic, self._partition(topic, row.key, partition))
            if self.progress is not None and not self._must_go(tp, partition, row, self.progress):
                return Delivery(tp, None, 0, row.timestamp_ms)
            batch, place, wake = accumulator.append(tp, row, monotonic_ms())
            if self._held_grant is not None:
                self._hold()
            if wake:
                engine.wake()
            return Delivery(tp, engine.promises[batch], place, row.timestamp_ms)

    def _must_go(self, tp: TopicPartition, partition: int | None, row: Record, progress: Progress) -> bool:
        """Whether it is a new row. One that is stored is held against what came before it is dropped."""
        if progress.is_comparing:
            self._refuse(progress.compare(tp.topic, partition, row))
            progress.handed()
            return False
        progress.note(tp.topic, partition, row)
        must_go = progress.hand(tp)
        if not must_go:
            self._check_stored(tp, row)
        progress.handed()
        return must_go

    def _check_stored(self, tp: TopicPartition, row: Record) -> None:
        stored = self._stored_rows.get(tp)  # none: from an older file, or nothing is to be compared
        if stored is None:
            return
        try:
            if stored.is_next(row.key, row.value, row.headers):
                if stored.is_done and all(other.is_done for other in self._stored_rows.values()):
                    self._release_in(0)
                return
        except CannotKnow as error:
            self._refused = error
            raise
        self._refuse(
            Differs(
                f"row {stored.compared - 1} of the {stored.count} (from 0) for {tp} that an earlier run stored behind "
                f"the saved position is not the one that came in its place",
                may_be_remade=True,
            )
        )

    def _refuse(self, differs: Differs | None) -> None:
        """Stop for good, before a row is dropped that is not stored."""
        if differs is None:
            return
        assert self.progress is not None
        new_rows = 0 if self._held_grant is not None else self.progress.new_rows
        sent = (
            f"{counted(new_rows, 'row')} of this input went before it"
            if new_rows
            else "nothing of this input was sent"
        )
        self._refused = InputDiffers(f"{differs.why}; {sent}", may_be_remade=differs.may_be_remade)
        raise self._refused

    def chunks_of(self, topic: str, table: pa.Table) -> Iterator[pa.Table]:
        """The table in pieces for :meth:`try_append_chunk`."""
        settings = self.settings
        return chunks_of(table, self._partition_counts[topic], settings.batch_bytes, settings.buffer_bytes)

    def try_append_chunk(self, topic: str, chunk: pa.Table, delivery: TableDelivery) -> bool:
        """Buffer a piece of a table; False when the buffer has no room for it."""
        import numpy as np

        engine, count = self.engine, self._partition_counts[topic]
        accumulator = engine.pipeline.accumulator
        with engine.lock:
            self.check_usable()
            if (
                accumulator.buffered_bytes
                and accumulator.buffered_bytes + chunk.nbytes > self.settings.buffer_bytes
            ):
                return False
            before = self._rows_before(topic)
            if self.progress is None:
                self._rows_without_key[topic] = before + chunk.num_rows
        if self.progress is not None and not self._table_must_go(topic, chunk, self.progress):
            delivery.already_stored += chunk.num_rows
            return True
        partitions = partitions_of(chunk, count, before, ROWS_A_TURN)
        now_ms = time.time_ns() // 1_000_000
        for partition in range(count):
            rows = np.flatnonzero(partitions == partition)
            tp = TopicPartition(topic, partition)
            if self.progress is not None:
                with engine.lock:
                    dropped = self.progress.hand_many(tp, len(rows))
                if dropped and tp in self._stored_rows:
                    for row in rows_of(chunk, rows[:dropped]):
                        with engine.lock:
                            self._check_stored(tp, row)
                delivery.already_stored += dropped
                rows = rows[dropped:]
            if not len(rows):
                continue
            # Without the lock: what is in flight goes on meanwhile.
            encoded = encode_rows(
                chunk,
                rows,
                now_ms=now_ms,
                compression=Compression[self.settings.compression.upper()],
                batch_bytes_max=max(self.settings.batch_bytes, TABLE_BATCH_BYTES),
            )
            with engine.lock:
                self.check_usable()
                for each in encoded:
                    record_count = decode_header(each).record_count
                    batch = accumulator.append_encoded(tp, each, record_count, monotonic_ms())
                    delivery.took(engine.promises[batch], record_count)
                if self._held_grant is not None:
                    self._hold()
                engine.wake()
        return True

    def _table_must_go(self, topic: str, chunk: pa.Table, progress: Progress) -> bool:
        digest = digest_over(progress.table_digest(topic), chunk)
        with self.engine.lock:
            if not progress.is_comparing:
                progress.note_table(topic, chunk.num_rows, digest)
                return True
            self._refuse(progress.compare_table(topic, chunk.num_rows, digest))
            return False

    def _rows_before(self, topic: str) -> int:
        if self.progress is not None:
            return self.progress.handed_to_topic(topic)
        return self._rows_without_key.get(topic, 0)

    async def broke_off(self, delivery: TableDelivery, error: BaseException) -> DeliveryError | None:
        """``error`` kept a table from being taken to its end: what is to be told in its place, if it is not true of
        the rows that were taken. On the loop.

        In a transaction they shall not count, whatever the caller makes of it.
        """
        taken = delivery.rows_taken
        if not taken:
            return None
        if self._transactions is not None:
            why = f"of a table only {taken} of {counted(delivery.row_count, 'row')} were taken: {error!r}"
            self.engine.handle(GivenUp(ErrorCode.UNKNOWN, why))
            try:
                self._transactions.check_takes_rows()
            except DeliveryError as told:
                return told if isinstance(error, SemelError) else None
            except ConfigError:
                pass  # it was ended meanwhile, with what was taken
        so_far = f"{counted(taken, 'row')} of the table's {delivery.row_count} may or may not be stored"
        if not isinstance(error, NotStored | ConfigError):
            error.add_note(f"semel: {so_far}, the others are not")
            return None
        kind = FencedInDoubt if isinstance(error, ProducerFenced) else CannotKnow
        return kind(
            f"{so_far}, the others are not: {error}. To find out, resume with the identity of this producer, or read "
            "the topic if it has none; never send the table again blindly",
            error.code if isinstance(error, NotStored) else None,
            str(error),
        )

    def table_handed(self) -> None:
        """All of the table's rows are in the buffer, or were dropped as stored."""
        if self.progress is not None:
            with self.engine.lock:
                self.progress.handed()

    def check_usable(self) -> None:
        if os.getpid() != self.process_id:
            raise ConfigError("this producer was made before a fork; make a new one in the child process")
        if self.closed:
            raise NotStored("the producer is closed; nothing was sent")
        self._check_not_stopped()
        if self._transactions is not None:
            self._transactions.check_takes_rows()
        for stopped_by in (self._fenced, self._refused):
            if stopped_by is not None:
                raise stopped_by
        if self._keeper is not None and self._keeper.failure is not None:
            raise self._keeper.failure
        if self.engine.broken is not None:
            raise RuntimeError("the producer broke, by a fault of its own") from self.engine.broken
        if self._must_resume:
            raise ConfigError(
                "rows behind the saved position are stored already: send what resume() gives, so that they "
                "can be told from new ones"
            )

    @property
    def transactions(self) -> ProducerTransactions:
        if self._transactions is None:
            raise ConfigError(
                "transaction() needs a producer with a transactional_id, its name across restarts"
            )
        return self._transactions

    def _check_not_stopped(self) -> None:
        if self._transactions is not None:
            return  # a transaction that failed is told by itself
        pipeline = self.engine.pipeline
        if pipeline.fenced is not None:
            raise error_of(
                dataclasses.replace(pipeline.fenced, newer_epoch=self.engine.fencer_epoch), "a row"
            )
        if pipeline.failed is not None:
            raise error_of(pipeline.failed, "an earlier row")

    def _partition(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = self._partition_counts[topic]
        if partition is not None:
            if not 0 <= partition < count:
                raise ConfigError(
                    f"topic {topic!r} has {counted(count, 'partition')}; there is no {partition}"
                )
            return partition
        if key is not None:
            return partition_for_key(key, count)
        if self.progress is not None:
            return self.progress.turn(topic)
        row_number = self._rows_without_key.get(topic, 0)
        self._rows_without_key[topic] = row_number + 1
        return row_number // ROWS_A_TURN % count

    # -- the identity -----------------------------------------------------------------------------------

    def rows_after(self, rows: Input[_Row]) -> Iterator[tuple[Position, _Row]]:
        """The rows after the saved position, with positions."""
        if self.progress is None:
            raise ConfigError("resume() needs an identity: without a saved one nothing can be resumed")
        return self._rows_after(rows, self.progress)

    def _rows_after(self, rows: Input[_Row], progress: Progress) -> Iterator[tuple[Position, _Row]]:
        if progress.has_rows:
            raise ConfigError(
                "resume() goes on behind the saved position, and this producer has been given rows since: "
                "open a new one, and give it what its resume() gives"
            )
        self._must_resume = False
        self._input = ResumedInput(progress, compare_rows=self.settings.compare_rows)
        yield from self._input.rows(rows)

    def _check_input(self) -> None:
        """Once all rows that were given had time to be sent: the caller may have read ahead."""
        has_ended = self._input is not None and self._input.has_ended
        if has_ended and self.progress is not None and self._refused is None:
            self._refuse(self.progress.missing())

    @property
    def rows_skipped(self) -> int:
        passed_over = 0 if self._input is None else self._input.passed_over
        return passed_over + (0 if self.progress is None else self.progress.rows_dropped)

    @property
    def _is_shut_out(self) -> bool:
        """A fenced copy leaves the store to the newer one, and one with other input as it is."""
        return (
            self._fenced is not None or self._refused is not None or self.engine.pipeline.fenced is not None
        )

    async def save_position(self) -> None:
        """After a flush: the position is where the caller is. Durable on return."""
        if self.progress is None or self._keeper is None or self._is_shut_out:
            return
        with self.engine.lock:
            self.progress.mark(monotonic_ms())
            due = self.progress.to_save()
        if due is not None:
            self._keeper.start(due)
        await self._keeper.finished()

    def _stored(self, tp: TopicPartition, fate: Stored, record_count: int) -> None:
        if self.progress is not None:
            self.progress.stored(tp, fate, record_count)

    def _save_if_due(self) -> None:
        if self.progress is None or self._keeper is None or self._keeper.is_saving or self._is_shut_out:
            return
        with self.engine.lock:
            due = self.progress.to_save()
        if due is not None:
            self._keeper.start(due)

    async def flush(self) -> None:
        """Until every row is settled and the position saved; raises what nobody was told yet."""
        self._release()
        if self._held_grant is None:  # else nothing ever goes
            await self.engine.flushed()
            await self.engine.fencer_named()
            self.tell_failures()
            self._check_not_stopped()
        self._check_input()
        if self._refused is not None:  # the position stays where it was
            raise self._refused
        if not self.closed:
            await self.save_position()

    async def flush_within(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            unacknowledged = counted(self.engine.pipeline.accumulator.unsettled_batches, "batch", "batches")
            raise TimeoutError(f"{unacknowledged} unacknowledged after {timeout_s} s") from None

    def tell_failures(self) -> None:
        """Raise for rows that failed, unless somebody has asked for the result of one of their batch."""
        untold = self.engine.take_untold()
        if untold:
            batch, fate = untold[0]
            count = sum(failed.record_count for failed, _ in untold)
            raise error_of(fate, f"the first row that failed, of {count}, for {batch.tp},")

    async def close(self, timeout_s: float | None, *, is_complete: bool = True) -> None:
        """Flush within the time given, then end everything, and raise for rows that failed unseen.

        Not complete: the caller broke off with an error of its own, perhaps between two sends for one
        position, which is then not saved.
        """
        if self.closed:
            return
        try:
            self._release()
            if self._transactions is not None:
                async with asyncio.timeout(timeout_s):
                    await self._transactions.close()
            async with asyncio.timeout(timeout_s if self._refused is None else 0):
                await self.engine.flushed()
                if is_complete:
                    await self.save_position()
        except TimeoutError:
            pass
        finally:
            self.closed = True
            closed(self._stored_rows.values())
            await self.engine.stop("the producer was closed before it was acknowledged")
            await self.cluster.close()
        if self._keeper is not None and is_complete:
            await self._keeper.finished()
        if is_complete:
            self.tell_failures()
            self._check_input()
