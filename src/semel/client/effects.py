"""Carries out what a producer's pipeline asks and sends: one request per effect, each answer an event.

The one reading of :class:`~semel.core.client.events.Effects`, on an asyncio loop and in simulated time. What a
settled batch means for its rows is the owner's business, and so is who runs the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from semel.client.cluster import Cluster
from semel.client.model import Produced
from semel.client.reading_back import read_back
from semel.client.transaction_asking import CoordinatorAsker
from semel.core.client.events import (
    Answer,
    Answered,
    Effects,
    Event,
    Granted,
    LeadersKnown,
    Leased,
    LeaseRefused,
    LogAnswered,
    LogSilent,
    Lost,
    NoLeases,
    ReadBack,
    SendProduce,
    Trouble,
)
from semel.core.client.transaction import Transactions
from semel.core.client.transaction_events import AskCoordinator
from semel.errors import BrokerError, ErrorCode, SemelError
from semel.types import Lease, ProducerGrant, TopicPartition

_ASK_AGAIN_MS: Final = 100
_NO_LEASES: Final = (
    "lease=True asks for a producer id that is leased, and these brokers know of no leases (Apache Kafka has none); "
    "leave lease=True out, or write to semel"
)

_Answers = dict[TopicPartition, Produced]


class EffectRunner:
    """The requests of one pipeline.

    ``start`` runs a request beside the others; ``handle`` takes the events that come of them. ``new_grant``: how
    a producer id is come by, where that is not by asking for a fresh one. ``asker``: of a transactional producer, whose
    ``transactions`` say by which protocol its rows go.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        start: Callable[[Coroutine[Any, Any, None]], object],
        handle: Callable[[Event], None],
        new_grant: Callable[[], Awaitable[ProducerGrant]] | None = None,
        transactional_id: str | None = None,
        asker: CoordinatorAsker | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self._cluster = cluster
        self._start = start
        self._handle = handle
        self._new_grant = new_grant or cluster.init_producer_id
        self._transactional_id = transactional_id if asker is None else asker.transactional_id
        self._asker, self._transactions = asker, transactions
        self._unwritten: dict[int, deque[SendProduce]] = {}  # by node

    def carry_out(self, effects: Effects) -> None:
        """Ask, then send. What is settled is settled before this."""
        if effects.ask_grant:
            self._start(self._ask_grant())
        if effects.ask_lease is not None:
            self._start(self._ask_lease(effects.ask_lease))
        if effects.ask_leaders_of:
            self._start(self._ask_leaders(frozenset(effects.ask_leaders_of)))
        for tp, grant in effects.ask_log:
            self._start(self._ask_log(tp, grant))
        for ask in effects.read_back:
            self._start(self._read_back(ask))
        if effects.ask_coordinator is not None and self._asker is not None:
            self._start(self._ask_coordinator(self._asker, effects.ask_coordinator))
        for send in effects.sends:
            unwritten = self._unwritten.setdefault(send.node_id, deque())
            unwritten.append(send)
            if len(unwritten) == 1:
                self._start(self._write(unwritten))

    async def _ask_grant(self) -> None:
        while True:
            try:
                grant = await self._new_grant()
            except SemelError as error:
                self._handle(Trouble(str(error)))
                await self._cluster.runtime.pause(_ASK_AGAIN_MS)
                continue
            self._handle(Granted(grant))
            return

    async def _ask_lease(self, tps: tuple[TopicPartition, ...]) -> None:
        asked_ms = self._cluster.runtime.now_ms()
        try:
            answer = await self._cluster.lease_producer_id(tps, is_retried=False)
        except SemelError as error:
            if isinstance(error, BrokerError) and error.code is ErrorCode.INVALID_REQUEST:
                self._handle(NoLeases(str(error), error.code))
            else:
                self._handle(LeaseRefused(str(error)))
            return
        self._handle(Leased(answer, asked_ms) if isinstance(answer, Lease) else NoLeases(_NO_LEASES))

    async def _ask_leaders(self, topics: frozenset[str]) -> None:
        leaders: dict[TopicPartition, int] = {}
        try:
            # Never made here: a topic that is gone is an error, not a reason for an empty one.
            leaders = await self._cluster.leaders(topics)
        except SemelError as error:
            self._handle(Trouble(str(error)))
        self._handle(LeadersKnown(topics, leaders))

    async def _ask_log(self, tp: TopicPartition, grant: ProducerGrant) -> None:
        asked_ms = self._cluster.runtime.now_ms()
        try:
            described = (await self._cluster.describe_producers([tp]))[tp]
        except SemelError as error:
            self._handle(LogSilent(tp, str(error)))
            return
        ours = next((item for item in described if item.producer_id == grant.producer_id), None)
        self._handle(
            LogAnswered(
                tp,
                None if ours is None else ours.producer_epoch,
                None if ours is None else ours.last_sequence,
                grant,
                None if ours is None else ours.lease_remaining_ms,
                asked_ms,
                may_be_lost=not self._cluster.tells_committed_only,
            )
        )

    async def _read_back(self, ask: ReadBack) -> None:
        try:
            answer: Event = await read_back(self._cluster, ask)
        except SemelError as error:
            answer = LogSilent(ask.tp, str(error))
        self._handle(answer)

    async def _ask_coordinator(self, asker: CoordinatorAsker, ask: AskCoordinator) -> None:
        self._handle(await asker.ask(ask))

    async def _write(self, unwritten: deque[SendProduce]) -> None:
        """Requests leave in the order in which they were decided; their answers are awaited side by side."""
        while unwritten:
            send = unwritten[0]
            batches = {batch.tp: memoryview(batch.encoded or b"") for batch in send.batches}
            try:
                answer = await self._begin(send.node_id, batches)
            except SemelError as error:
                self._handle(Lost(send.request_id, False, str(error)))
                unwritten.popleft()  # behind it: what is sent because of it stands in the same line
                continue
            unwritten.popleft()
            if not unwritten:
                await self._take_answer(send, answer)
                return
            self._start(self._take_answer(send, answer))

    async def _begin(
        self, node_id: int, batches: Mapping[TopicPartition, memoryview]
    ) -> Coroutine[Any, Any, _Answers]:
        if self._transactions is None:
            return await self._cluster.begin_produce(
                node_id, batches, transactional_id=self._transactional_id
            )
        return await self._cluster.begin_produce(
            node_id,
            batches,
            transactional_id=self._transactional_id,
            in_transaction=True,
            is_v2=self._transactions.is_v2,
        )

    async def _take_answer(self, send: SendProduce, answer: Coroutine[Any, Any, _Answers]) -> None:
        try:
            produced = await answer
        except SemelError as error:
            self._handle(Lost(send.request_id, True, str(error)))
            return
        self._handle(
            Answered(
                send.request_id,
                {
                    tp: Answer(
                        item.error_code,
                        item.base_offset,
                        item.log_append_time_ms,
                        item.error_message,
                    )
                    for tp, item in produced.items()
                },
            )
        )
