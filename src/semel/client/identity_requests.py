"""Producer ids: ask for one, fence one, and what the logs know of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from semel.client.brokers import BOOTSTRAP, CLIENT_VERSION, VERSION_MAX_BEFORE_V2
from semel.client.routing import TRANSACTION, Again, Routing, by_topic, check_read, partitions_of
from semel.errors import ConnectionLost, ErrorCode
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Lease,
    ProducerDescription,
    ProducerGrant,
    TopicPartition,
)
from semel.wire import describe_producers as describe_producers_wire
from semel.wire import init_producer_id as init_producer_id_wire
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wire.api_versions import COMMITTED_ONLY, MARKER_FENCE
from semel.wire.init_producer_id import InitProducerIdRequest, InitProducerIdResponse, LeaseAsked

_TRANSACTION_TIMEOUT_MS: Final = 60_000  # which nobody looks at without a transactional id


class IdentityRequests(Routing):
    """Requests about producers and what they may still do."""

    @property
    def tells_committed_only(self) -> bool:
        """Whether all that a leader tells of is there for good, as on semel (known once any broker was asked anything).

        On Apache Kafka a batch is, once it was answered or can be read. DescribeProducers and ListOffsets prove
        nothing there: a leader may tell of what no follower has, and one that is cut off from its controller of
        less than its successor has committed.
        """
        return self.brokers.has_feature(COMMITTED_ONLY)

    async def describe_producers(
        self, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """What each partition's leader knows of the producers that wrote to it.

        It may lose what it tells of, unless :attr:`tells_committed_only`.
        """

        async def ask(
            node_id: int, mine: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerDescription]]:
            fields = {
                "topics": [
                    {"name": name, "partition_indexes": [tp.partition for tp in of_topic]}
                    for name, of_topic in by_topic(mine).items()
                ]
            }
            version = CLIENT_VERSION[ApiKey.DESCRIBE_PRODUCERS]
            body = messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, version, fields)
            answer = await self.brokers.ask(node_id, ApiKey.DESCRIBE_PRODUCERS, [body])
            described = {}
            for item in describe_producers_wire.decode_response(answer):
                check_read(item.error_code, f"producers of {item.tp}", item.error_message or "")
                described[item.tp] = list(item.producers)
            return described

        return await self._by_leader(tps, ask)

    async def init_producer_id(
        self,
        transactional_id: str | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        timeout_ms: int = 60_000,
    ) -> ProducerGrant:
        """A new producer id; or, with a name, that identity with its epoch raised (fences the older)."""
        answer = await self._init_producer_id(
            InitProducerIdRequest(transactional_id, timeout_ms, producer_id, producer_epoch)
        )
        return ProducerGrant(answer.producer_id, answer.producer_epoch)

    async def lease_producer_id(
        self,
        tps: Iterable[TopicPartition],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        *,
        is_retried: bool = True,
    ) -> Lease | ProducerGrant:
        """A leased producer id for these partitions; or, with an id and its epoch, the rest of that lease.

        From brokers that know no leases, and for an id that is none, an id without an end. Count what remains
        of a lease from BEFORE the call; of a short one, not ``is_retried``, so that the call takes one attempt.
        """
        request = InitProducerIdRequest(None, _TRANSACTION_TIMEOUT_MS, producer_id, producer_epoch)
        request.lease = LeaseAsked(tuple(dict.fromkeys(tps)))
        answer = await self._init_producer_id(request, is_retried=is_retried)
        if answer.lease is None:
            return ProducerGrant(answer.producer_id, answer.producer_epoch)
        return Lease(
            answer.producer_id,
            answer.producer_epoch,
            answer.lease.length_ms,
            answer.lease.remaining_ms,
            answer.lease.first_sequences,
        )

    async def _init_producer_id(
        self, request: InitProducerIdRequest, *, is_retried: bool = True
    ) -> InitProducerIdResponse:
        version = CLIENT_VERSION[ApiKey.INIT_PRODUCER_ID]
        transactional_id = request.transactional_id

        async def ask() -> InitProducerIdResponse:
            node_id = BOOTSTRAP
            if transactional_id is not None:
                node_id = await self._coordinator(TRANSACTION, transactional_id)
            body = await self.brokers.ask(
                node_id, ApiKey.INIT_PRODUCER_ID, [init_producer_id_wire.encode_request(version, request)]
            )
            answer = init_producer_id_wire.decode_response(version, body)
            if answer.error_code:
                self._coordinators.pop((TRANSACTION, transactional_id or ""), None)
            detail = transactional_id or ""
            if request.lease is not None and answer.error_code == ErrorCode.INVALID_REQUEST:
                detail = _too_large(request.lease)
            check_read(answer.error_code, "ask for a producer id", detail)
            return answer

        return await (self.retried(ask) if is_retried else ask())

    async def write_fence(
        self, fences: Mapping[tuple[int, int], Iterable[TopicPartition]], *, coordinator_epoch: int = 0
    ) -> dict[tuple[int, TopicPartition], ErrorCode]:
        """Raise each (producer id, producer epoch) in those partitions: older epochs can no longer append.

        An abort marker is appended to each (WriteTxnMarkers). INVALID_PRODUCER_EPOCH: a higher one is there.
        """
        wanted = {fence: list(tps) for fence, tps in fences.items()}
        every = {tp for tps in wanted.values() for tp in tps}

        async def ask(
            node_id: int, mine: list[TopicPartition]
        ) -> dict[TopicPartition, dict[tuple[int, TopicPartition], ErrorCode]]:
            here = set(mine)
            markers = [
                {
                    "producer_id": producer_id,
                    "producer_epoch": producer_epoch,
                    "transaction_result": False,
                    "coordinator_epoch": coordinator_epoch,
                    "topics": [
                        {"name": name, "partition_indexes": [tp.partition for tp in of_topic]}
                        for name, of_topic in by_topic(tp for tp in tps if tp in here).items()
                    ],
                }
                for (producer_id, producer_epoch), tps in wanted.items()
                if not here.isdisjoint(tps)
            ]
            answer = await self._cold(node_id, ApiKey.WRITE_TXN_MARKERS, {"markers": markers})
            fenced: dict[TopicPartition, dict[tuple[int, TopicPartition], ErrorCode]] = {}
            for marker in answer.markers:
                for tp, item in partitions_of(marker.topics):
                    code = ErrorCode.of(int(item.error_code))
                    if code.retriable:
                        raise Again(code, f"fence producer {int(marker.producer_id)} in {tp}")
                    fenced.setdefault(tp, {})[int(marker.producer_id), tp] = code
            return fenced

        answers = await self._by_leader(every, ask)
        return {fence: code for of_tp in answers.values() for fence, code in of_tp.items()}

    @property
    def fences_by_marker(self) -> bool:
        """Whether anybody may write a marker, as on semel (known once any broker was asked anything).

        On Apache Kafka that is the brokers' own right (ClusterAction); there a transaction has them write it.
        """
        return self.brokers.has_feature(MARKER_FENCE)

    async def add_partitions_to_transaction(
        self, transactional_id: str, grant: ProducerGrant, tps: Iterable[TopicPartition]
    ) -> None:
        """Begin a transaction, or widen it. PRODUCER_FENCED: the coordinator knows a newer epoch."""
        fields = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": grant.producer_id,
            "v3_and_below_producer_epoch": grant.producer_epoch,
            "v3_and_below_topics": [
                {"name": name, "partitions": [tp.partition for tp in of_topic]}
                for name, of_topic in by_topic(tps).items()
            ],
        }

        async def ask() -> None:
            answer = await self._ask_transaction(transactional_id, ApiKey.ADD_PARTITIONS_TO_TXN, fields)
            for topic in answer.results_by_topic_v3_and_below:
                for item in topic.results_by_partition:
                    check_read(item.partition_error_code, f"take {topic.name}-{item.partition_index} in")

        await self.retried(ask)

    async def abort_transaction(self, transactional_id: str, grant: ProducerGrant) -> None:
        """End the open transaction; its abort markers follow in their own time."""
        fields = {
            "transactional_id": transactional_id,
            "producer_id": grant.producer_id,
            "producer_epoch": grant.producer_epoch,
            "committed": False,
        }

        async def ask() -> None:
            answer = await self._ask_transaction(transactional_id, ApiKey.END_TXN, fields)
            check_read(answer.error_code, "abort a transaction", transactional_id)

        await self.retried(ask)

    async def _ask_transaction(
        self, transactional_id: str, api_key: ApiKey, fields: Mapping[str, Any]
    ) -> Any:
        node_id = await self._coordinator(TRANSACTION, transactional_id)
        try:
            if api_key in VERSION_MAX_BEFORE_V2:
                version_max = VERSION_MAX_BEFORE_V2[api_key]
                return await self._newest(node_id, api_key, fields, version_max=version_max)
            return await self._cold(node_id, api_key, fields)
        except ConnectionLost:
            self._coordinators.pop((TRANSACTION, transactional_id), None)
            raise


def _too_large(lease: LeaseAsked) -> str:
    """What semel's server refuses a lease for, for good."""
    return (
        f"a lease for {len(lease.partitions)} partitions needs room for so many producers of partitions, and the "
        "server remembers fewer at all (its setting max.producers); nothing was stored under it. "
        "Raise max.producers, or let several producers write to fewer partitions each"
    )
