"""Transactions: what a producer asks of its coordinator, one attempt each, and what an administrator asks.

:class:`~semel.core.client.transaction.Transactions` says what the answers to a producer's requests mean; here they are
only told. An administrator's are repeated while the coordinator moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from semel.client.brokers import CLIENT_VERSION, VERSION_MAX_BEFORE_V2
from semel.client.model import TransactionDescription, TransactionListing
from semel.client.routing import GROUP, TRANSACTION, Again, Routing, by_topic, check_read
from semel.core.client.transaction_events import TransactionOffsets
from semel.errors import ConnectionLost, ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant, TopicPartition
from semel.wire import init_producer_id as init_producer_id_wire
from semel.wire.api import ApiKey
from semel.wire.api_versions import TRANSACTION_VERSION
from semel.wire.init_producer_id import InitProducerIdRequest
from semel.wire.messages import field_of, milliseconds

_V2: Final = 2
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_EMPTY: Final = "Empty"


class NotSent(ConnectionLost):
    """The coordinator could not be reached: no byte of the question left."""


class TransactionRequests(Routing):
    """Requests about transactions."""

    @property
    def is_transaction_v2(self) -> bool:
        """Which protocol the cluster wants (once any broker was connected to); the level may rise while it runs."""
        return self.brokers.finalized_level(TRANSACTION_VERSION) >= _V2

    # -- of a producer: one attempt ---------------------------------------------------------------------

    async def begin_as(
        self, transactional_id: str, timeout_ms: int, before: ProducerGrant | None
    ) -> tuple[ErrorCode, ProducerGrant | None]:
        """InitProducerId: a place of one's own, or the next epoch of the one that is held."""
        version = CLIENT_VERSION[ApiKey.INIT_PRODUCER_ID]
        producer_id, epoch = (
            (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            if before is None
            else (before.producer_id, before.producer_epoch)
        )
        request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)
        node_id = await self._reached(TRANSACTION, transactional_id)
        body = await self._told(
            TRANSACTION,
            transactional_id,
            self.brokers.ask(
                node_id, ApiKey.INIT_PRODUCER_ID, [init_producer_id_wire.encode_request(version, request)]
            ),
        )
        answer = init_producer_id_wire.decode_response(version, body)
        code = self._code(TRANSACTION, transactional_id, answer.error_code)
        return code, None if code else ProducerGrant(answer.producer_id, answer.producer_epoch)

    async def add_partitions_once(
        self, transactional_id: str, grant: ProducerGrant, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """AddPartitionsToTxn. All are taken in, or none is: the others are then OPERATION_NOT_ATTEMPTED."""
        fields = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": grant.producer_id,
            "v3_and_below_producer_epoch": grant.producer_epoch,
            "v3_and_below_topics": [
                {"name": name, "partitions": [tp.partition for tp in of_topic]}
                for name, of_topic in by_topic(tps).items()
            ],
        }
        node_id = await self._reached(TRANSACTION, transactional_id)
        answer = await self._told(
            TRANSACTION, transactional_id, self._cold(node_id, ApiKey.ADD_PARTITIONS_TO_TXN, fields)
        )
        return {
            TopicPartition(topic.name, int(item.partition_index)): self._code(
                TRANSACTION, transactional_id, item.partition_error_code
            )
            for topic in answer.results_by_topic_v3_and_below
            for item in topic.results_by_partition
        }

    async def add_offsets(self, transactional_id: str, grant: ProducerGrant, group: str) -> ErrorCode:
        """AddOffsetsToTxn: the group's partition of ``__consumer_offsets`` is taken in."""
        fields = _fields(transactional_id, grant) | {"group_id": group}
        node_id = await self._reached(TRANSACTION, transactional_id)
        answer = await self._told(
            TRANSACTION, transactional_id, self._newest(node_id, ApiKey.ADD_OFFSETS_TO_TXN, fields)
        )
        return self._code(TRANSACTION, transactional_id, answer.error_code)

    async def commit_in_transaction(
        self, transactional_id: str, grant: ProducerGrant, wanted: TransactionOffsets, *, is_v2: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """TxnOffsetCommit, of the group's own coordinator: what counts once the transaction does."""
        fields = _fields(transactional_id, grant) | {
            "group_id": wanted.group,
            "generation_id": wanted.generation_id,
            "member_id": wanted.member_id,
            "group_instance_id": wanted.group_instance_id,
            "topics": [
                {"name": name, "partitions": [_offset_of(tp, *wanted.offsets[tp]) for tp in of_topic]}
                for name, of_topic in by_topic(wanted.offsets).items()
            ],
        }
        version_max = None if is_v2 else VERSION_MAX_BEFORE_V2[ApiKey.TXN_OFFSET_COMMIT]
        node_id = await self._reached(GROUP, wanted.group)
        answer = await self._told(
            GROUP,
            wanted.group,
            self._newest(node_id, ApiKey.TXN_OFFSET_COMMIT, fields, version_max=version_max),
        )
        return {
            TopicPartition(topic.name, int(item.partition_index)): self._code(
                GROUP, wanted.group, item.error_code
            )
            for topic in answer.topics
            for item in topic.partitions
        }

    async def end_transaction(
        self, transactional_id: str, grant: ProducerGrant, *, is_commit: bool, is_v2: bool
    ) -> tuple[ErrorCode, ProducerGrant | None]:
        """EndTxn; in the second protocol with the id and the epoch of the next transaction."""
        fields = _fields(transactional_id, grant) | {"committed": is_commit}
        version_max = None if is_v2 else VERSION_MAX_BEFORE_V2[ApiKey.END_TXN]
        node_id = await self._reached(TRANSACTION, transactional_id)
        answer = await self._told(
            TRANSACTION,
            transactional_id,
            self._newest(node_id, ApiKey.END_TXN, fields, version_max=version_max),
        )
        code = self._code(TRANSACTION, transactional_id, answer.error_code)
        producer_id = int(field_of(answer, "producer_id", NO_PRODUCER_ID))
        if code or producer_id < 0:
            return code, None
        return code, ProducerGrant(producer_id, int(answer.producer_epoch))

    async def describe_own_transaction(
        self, transactional_id: str
    ) -> tuple[ErrorCode, TransactionDescription | None]:
        """DescribeTransactions of one's own name."""
        node_id = await self._reached(TRANSACTION, transactional_id)
        answer = await self._told(
            TRANSACTION,
            transactional_id,
            self._cold(node_id, ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [transactional_id]}),
        )
        (item,) = answer.transaction_states
        code = self._code(TRANSACTION, transactional_id, item.error_code)
        return code, None if code else _described(item, node_id)

    # -- of an administrator ----------------------------------------------------------------------------

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        duration_min_ms: int = -1,
    ) -> list[TransactionListing]:
        """The transactional ids of every broker, by name.

        ``states``: only those in one of them, by Kafka's words; ``duration_min_ms``: only transactions that have been
        open for so long (KIP-994; brokers before Kafka 3.8 do not know it, and answer all).
        """
        nodes = (await self.metadata([])).brokers
        fields = {
            "state_filters": list(states),
            "producer_id_filters": list(producer_ids),
            "duration_filter": duration_min_ms,
        }

        async def ask(node_id: int) -> list[TransactionListing]:
            async def once() -> list[TransactionListing]:
                answer = await self._newest(node_id, ApiKey.LIST_TRANSACTIONS, fields)
                check_read(answer.error_code, "list transactions")
                return [
                    TransactionListing(
                        item.transactional_id, int(item.producer_id), item.transaction_state, node_id
                    )
                    for item in answer.transaction_states
                ]

            return await self.retried(once)

        found = await self.runtime.gather(ask(node_id) for node_id in nodes)
        return sorted((item for items in found for item in items), key=lambda item: item.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | None]:
        """Each as its coordinator knows it; None: it knows no such transactional id."""
        names = list(dict.fromkeys(transactional_ids))
        found = await self.runtime.gather(self._describe_transaction(name) for name in names)
        return dict(zip(names, found, strict=True))

    async def _describe_transaction(self, transactional_id: str) -> TransactionDescription | None:
        async def ask() -> TransactionDescription | None:
            code, described = await self.describe_own_transaction(transactional_id)
            if code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            check_read(code, f"describe the transactions of {transactional_id!r}")
            return described

        return await self.retried(ask)

    async def abort_transaction_of(self, transactional_id: str, timeout_ms: int) -> ProducerGrant:
        """Shut whoever has this transactional id out; what it has open is aborted (``Admin.fenceProducers``).

        Answers what is held then, which nobody uses. ``timeout_ms``: of its transactions, from then on.
        """

        async def ask() -> ProducerGrant:
            code, grant = await self.begin_as(transactional_id, timeout_ms, None)
            check_read(code, f"end what {transactional_id!r} has open")
            if grant is None:
                raise Again(ErrorCode.UNKNOWN, f"end what {transactional_id!r} has open")
            return grant

        return await self.retried(ask)

    # -- the coordinator --------------------------------------------------------------------------------

    async def _reached(self, key_type: int, key: str) -> int:
        try:
            node_id = await self._coordinator(key_type, key)
            await self.brokers.connection(node_id)
        except ConnectionLost as error:
            self.forget_coordinator(key_type, key)
            raise NotSent(str(error)) from error
        return node_id

    async def _told(self, key_type: int, key: str, question: Any) -> Any:
        try:
            return await question
        except ConnectionLost:
            self.forget_coordinator(key_type, key)
            raise

    def _code(self, key_type: int, key: str, code: int) -> ErrorCode:
        found = ErrorCode.of(int(code))
        if found in _MOVED:
            self.forget_coordinator(key_type, key)
        return found


def _fields(transactional_id: str, grant: ProducerGrant) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": grant.producer_id,
        "producer_epoch": grant.producer_epoch,
    }


def _offset_of(tp: TopicPartition, offset: int, metadata: str | None, leader_epoch: int) -> Mapping[str, Any]:
    return {
        "partition_index": tp.partition,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "committed_metadata": metadata,
    }


def _described(item: Any, coordinator: int) -> TransactionDescription:
    began = item.transaction_start_time
    return TransactionDescription(
        item.transactional_id,
        item.transaction_state,
        int(item.producer_id),
        int(item.producer_epoch),
        milliseconds(item.transaction_timeout),
        _since_epoch_ms(began) if item.transaction_state != _EMPTY else None,
        tuple(
            sorted(
                TopicPartition(topic.topic, int(number))
                for topic in item.topics
                for number in topic.partitions
            )
        ),
        coordinator,
    )


def _since_epoch_ms(began: datetime | None) -> int | None:
    """Kafka says -1 of one that has none open."""
    if began is None or began.timestamp() < 0:
        return None
    return round(began.timestamp() * 1000)
