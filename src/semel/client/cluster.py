"""The low-level client: one method a request, sent to the right broker, answered in plain values.

Reads are repeated until ``request_timeout_ms`` when a broker cannot be reached or leadership moves. Writes
are never repeated here: ``produce`` is one attempt, and the caller judges its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Literal, Self, TypeVar

from semel.client.brokers import BOOTSTRAP, CLIENT_VERSION, Brokers, check_security
from semel.client.model import (
    BrokerAddress,
    ClusterDescription,
    ClusterMetadata,
    CommittedOffset,
    ConfigEntry,
    Fetched,
    ListedOffset,
    PartitionMetadata,
    Produced,
    ProducerDescription,
    TopicMetadata,
)
from semel.errors import BrokerError, ConnectionLost, ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerGrant, TopicPartition
from semel.wire import fetch as fetch_wire
from semel.wire import init_producer_id as init_producer_id_wire
from semel.wire import messages
from semel.wire import produce as produce_wire
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer

Isolation = Literal["read_committed", "read_uncommitted"]
_T = TypeVar("_T")
_V = TypeVar("_V")

_RETRY_PAUSE_S: Final = 0.05
_GROUP: Final = 0
_TRANSACTION: Final = 1
_TOPIC_RESOURCE: Final = 2
_OPERATION_SET, _OPERATION_DELETE = 0, 1
_DEFAULT_SOURCE: Final = 5


class Cluster:
    """Requests to a cluster over asyncio. Belongs to the loop that first uses it."""

    def __init__(
        self,
        bootstrap: str | list[str],
        *,
        client_id: str = "semel",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        check_security(security_protocol)
        self.request_timeout_ms = request_timeout_ms
        self.brokers = Brokers(
            bootstrap,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
        )
        self._leaders: dict[TopicPartition, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.partition_counts: dict[str, int] = {}  # as the newest metadata has them

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.brokers.close()

    # -- what there is ----------------------------------------------------------------------------------

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Brokers, and the topics named (all of them when None)."""
        fields = {
            "topics": None if topics is None else [{"name": name, "topic_id": None} for name in topics],
            "allow_auto_topic_creation": allow_auto_topic_creation,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        answer = await self._retried(lambda: self._cold(BOOTSTRAP, ApiKey.METADATA, fields))
        brokers = {
            int(item.node_id): BrokerAddress(int(item.node_id), item.host, int(item.port))
            for item in answer.brokers
        }
        self.brokers.addresses = brokers
        found = {item.name: _topic_metadata(item) for item in answer.topics}
        for topic in found.values():
            if topic.partitions:
                self.partition_counts[topic.name] = len(topic.partitions)
            else:
                self.partition_counts.pop(topic.name, None)
            for partition in topic.partitions.values():
                tp = TopicPartition(topic.name, partition.partition)
                if partition.leader in brokers:
                    self._leaders[tp] = partition.leader
                else:
                    self._leaders.pop(tp, None)
        return ClusterMetadata(brokers, found, int(answer.controller_id), answer.cluster_id)

    async def topic(
        self, name: str, *, allow_auto_topic_creation: bool = False, is_known_to_exist: bool = False
    ) -> TopicMetadata:
        """One topic that must exist, with all its leaders known; waits out a creation under way.

        ``is_known_to_exist``: it was just created; a broker that has not heard of it is only late.
        """
        may_be_late = allow_auto_topic_creation or is_known_to_exist

        async def ask() -> TopicMetadata:
            found = (await self.metadata([name], allow_auto_topic_creation=allow_auto_topic_creation)).topics
            topic = found[name]
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not may_be_late:
                raise BrokerError(topic.error_code, f"topic {name!r}", "it does not exist")
            worst = next(
                (item.error_code for item in topic.partitions.values() if item.leader < 0), topic.error_code
            )
            _check_read(worst, f"topic {name!r}")
            if not topic.partitions:
                raise _Again(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
            return topic

        return await self._retried(ask)

    async def describe_cluster(self) -> ClusterDescription:
        fields = {"include_cluster_authorized_operations": False}
        answer = await self._retried(lambda: self._cold(BOOTSTRAP, ApiKey.DESCRIBE_CLUSTER, fields))
        _check(answer.error_code, "describe the cluster")
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
                                "current_leader_epoch": -1,
                                "timestamp": timestamps[tp],
                            }
                            for tp in of_topic
                        ],
                    }
                    for name, of_topic in _by_topic(tps).items()
                ],
            }
            answer = await self._cold(node_id, ApiKey.LIST_OFFSETS, fields)
            listed = {}
            for tp, item in _partitions_of(answer.topics):
                _check_read(item.error_code, f"offsets of {tp}")
                listed[tp] = ListedOffset(int(item.offset), int(item.timestamp), int(item.leader_epoch))
            return listed

        return await self._by_leader(timestamps, ask)

    async def describe_producers(
        self, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """What each partition's leader knows of the producers that wrote to it."""

        async def ask(
            node_id: int, mine: list[TopicPartition]
        ) -> dict[TopicPartition, list[ProducerDescription]]:
            fields = {
                "topics": [
                    {"name": name, "partition_indexes": [tp.partition for tp in of_topic]}
                    for name, of_topic in _by_topic(mine).items()
                ]
            }
            answer = await self._cold(node_id, ApiKey.DESCRIBE_PRODUCERS, fields)
            described = {}
            for tp, item in _partitions_of(answer.topics):
                _check_read(item.error_code, f"producers of {tp}", item.error_message or "")
                described[tp] = [
                    ProducerDescription(
                        int(state.producer_id),
                        int(state.producer_epoch),
                        int(state.last_sequence),
                        int(state.last_timestamp),
                        int(state.coordinator_epoch),
                        int(state.current_txn_start_offset),
                    )
                    for state in item.active_producers
                ]
            return described

        return await self._by_leader(tps, ask)

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
    ) -> dict[TopicPartition, Fetched]:
        """One round of reads, one request a leader. A partition's error is a value in its answer."""
        version = CLIENT_VERSION[ApiKey.FETCH]

        async def ask(node_id: int, tps: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
            request = fetch_wire.FetchRequest(
                max_wait_ms,
                min_bytes,
                max_bytes,
                _isolation_level(isolation),
                [
                    fetch_wire.FetchPartition(tp.topic, tp.partition, from_offsets[tp], partition_max_bytes)
                    for tp in tps
                ],
            )
            body = await self.brokers.ask(
                node_id, ApiKey.FETCH, [fetch_wire.encode_request(version, request)], wait_ms=max_wait_ms
            )
            answer = fetch_wire.decode_response(version, body)
            _check(answer.error_code, "fetch")
            fetched = {}
            for item in answer.partitions:
                code = ErrorCode.of(item.error_code)
                tp = TopicPartition(str(item.topic), item.partition)
                if code.retriable:
                    self._leaders.pop(tp, None)
                fetched[tp] = Fetched(
                    memoryview(item.records if item.records is not None else b""),
                    item.high_watermark,
                    item.last_stable_offset,
                    item.log_start_offset,
                    tuple(item.aborted or ()),
                    code,
                )
            return fetched

        return await self._by_leader(from_offsets, ask)

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

        answers = await asyncio.gather(*(ask(node_id, tps) for node_id, tps in by_node.items()))
        merged = {tp: produced for answer in answers for tp, produced in answer.items()}
        for tp, produced in merged.items():
            if produced.error_code.retriable:
                self._leaders.pop(tp, None)
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
    ) -> Coroutine[Any, Any, dict[TopicPartition, Produced]]:
        """Write one request; what comes back is to be awaited for its answer."""
        version = CLIENT_VERSION[ApiKey.PRODUCE]
        partitions = [
            produce_wire.ProducePartition(tp.topic, tp.partition, memoryview(batches[tp]))
            for tp in sorted(batches)
        ]
        request = produce_wire.ProduceRequest(
            transactional_id, acks, timeout_ms or self.request_timeout_ms, partitions
        )
        connection = await self.brokers.connection(node_id)
        self.brokers.check(ApiKey.PRODUCE, connection.name)
        parts = produce_wire.encode_request(version, request)
        future = connection.send(ApiKey.PRODUCE, version, parts, answered=acks != 0)

        async def answer() -> dict[TopicPartition, Produced]:
            body = await connection.wait(future, self.request_timeout_ms)
            results, _ = produce_wire.decode_response(version, body) if acks else ([], 0)
            return {
                TopicPartition(item.topic, item.partition): Produced(
                    ErrorCode.of(item.error_code),
                    item.base_offset,
                    item.log_append_time_ms,
                    item.log_start_offset,
                    item.error_message,
                )
                for item in results
            }

        return answer()

    async def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Trim each partition's prefix; answers the new log start offsets."""

        async def ask(node_id: int, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
            fields = {
                "topics": [
                    {
                        "name": name,
                        "partitions": [
                            {"partition_index": tp.partition, "offset": before_offsets[tp]} for tp in of_topic
                        ],
                    }
                    for name, of_topic in _by_topic(tps).items()
                ],
                "timeout": self.request_timeout_ms,
            }
            answer = await self._cold(node_id, ApiKey.DELETE_RECORDS, fields)
            trimmed = {}
            for tp, item in _partitions_of(answer.topics):
                _check_read(item.error_code, f"trim {tp} to offset {before_offsets[tp]}")
                trimmed[tp] = int(item.low_watermark)
            return trimmed

        return await self._by_leader(before_offsets, ask)

    # -- identities -------------------------------------------------------------------------------------

    async def init_producer_id(
        self,
        transactional_id: str | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        timeout_ms: int = 60_000,
    ) -> ProducerGrant:
        """A new producer id; or, with a name, that identity with its epoch raised (fences the older)."""
        version = CLIENT_VERSION[ApiKey.INIT_PRODUCER_ID]
        request = init_producer_id_wire.InitProducerIdRequest(
            transactional_id, timeout_ms, producer_id, producer_epoch
        )

        async def ask() -> ProducerGrant:
            node_id = BOOTSTRAP
            if transactional_id is not None:
                node_id = await self._coordinator(_TRANSACTION, transactional_id)
            body = await self.brokers.ask(
                node_id, ApiKey.INIT_PRODUCER_ID, [init_producer_id_wire.encode_request(version, request)]
            )
            answer = init_producer_id_wire.decode_response(version, body)
            if answer.error_code:
                self._coordinators.pop((_TRANSACTION, transactional_id or ""), None)
            _check_read(answer.error_code, "ask for a producer id", transactional_id or "")
            return ProducerGrant(answer.producer_id, answer.producer_epoch)

        return await self._retried(ask)

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
                        for name, of_topic in _by_topic(tp for tp in tps if tp in here).items()
                    ],
                }
                for (producer_id, producer_epoch), tps in wanted.items()
                if not here.isdisjoint(tps)
            ]
            answer = await self._cold(node_id, ApiKey.WRITE_TXN_MARKERS, {"markers": markers})
            fenced: dict[TopicPartition, dict[tuple[int, TopicPartition], ErrorCode]] = {}
            for marker in answer.markers:
                for tp, item in _partitions_of(marker.topics):
                    code = ErrorCode.of(int(item.error_code))
                    if code.retriable:
                        raise _Again(code, f"fence producer {int(marker.producer_id)} in {tp}")
                    fenced.setdefault(tp, {})[int(marker.producer_id), tp] = code
            return fenced

        answers = await self._by_leader(every, ask)
        return {fence: code for of_tp in answers.values() for fence, code in of_tp.items()}

    @property
    def has_transactions(self) -> bool:
        """Whether the brokers serve transactions (known once any of them was asked anything)."""
        return self.brokers.serves(ApiKey.ADD_PARTITIONS_TO_TXN) and self.brokers.serves(ApiKey.END_TXN)

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
                for name, of_topic in _by_topic(tps).items()
            ],
        }

        async def ask() -> None:
            answer = await self._ask_transaction(transactional_id, ApiKey.ADD_PARTITIONS_TO_TXN, fields)
            for topic in answer.results_by_topic_v3_and_below:
                for item in topic.results_by_partition:
                    _check_read(item.partition_error_code, f"take {topic.name}-{item.partition_index} in")

        await self._retried(ask)

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
            _check_read(answer.error_code, "abort a transaction", transactional_id)

        await self._retried(ask)

    async def _ask_transaction(
        self, transactional_id: str, api_key: ApiKey, fields: Mapping[str, Any]
    ) -> Any:
        node_id = await self._coordinator(_TRANSACTION, transactional_id)
        try:
            return await self._cold(node_id, api_key, fields)
        except ConnectionLost:
            self._coordinators.pop((_TRANSACTION, transactional_id), None)
            raise

    # -- groups -----------------------------------------------------------------------------------------

    async def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | tuple[int, str | None]]
    ) -> None:
        """Commit for a group whose members assign partitions themselves."""
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": name,
                    "partitions": [_commit_of(tp, offsets[tp]) for tp in of_topic],
                }
                for name, of_topic in _by_topic(offsets).items()
            ],
        }

        async def ask() -> None:
            node_id = await self._coordinator(_GROUP, group)
            answer = await self._cold(node_id, ApiKey.OFFSET_COMMIT, fields)
            for tp, item in _partitions_of(answer.topics):
                if int(item.error_code):
                    self._coordinators.pop((_GROUP, group), None)
                _check_read(item.error_code, f"commit {tp} for group {group!r}")

        await self._retried(ask)

    async def committed_offsets(
        self, group: str, tps: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """A group's committed offsets: of these partitions, or of all that it committed."""
        fields = {
            "group_id": group,
            "topics": None
            if tps is None
            else [
                {"name": name, "partition_indexes": [tp.partition for tp in of_topic]}
                for name, of_topic in _by_topic(tps).items()
            ],
            "require_stable": True,
        }

        async def ask() -> dict[TopicPartition, CommittedOffset]:
            node_id = await self._coordinator(_GROUP, group)
            answer = await self._cold(node_id, ApiKey.OFFSET_FETCH, fields)
            if int(answer.error_code):
                self._coordinators.pop((_GROUP, group), None)
            _check_read(answer.error_code, f"committed offsets of group {group!r}")
            committed = {}
            for tp, item in _partitions_of(answer.topics):
                _check_read(item.error_code, f"committed offset of {tp} for group {group!r}")
                committed[tp] = CommittedOffset(
                    int(item.committed_offset), int(item.committed_leader_epoch), item.metadata
                )
            return committed

        return await self._retried(ask)

    # -- topics -----------------------------------------------------------------------------------------

    async def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        replication_factor: int = -1,
        validate_only: bool = False,
    ) -> None:
        """Create topics with these numbers of partitions (-1: the broker's default)."""
        fields = {
            "topics": [
                {
                    "name": name,
                    "num_partitions": partition_count,
                    "replication_factor": replication_factor,
                    "assignments": [],
                    "configs": [
                        {"name": key, "value": value}
                        for key, value in ((configs or {}).get(name) or {}).items()
                    ],
                }
                for name, partition_count in topics.items()
            ],
            "timeout": self.request_timeout_ms,
            "validate_only": validate_only,
        }
        answer = await self._on_controller(ApiKey.CREATE_TOPICS, fields)
        for item in answer.topics:
            _check(item.error_code, f"create topic {item.name!r}", item.error_message or "")

    async def delete_topics(self, names: Iterable[str]) -> None:
        fields = {"topic_names": list(names), "timeout": self.request_timeout_ms}
        answer = await self._on_controller(ApiKey.DELETE_TOPICS, fields)
        for item in answer.responses:
            _check(item.error_code, f"delete topic {item.name!r}")

    async def add_partitions(self, partition_counts: Mapping[str, int]) -> None:
        """Grow topics to these numbers of partitions."""
        fields = {
            "topics": [
                {"name": name, "count": count, "assignments": None}
                for name, count in partition_counts.items()
            ],
            "timeout": self.request_timeout_ms,
            "validate_only": False,
        }
        answer = await self._on_controller(ApiKey.CREATE_PARTITIONS, fields)
        for item in answer.results:
            _check(item.error_code, f"add partitions to topic {item.name!r}", item.error_message or "")

    async def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """The configuration of each topic."""
        fields = {
            "resources": [
                {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}
                for name in topics
            ],
            "include_synonyms": False,
            "include_documentation": False,
        }
        answer = await self._retried(lambda: self._cold(BOOTSTRAP, ApiKey.DESCRIBE_CONFIGS, fields))
        described = {}
        for result in answer.results:
            _check(
                result.error_code,
                f"configuration of topic {result.resource_name!r}",
                result.error_message or "",
            )
            described[result.resource_name] = {
                item.name: ConfigEntry(
                    item.name,
                    item.value,
                    int(item.config_source) == _DEFAULT_SOURCE,
                    item.read_only,
                    item.is_sensitive,
                )
                for item in result.configs
            }
        return described

    async def alter_configs(self, topics: Mapping[str, Mapping[str, str | None]]) -> None:
        """Set settings of topics; None takes one back to its default."""
        fields = {
            "resources": [
                {
                    "resource_type": _TOPIC_RESOURCE,
                    "resource_name": name,
                    "configs": [
                        {
                            "name": key,
                            "config_operation": _OPERATION_DELETE if value is None else _OPERATION_SET,
                            "value": value,
                        }
                        for key, value in settings.items()
                    ],
                }
                for name, settings in topics.items()
            ],
            "validate_only": False,
        }
        answer = await self._on_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields)
        for item in answer.responses:
            _check(
                item.error_code,
                f"change configuration of topic {item.resource_name!r}",
                item.error_message or "",
            )

    # -- where to send ----------------------------------------------------------------------------------

    async def leaders(
        self, topics: Iterable[str], *, allow_auto_topic_creation: bool = False
    ) -> dict[TopicPartition, int]:
        """The node that leads each partition of ``topics``, asked anew."""
        names = set(topics)
        await self.metadata(names, allow_auto_topic_creation=allow_auto_topic_creation)
        return {tp: node_id for tp, node_id in self._leaders.items() if tp.topic in names}

    async def _cold(self, node_id: int, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        version = CLIENT_VERSION[api_key]
        body = await self.brokers.ask(node_id, api_key, [messages.encode_request(api_key, version, fields)])
        return messages.decode_response(api_key, version, body)

    async def _on_controller(self, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Any broker will do: it forwards to the controller where there is another one."""
        return await self._cold(BOOTSTRAP, api_key, fields)

    async def _coordinator(self, key_type: int, key: str) -> int:
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.brokers.addresses:
            return known
        answer = await self._cold(BOOTSTRAP, ApiKey.FIND_COORDINATOR, {"key": key, "key_type": key_type})
        _check_read(answer.error_code, f"find the coordinator of {key!r}", answer.error_message or "")
        node_id = int(answer.node_id)
        self.brokers.addresses.setdefault(node_id, BrokerAddress(node_id, answer.host, int(answer.port)))
        self._coordinators[key_type, key] = node_id
        return node_id

    async def _leaders_of(self, tps: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        wanted = sorted(tps)
        unknown = {tp.topic for tp in wanted if tp not in self._leaders}
        if unknown:
            found = await self.metadata(unknown)
            for tp in wanted:
                if tp not in self._leaders:
                    code = found.topics[tp.topic].error_code if tp.topic in found.topics else ErrorCode.NONE
                    raise _Again(code or ErrorCode.LEADER_NOT_AVAILABLE, f"partition {tp}")
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            by_node.setdefault(self._leaders[tp], []).append(tp)
        return by_node

    async def _by_leader(
        self,
        tps: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[dict[TopicPartition, _V]]],
    ) -> dict[TopicPartition, _V]:
        wanted = list(tps)

        async def once() -> dict[TopicPartition, _V]:
            by_node = await self._leaders_of(wanted)
            try:
                answers = await asyncio.gather(*(ask(node_id, mine) for node_id, mine in by_node.items()))
            except (_Again, ConnectionLost):
                for tp in wanted:
                    self._leaders.pop(tp, None)
                raise
            return {tp: value for answer in answers for tp, value in answer.items()}

        return await self._retried(once)

    async def _retried(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat a read until it is answered, refused for good, or ``request_timeout_ms`` is over."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self.request_timeout_ms / 1000
        while True:
            try:
                return await ask()
            except (_Again, ConnectionLost):
                if loop.time() >= give_up_s or self.brokers.is_closed:
                    raise
            await asyncio.sleep(_RETRY_PAUSE_S)


class _Again(BrokerError):
    """A refusal that may pass."""


def _check(code: int, what: str, detail: str = "") -> None:
    if int(code):
        raise BrokerError(int(code), what, detail)


def _check_read(code: int, what: str, detail: str = "") -> None:
    if int(code):
        kind = _Again if ErrorCode.of(int(code)).retriable else BrokerError
        raise kind(int(code), what, detail)


def _isolation_level(isolation: Isolation) -> int:
    return fetch_wire.READ_COMMITTED if isolation == "read_committed" else fetch_wire.READ_UNCOMMITTED


def _by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in tps:
        grouped.setdefault(tp.topic, []).append(tp)
    return grouped


def _partitions_of(topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        for item in topic.partitions:
            yield TopicPartition(topic.name, int(item.partition_index)), item


def _commit_of(tp: TopicPartition, committed: int | tuple[int, str | None]) -> dict[str, Any]:
    offset, metadata = committed if isinstance(committed, tuple) else (committed, "")
    return {
        "partition_index": tp.partition,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": metadata,
    }


def _topic_metadata(item: Any) -> TopicMetadata:
    return TopicMetadata(
        item.name,
        item.topic_id,
        {
            int(partition.partition_index): PartitionMetadata(
                int(partition.partition_index),
                int(partition.leader_id),
                int(partition.leader_epoch),
                tuple(map(int, partition.replica_nodes)),
                tuple(map(int, partition.isr_nodes)),
                ErrorCode.of(int(partition.error_code)),
            )
            for partition in sorted(item.partitions, key=lambda found: int(found.partition_index))
        },
        ErrorCode.of(int(item.error_code)),
        item.is_internal,
    )
