"""A client with a transactional id: it reads its input, writes rows, commits what it has read, all in transactions.

What it has no answer to it asks again. Where a row was refused, or it wants so, it aborts, and reads its input again
from where the transaction began (KAFKA-17582). Of the older protocol it is a careful client: after a transaction in
which an answer did not come it takes a new epoch, for what is still under way could meet the next transaction
(KAFKA-17754, which KIP-890 closes by the newer one).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from semel.errors import ErrorCode
from semel.record.batch import encode_batch
from semel.record.records import Record
from semel.sim.checkers.watchers import ProducerWatcher
from semel.sim.clients.cluster import SimulatedRuntime, drive
from semel.sim.transactions.requests import NO_ANSWER, TransactionRequests
from semel.sim.transactions.story import Offsets, Poll, Protocol, Row, TransactionPlan, TransactionStory, Txn
from semel.sim.transactions.watcher import TransactionWatcher
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import ProducerGrant, TopicPartition

AGAIN_MS: Final = (20, 250)
GAPS_MS: Final = (0, 20, 300)  # who hurries has begun the next before anything else has happened
TRIES_MAX: Final = 6
ROWS_OF_A_BATCH_MAX: Final = 3
OFFSETS_CHANCE: Final = 0.8
HESITATION_CHANCE: Final = 0.06
INPUT_BYTES_MAX: Final = 1_500
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_OTHER_ID: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_AGAIN: Final = frozenset(
    {
        NO_ANSWER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class TransactionClient:
    """One life. ``on_end`` is called when it ends by itself; ``on_step`` after each answer that settles something."""

    def __init__(
        self,
        plan: TransactionPlan,
        story: TransactionStory,
        name: str,
        random: Random,
        around: Surroundings,
        *,
        on_end: Callable[[TransactionClient], None],
        on_step: Callable[[], None],
    ) -> None:
        self.plan: Final = plan
        self.name: Final = name
        self.process: Final = Process(around.scheduler)
        self.is_over = False  # it was fenced or killed, or has ended as it was to
        self.is_to_end = False
        self._story, self._random, self._around = story, random, around
        self._on_end, self._on_step = on_end, on_step
        self._watcher = around.watchers.of(TransactionWatcher)
        self._protocol = random.choice(plan.protocols)
        self._requests = TransactionRequests(plan, story, name, self.process, around, self._protocol)
        self._runtime = SimulatedRuntime(self.process)
        self._grant: ProducerGrant | None = None
        self._sequences: dict[TopicPartition, int] = {}  # under that grant
        self._added: set[TopicPartition] = set()  # to the transaction
        self._offsets_are_added = False
        self._is_in_doubt = False  # something of this transaction may still be under way
        self._position = 0
        self._gap_ms_max = random.choice(GAPS_MS)
        drive(self._live(), self._ended)

    def die(self) -> None:
        """Without a word."""
        self.is_over = True
        self.process.alive = False
        self._requests.die()

    def _ended(self, result: None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self.is_over = True
        self._on_end(self)

    async def _pause(self, least_ms: int, most_ms: int) -> None:
        await self._runtime.pause(self._random.randint(least_ms, most_ms))

    async def _live(self) -> None:
        """Until it is fenced, or is to end."""
        await self._take_identity(None)
        found = None
        while found is None and not self.is_over:
            found = await self._requests.position(self.plan.group_id, self.plan.input)
            if found is None:
                await self._pause(*AGAIN_MS)
        self._position = max(0, found or 0)
        while not self.is_over and not self.is_to_end:
            await self._pause(0, self._gap_ms_max)
            await self._transact()

    async def _take_identity(self, after: ProducerGrant | None) -> None:
        while not self.is_over:
            code, grant = await self._requests.init(after)
            if grant is not None:
                self._around.watchers.of(ProducerWatcher).granted(grant, is_fresh=False)
                self._begin_under(grant)
                self._is_in_doubt = False
                return
            if code in _FENCED:
                self.is_over = True
            elif code not in _AGAIN:
                raise AssertionError(f"{self.name} is not granted its name: {code.name}")
            await self._pause(*AGAIN_MS)

    def _begin_under(self, grant: ProducerGrant) -> None:
        if grant != self._grant:
            self._grant = grant
            self._sequences.clear()

    # -- one transaction

    async def _transact(self) -> None:
        assert self._grant is not None
        txn = self._story.begin(
            self.plan.transactional_id, self.name, self._grant, self._around.scheduler.now_ms
        )
        self._added.clear()
        self._offsets_are_added = False
        began_at = self._position
        read = await self._read_input(txn)
        has_all = await self._write(txn) and (read is None or await self._commit_offsets(txn, read))
        if self.is_over or not (txn.rows or txn.offsets):
            return
        if self._random.random() < HESITATION_CHANCE:
            await self._pause(0, 2 * self.plan.timeout_ms)
        await self._end(txn, commit=has_all and self._random.random() < self.plan.commits)
        if not txn.asked:
            self._position = began_at
        if self._protocol is Protocol.OLDER and (self._is_in_doubt or not has_all) and not self.is_over:
            await self._take_identity(self._grant)

    async def _read_input(self, txn: Txn) -> Offsets | None:
        """What it reads this time; ``None``: nothing."""
        start = self._position
        found = await self._requests.poll(self.plan.input, start, INPUT_BYTES_MAX, is_committed=True)
        if isinstance(found, int) and not isinstance(found, ErrorCode):
            start = self._position = found
        if not isinstance(found, Poll):
            return None
        txn.polled += [(found.tp, value) for _, value in found.rows]
        self._position = found.next_offset
        if found.next_offset == start or self._random.random() >= OFFSETS_CHANCE:
            self._position = start  # it reads the same once more
            return None
        return Offsets(self.plan.group_id, self.plan.input, start, found.next_offset)

    async def _write(self, txn: Txn) -> bool:
        """Whether all of it is acknowledged."""
        rows_left = self._random.randint(0 if txn.polled else 1, self.plan.rows_max)
        while rows_left > 0:
            tps = self._random.sample(
                self._story.tps, min(self._random.choice((1, 1, 2)), len(self._story.tps))
            )
            batches: dict[TopicPartition, list[Row]] = {}
            for tp in tps:
                batches[tp] = [txn.send(tp) for _ in range(self._random.randint(1, ROWS_OF_A_BATCH_MAX))]
                rows_left -= len(batches[tp])
            if not await self._add(txn, tps) or not await self._produce(txn, batches):
                return False
            self._around.counts.operations += sum(map(len, batches.values()))
            self._on_step()
        return True

    async def _add(self, txn: Txn, tps: list[TopicPartition]) -> bool:
        fresh = set(tps) - self._added
        if self._protocol is Protocol.NEWER or not fresh:
            return True
        if not await self._insist(lambda: self._requests.add_partitions(txn, fresh)):
            return False
        self._added |= fresh
        return True

    async def _produce(self, txn: Txn, rows: dict[TopicPartition, list[Row]]) -> bool:
        left = {tp: self._batch_of(txn, tp, some) for tp, some in rows.items()}

        async def produce() -> ErrorCode:
            worst = ErrorCode.NONE
            for tp, (code, base_offset) in (await self._requests.produce(txn, left)).items():
                if code is ErrorCode.NONE:
                    del left[tp]
                    for offset, row in enumerate(rows[tp], base_offset):
                        row.record_offset = offset
                elif worst is ErrorCode.NONE or worst in _AGAIN:
                    worst = code
            return worst

        if not await self._insist(produce):
            return False
        for tp, some in rows.items():
            self._sequences[tp] = self._sequences.get(tp, 0) + len(some)
        return True

    def _batch_of(self, txn: Txn, tp: TopicPartition, rows: list[Row]) -> bytearray:
        now_ms = self.process.time_of_day_ms
        return encode_batch(
            [Record(n, now_ms, None, row.value) for n, row in enumerate(rows)],
            producer_id=txn.grant.producer_id,
            producer_epoch=txn.grant.producer_epoch,
            base_sequence=self._sequences.get(tp, 0),
            transactional=True,
        )

    async def _commit_offsets(self, txn: Txn, offsets: Offsets) -> bool:
        txn.offsets = offsets
        if self._protocol is Protocol.OLDER:
            if not await self._insist(lambda: self._requests.add_offsets(txn, offsets.group_id)):
                return False
            self._offsets_are_added = True
        if not await self._insist(lambda: self._requests.commit_offsets(txn, offsets)):
            return False
        self._on_step()
        return True

    async def _end(self, txn: Txn, *, commit: bool) -> None:
        txn.asked = commit
        while not self.is_over:
            ended = await self._requests.end(txn, commit=commit)
            if ended.code is ErrorCode.NONE:
                txn.told, txn.told_ms = commit, self._around.scheduler.now_ms
                assert ended.grant is not None
                self._begin_under(ended.grant)
                self._watcher.transaction_ended(self._story, txn)
                self._on_step()
                return
            if ended.code in _FENCED or (ended.code is _OTHER_ID and self._may_have_been_replaced(txn)):
                self.is_over = True
            elif ended.code is ErrorCode.INVALID_TXN_STATE and not commit and not self._has_begun:
                self._is_in_doubt = True  # nothing of it is known, or not yet
                return
            elif ended.code is ErrorCode.INVALID_TXN_STATE and (
                self._took_too_long(txn) or txn.began_ms <= self._story.lost_ms
            ):
                self.is_over = (
                    True  # by KIP-890 its own abort would have been told it, with an epoch to go on with
                )
            elif ended.code not in _AGAIN:
                self._watcher.end_refused(self._story, txn, ended.code)
                self.is_over = True
            else:
                self._is_in_doubt |= ended.code is NO_ANSWER
                await self._pause(*AGAIN_MS)

    def _took_too_long(self, txn: Txn) -> bool:
        """Whether the coordinator may have aborted it."""
        return self._around.scheduler.now_ms - txn.began_ms >= self.plan.timeout_ms

    def _may_have_been_replaced(self, txn: Txn) -> bool:
        """Whether its producer id may have run out of epochs, so that a newer client of the name has another."""
        first = self.plan.first
        return first is not None and txn.grant.producer_id == first.producer_id

    @property
    def _has_begun(self) -> bool:
        """Whether the coordinator has said that it has something of the transaction."""
        return self._protocol is Protocol.NEWER or bool(self._added) or self._offsets_are_added

    async def _insist(self, ask: Callable[[], Awaitable[ErrorCode]]) -> bool:
        """Whether it is done, in so many tries."""
        for _ in range(TRIES_MAX):
            code = await ask()
            if code is ErrorCode.NONE:
                return True
            if code in _FENCED:
                self.is_over = True
            if code not in _AGAIN or self.is_over:
                return False
            self._is_in_doubt |= code is NO_ANSWER
            await self._pause(*AGAIN_MS)
        return False
