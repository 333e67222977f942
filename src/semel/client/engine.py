"""The shell around the producer's pipeline: a lock, a timer, and what a settled batch means for its rows.

Rows are appended from any thread under the lock; everything else happens on the loop. The pipeline decides; what it
asks and sends is carried out by :mod:`semel.client.effects`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from semel.client.cluster import Cluster
from semel.client.delivery import Promise, Promises
from semel.client.effects import EffectRunner
from semel.client.runtime import monotonic_ms
from semel.client.transaction_asking import CoordinatorAsker
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Effects, Event, Tick
from semel.core.client.fate import Fenced, InDoubt, PartFate, Parts, Refused, Stored
from semel.core.client.pipeline import Pipeline
from semel.core.client.settings import PipelineSettings
from semel.errors import SemelError
from semel.types import TopicPartition

_NAME_FENCER_S: Final = 5.0
_NAME_FENCER_AT_CLOSE_S: Final = 1.0
_UNTOLD_MAX: Final = 1_000
_Failed = Refused | InDoubt | Fenced


class ProducerEngine:
    """Runs one pipeline on one loop."""

    def __init__(
        self,
        cluster: Cluster,
        settings: PipelineSettings,
        loop: asyncio.AbstractEventLoop,
        *,
        on_stored: Callable[[TopicPartition, Stored, int], None] | None = None,
        on_settled: Callable[[], None] | None = None,
        asker: CoordinatorAsker | None = None,
    ) -> None:
        self.cluster = cluster
        self.pipeline = Pipeline(settings)
        self._runner = EffectRunner(
            cluster,
            start=self.start,
            handle=self.handle,
            asker=asker,
            transactions=self.pipeline.transactions,
        )
        self.loop = loop
        self.lock = threading.Lock()
        self.settled = threading.Condition(self.lock)  # notified whenever room was made
        self.broken: BaseException | None = None  # a fault of this program's own
        self.promises = Promises()  # under the lock
        self._untold: deque[tuple[Promise, ProducerBatch, _Failed]] = deque(maxlen=_UNTOLD_MAX)
        self.fencer_epoch: int | None = None  # of the newer copy, once it was asked for
        self._unnamed: set[tuple[ProducerBatch, Fenced]] = set()
        self._naming: set[asyncio.Task[None]] = set()
        self._on_stored, self._on_settled = on_stored, on_settled
        self._wakers: dict[asyncio.Future[None], None] = {}  # in the order in which they came
        self._place_wakers: list[asyncio.Future[None]] = []
        self._tick_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._parts: dict[ProducerBatch, dict[int, tuple[int, PartFate]]] = {}

    # -- from any thread --------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the pipeline look at what was appended. Call with the lock held."""
        if not self._tick_due:
            self._tick_due = True
            self.loop.call_soon_threadsafe(self._tick)

    def start_flush(self) -> None:
        with self.lock:
            self.pipeline.accumulator.seal()
            self.wake()

    # -- on the loop ------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        try:
            with self.lock:
                effects = self.pipeline.handle(event, monotonic_ms())
                deadline_ms = self.pipeline.next_deadline_ms()
        except Exception as error:
            self._break(error)
            return
        self._carry_out(effects)
        self._tell_moved_on()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            self._timer = self.loop.call_later(max(0, deadline_ms - monotonic_ms()) / 1000, self._tick)

    async def room_made(self) -> None:
        """Until some batch settles."""
        waker: asyncio.Future[None] = self.loop.create_future()
        self._wakers[waker] = None
        try:
            await waker
        finally:
            self._wakers.pop(waker, None)

    async def moved_on(self) -> None:
        """Until something happened to the producer's transactions, perhaps."""
        waker: asyncio.Future[None] = self.loop.create_future()
        self._place_wakers.append(waker)
        await waker

    def _tell_moved_on(self) -> None:
        wakers, self._place_wakers = self._place_wakers, []
        for waker in wakers:
            if not waker.done():
                waker.set_result(None)

    async def flushed(self) -> None:
        """Until nothing is unsettled."""
        self.start_flush()
        while True:
            with self.lock:
                if self.pipeline.accumulator.unsettled_batches == 0:
                    return
            await self.room_made()

    async def stop(self, why: str) -> None:
        """Settle what is left by what is known of it, and end every task."""
        with self.lock:
            effects = self.pipeline.forget_unsent(why)
        self._carry_out(effects)
        if self._timer is not None:
            self._timer.cancel()
        await self.fencer_named(_NAME_FENCER_AT_CLOSE_S)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._finish_fenced(list(self._unnamed), None)

    async def fencer_named(self, timeout_s: float | None = None) -> None:
        """Until the newer copy's epoch is known, if this one was fenced."""
        if self._naming:
            await asyncio.wait(self._naming, timeout=timeout_s)

    def take_untold(self) -> list[tuple[ProducerBatch, _Failed]]:
        """The failed batches, none of whose rows' errors anybody was given; the newest thousand."""
        with self.lock:
            untold = [(batch, fate) for promise, batch, fate in self._untold if not promise.told]
            self._untold.clear()
        return untold

    def _tick(self) -> None:
        self._tick_due = False
        self.handle(Tick())

    def _carry_out(self, effects: Effects) -> None:
        if effects.settled:
            self._settle(effects.settled)
        self._runner.carry_out(effects)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something for as long as the engine runs; a fault in it ends the producer."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """A fault of ours: settle all that waits, rather than leave it waiting for ever."""
        if self.broken is not None:
            return
        self.broken = error
        self.loop.call_exception_handler({"message": "the producer broke", "exception": error})
        with self.lock:
            effects = self.pipeline.forget_unsent(f"the producer broke: {error!r}")
        self._carry_out(effects)
        self._tell_moved_on()

    def _settle(self, settled: list[tuple[ProducerBatch, PartFate]]) -> None:
        unnamed = [
            (batch, fate) for batch, fate in settled if isinstance(fate, Fenced) and fate.newer_epoch is None
        ]
        if unnamed:
            self._unnamed.update(unnamed)
            task = self.start(self._name_the_fencer(unnamed))
            self._naming.add(task)
            task.add_done_callback(self._naming.discard)
        with self.lock:
            for batch, fate in settled:
                if isinstance(fate, Stored) and self._on_stored is not None:
                    self._on_stored(batch.tp, fate, batch.record_count)
                if isinstance(fate, Fenced) and fate.newer_epoch is None:
                    continue
                self._finish(batch, fate)
            self.settled.notify_all()
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)
        if self._on_settled is not None:
            self._on_settled()

    def _finish(self, batch: ProducerBatch, fate: PartFate) -> None:
        batch.encoded = None  # what was not told outlives it
        whole = batch.whole or batch
        promise = self.promises[whole]
        if not isinstance(fate, Stored):
            self._untold.append((promise, batch, fate))
        if batch.whole is None:
            del self.promises[batch]
            promise.fate.set_result(fate)
            return
        parts = self._parts.setdefault(whole, {})
        parts[batch.first_row] = (batch.record_count, fate)
        if sum(record_count for record_count, _ in parts.values()) == whole.record_count:
            del self._parts[whole], self.promises[whole]
            promise.fate.set_result(Parts(tuple((row, parts[row][1]) for row in sorted(parts))))

    async def _name_the_fencer(self, fenced: Sequence[tuple[ProducerBatch, Fenced]]) -> None:
        newer: int | None = None
        with contextlib.suppress(SemelError, TimeoutError):
            async with asyncio.timeout(_NAME_FENCER_S):
                described = await self.cluster.describe_producers({batch.tp for batch, _ in fenced})
            grants = {fate.grant for _, fate in fenced}
            ids = {grant.producer_id for grant in grants if grant is not None}
            found = [item for items in described.values() for item in items if item.producer_id in ids]
            newer = max((item.producer_epoch for item in found), default=None)
        self._finish_fenced(fenced, newer)

    def _finish_fenced(self, fenced: Sequence[tuple[ProducerBatch, Fenced]], newer: int | None) -> None:
        with self.lock:
            for batch, fate in fenced:
                self._unnamed.discard((batch, fate))
                named = Fenced(fate.code, fate.grant, newer, fate.maybe_stored)
                self._finish(batch, named)
            self.fencer_epoch = newer if self.fencer_epoch is None else self.fencer_epoch
