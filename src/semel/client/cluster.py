"""The low-level client: one method a request, sent to the right broker, answered in plain values.

Reads are repeated until ``request_timeout_ms`` when a broker cannot be reached or leadership moves; so is what
may be done twice: offset commits, fences, trims, deletions of groups, and asking for a producer id, of which one more
is wasted.
Rows are never sent again here: ``produce`` is one attempt, and the caller judges its answer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Literal
from uuid import UUID

from semel.client.brokers import (
    CLIENT_VERSION,
    FETCH_BY_ID,
    PRODUCE_IN_V2,
    VERSION_MAX_BEFORE_V2,
)
from semel.client.group_requests import GroupRequests
from semel.client.identity_requests import IdentityRequests
from semel.client.model import (
    BrokerAddress,
    ClusterDescription,
    Fetched,
    ListedOffset,
    Produced,
)
from semel.client.routing import by_topic, check, check_read, partitions_of
from semel.client.topic_requests import TopicRequests
from semel.client.transaction_requests import TransactionRequests
from semel.errors import ConnectionLost, ErrorCode
from semel.types import NO_LEADER_EPOCH, TopicPartition
from semel.wire import fetch as fetch_wire
from semel.wire import produce as produce_wire
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer

Isolation = Literal["read_committed", "read_uncommitted"]


class Cluster(TopicRequests, IdentityRequests, GroupRequests, TransactionRequests):
    """Requests to a cluster. Belongs to the loop that first uses it."""

    async def describe_cluster(self) -> ClusterDescription:
        fields = {"include_cluster_authorized_operations": False}
        answer = await self.retried(lambda: self._anywhere(ApiKey.DESCRIBE_CLUSTER, fields))
        check(answer.error_code, "describe the cluster")
        return ClusterDescription(
            answer.cluster_id,
            int(answer.controller_id),
            {
                int(item.broker_id): BrokerAddress(int(item.broker_id), item.host, int(item.port))
                for item in answer.brokers
            },
        )

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation: Isolation = "read_committed"
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first offset at or after the timestamp given (or a sentinel)."""

        async def ask(node_id: int, tps: list[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
            fields = {
                "replica_id": -1,
                "isolation_level": _isolation_level(isolation),
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {
                                "partition_index": tp.partition,
                                "current_leader_epoch": self.leader_epochs.of(tp),
                                "timestamp": timestamps[tp],
                            }
                            for tp in of_topic
                        ],
                    }
                    for name, of_topic in by_topic(tps).items()
                ],
            }
            answer = await self._cold(node_id, ApiKey.LIST_OFFSETS, fields)
            listed = {}
            for tp, item in partitions_of(answer.topics):
                check_read(item.error_code, f"offsets of {tp}")
                listed[tp] = ListedOffset(int(item.offset), int(item.timestamp), int(item.leader_epoch))
            return listed

        return await self._by_leader(timestamps, ask)

    # -- records ----------------------------------------------------------------------------------------

    async def fetch(
        self,
        from_offsets: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        isolation: Isolation = "read_committed",
        topic_ids: Mapping[str, UUID] | None = None,
        last_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> dict[TopicPartition, Fetched]:
        """One round of reads, one request a leader. A partition's error is a value in its answer.

        An answer is filled in the order of ``from_offsets``: to be fair, begin with another one each time.
        ``topic_ids``: which topics these offsets are of. With the id of each, another topic of such a name is never
        read: its answer is UNKNOWN_TOPIC_ID. (By name where the brokers are older than that.)
        ``last_epochs``: the leader epochs of the rows in front, so that a log which was cut behind them says so.
        """
        ids, epochs = topic_ids or {}, last_epochs or {}
        names = {topic_id: name for name, topic_id in ids.items()}
        turns = {tp: turn for turn, tp in enumerate(from_offsets)}

        async def ask(node_id: int, tps: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
            by_id = ids.keys() >= {tp.topic for tp in tps} and await self._fetches_by_id(node_id)
            version = FETCH_BY_ID if by_id else CLIENT_VERSION[ApiKey.FETCH]
            request = fetch_wire.FetchRequest(
                max_wait_ms,
                min_bytes,
                max_bytes,
                _isolation_level(isolation),
                [
                    fetch_wire.FetchPartition(
                        ids[tp.topic] if by_id else tp.topic,
                        tp.partition,
                        from_offsets[tp],
                        partition_max_bytes,
                        current_leader_epoch=self.leader_epochs.of(tp),
                        last_fetched_epoch=epochs.get(tp, NO_LEADER_EPOCH),
                    )
                    for tp in sorted(tps, key=turns.__getitem__)
                ],
            )
            body = await self.brokers.ask(
                node_id,
                ApiKey.FETCH,
                [fetch_wire.encode_request(version, request)],
                wait_ms=max_wait_ms,
                version=version if by_id else None,
            )
            answer = fetch_wire.decode_response(version, body)
            check(answer.error_code, "fetch")
            fetched = {}
            for item in answer.partitions:
                code = ErrorCode.of(item.error_code)
                name = names[item.topic] if isinstance(item.topic, UUID) else item.topic
                tp = TopicPartition(name, item.partition)
                fetched[tp] = Fetched(
                    memoryview(item.records if item.records is not None else b""),
                    item.high_watermark,
                    item.last_stable_offset,
                    item.log_start_offset,
                    tuple(item.aborted or ()),
                    code,
                    item.preferred_read_replica >= 0,
                    None if item.diverging_epoch is None else item.diverging_epoch[1],
                )
            self._doubt_leaders(tp for tp, item in fetched.items() if item.error_code.retriable)
            return fetched

        return await self._by_leader(from_offsets, ask)

    async def _fetches_by_id(self, node_id: int) -> bool:
        await self.brokers.connection(node_id)  # only who was connected to has said what it serves
        return self.brokers.serves_version(ApiKey.FETCH, FETCH_BY_ID)

    async def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
        transactional_id: str | None = None,
    ) -> dict[TopicPartition, Produced]:
        """One attempt for each partition. A partition whose leader did not answer has NETWORK_EXCEPTION."""
        by_node = await self._leaders_of(batches)

        async def ask(node_id: int, tps: list[TopicPartition]) -> dict[TopicPartition, Produced]:
            mine = {tp: batches[tp] for tp in tps}
            try:
                return await self.produce_to(
                    node_id, mine, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id
                )
            except ConnectionLost as error:
                return dict.fromkeys(tps, Produced(ErrorCode.NETWORK_EXCEPTION, -1, -1, -1, str(error)))

        answers = await self.runtime.gather(ask(node_id, tps) for node_id, tps in by_node.items())
        merged = {tp: produced for answer in answers for tp, produced in answer.items()}
        self._doubt_leaders(tp for tp, produced in merged.items() if produced.error_code.retriable)
        return merged

    async def produce_to(
        self,
        node_id: int,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
        transactional_id: str | None = None,
    ) -> dict[TopicPartition, Produced]:
        """One attempt on one broker. Calls to one broker leave in the order in which they were made."""
        answer = await self.begin_produce(
            node_id, batches, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id
        )
        return await answer

    async def begin_produce(
        self,
        node_id: int,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
        transactional_id: str | None = None,
        in_transaction: bool = False,
        is_v2: bool = False,
    ) -> Coroutine[Any, Any, dict[TopicPartition, Produced]]:
        """Write one request; what comes back is to be awaited for its answer.

        ``in_transaction``: its batches are of one, by the protocol that ``is_v2`` says.
        """
        partitions = [
            produce_wire.ProducePartition(tp.topic, tp.partition, memoryview(batches[tp]))
            for tp in sorted(batches)
        ]
        request = produce_wire.ProduceRequest(
            transactional_id, acks, timeout_ms or self.request_timeout_ms, partitions
        )
        connection = await self.brokers.connection(node_id)
        self.brokers.check(ApiKey.PRODUCE, connection.name)
        version = self._produce_version(is_v2=is_v2) if in_transaction else CLIENT_VERSION[ApiKey.PRODUCE]
        parts = produce_wire.encode_request(version, request)
        future = connection.send(ApiKey.PRODUCE, version, parts, answered=acks != 0)

        async def answer() -> dict[TopicPartition, Produced]:
            body = await connection.wait(future, self.request_timeout_ms)
            results, _ = produce_wire.decode_response(version, body) if acks else ([], 0)
            return {
                TopicPartition(str(item.topic), item.partition): Produced(
                    ErrorCode.of(item.error_code),
                    item.base_offset,
                    item.log_append_time_ms,
                    item.log_start_offset,
                    item.error_message or next((one.message for one in item.record_errors), None),
                )
                for item in results
            }

        return answer()

    def _produce_version(self, *, is_v2: bool) -> int:
        """The version says which protocol of transactions is spoken; a newer one of the older names more refusals."""
        wanted = PRODUCE_IN_V2 if is_v2 else VERSION_MAX_BEFORE_V2[ApiKey.PRODUCE]
        return next(
            version
            for version in range(wanted, CLIENT_VERSION[ApiKey.PRODUCE] - 1, -1)
            if self.brokers.serves_version(ApiKey.PRODUCE, version)
        )


def _isolation_level(isolation: Isolation) -> int:
    return fetch_wire.READ_COMMITTED if isolation == "read_committed" else fetch_wire.READ_UNCOMMITTED
