"""Who leads what, and the one way to ask: metadata, coordinators, and reads repeated while leadership moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

from semel.client.brokers import BOOTSTRAP, CLIENT_VERSION, Brokers, check_security
from semel.client.model import (
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from semel.client.runtime import ASYNCIO, Runtime
from semel.core.client.leader_epochs import LeaderEpochs
from semel.core.log.names import topic_name_error
from semel.errors import BrokerError, ConnectionLost, ErrorCode, UnknownTopic
from semel.types import OWN_TOPICS, TopicPartition
from semel.wire import messages
from semel.wire.api import ApiKey
from semel.wording import counted

_T = TypeVar("_T")
_V = TypeVar("_V")

_RETRY_PAUSE_MS: Final = 50
_NEWS_SPREAD_MS: Final = 2_000  # a topic is made, and a broker that is asked has not heard of it
_AUTO_CREATED_MS: Final = 10_000  # Apache Kafka makes it only after it has answered
GROUP: Final = 0
TRANSACTION: Final = 1


class Routing:
    """What every kind of request stands on. Belongs to the loop that first uses it."""

    def __init__(
        self,
        bootstrap: str | list[str],
        *,
        client_id: str = "semel",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        first_contact_timeout_ms: int | None = None,
        security_protocol: str = "PLAINTEXT",
        runtime: Runtime = ASYNCIO,
    ) -> None:
        check_security(security_protocol)
        self.runtime = runtime
        self.request_timeout_ms = request_timeout_ms
        # An address that never answered is more likely wrong than about to come back.
        self._first_contact_timeout_ms = min(
            first_contact_timeout_ms or request_timeout_ms, request_timeout_ms
        )
        self.brokers = Brokers(
            bootstrap,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=min(connect_timeout_ms, first_contact_timeout_ms or connect_timeout_ms),
        )
        self._leaders: dict[TopicPartition, int] = {}
        self.leader_epochs = LeaderEpochs()
        self._informant, self._turn = BOOTSTRAP, 0  # who is asked what any broker may answer
        self._coordinators: dict[tuple[int, str], int] = {}
        self.partition_counts: dict[str, int] = {}  # as the newest metadata has them
        self._cluster_id: str | None = None
        self.trouble: str | None = None  # what the last attempt met, while it is repeated

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.brokers.close()

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
        others = len(self.brokers.addresses)
        while True:
            answer = await self.retried(lambda: self._anywhere(ApiKey.METADATA, fields))
            found, is_older = self._take(answer)
            if not is_older or others == 0:
                return found
            others -= 1
            self._ask_another()

    def _take(self, answer: Any) -> tuple[ClusterMetadata, bool]:
        """What is believed of it, and whether some of it was older than what is known and is as before."""
        if self._cluster_id not in (None, answer.cluster_id):
            self.leader_epochs.forget()
        self._cluster_id = answer.cluster_id
        brokers = {
            int(item.node_id): BrokerAddress(int(item.node_id), item.host, int(item.port))
            for item in answer.brokers
        }
        if len(brokers | self.brokers.addresses) == 1:
            self.leader_epochs.forget()  # nobody knows better; it was put back from an older copy, where its are lower
        found: dict[str, TopicMetadata] = {}
        is_any_older = False
        for topic in map(topic_metadata, answer.topics):
            self.leader_epochs.see_topic(topic.name, topic.topic_id)
            partitions = {
                number: self._take_leader(TopicPartition(topic.name, number), partition, brokers)
                for number, partition in topic.partitions.items()
            }
            is_older = partitions != topic.partitions
            found[topic.name] = replace(topic, partitions=partitions) if is_older else topic
            is_any_older |= is_older
            if not partitions:
                self.partition_counts.pop(topic.name, None)
            elif not is_older:
                self.partition_counts[topic.name] = len(partitions)
        # Who is late to hear of leaders is late to hear of brokers.
        self.brokers.addresses = brokers | self.brokers.addresses if is_any_older else brokers
        metadata = ClusterMetadata(brokers, found, int(answer.controller_id), answer.cluster_id)
        return metadata, is_any_older

    def _take_leader(
        self, tp: TopicPartition, told: PartitionMetadata, brokers: Mapping[int, BrokerAddress]
    ) -> PartitionMetadata:
        if not self.leader_epochs.takes(tp, told.leader, told.leader_epoch):
            known = self._leaders.get(tp, -1)
            code = ErrorCode.NONE if known >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
            return replace(told, leader=known, leader_epoch=self.leader_epochs.of(tp), error_code=code)
        if told.leader in brokers:
            self._leaders[tp] = told.leader
        else:
            self._leaders.pop(tp, None)
        return told

    async def _anywhere(self, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """As :meth:`_cold`, where any broker will do: one that was not behind the others when it last answered."""
        try:
            return await self._cold(self._informant, api_key, fields)
        except ConnectionLost:
            self._informant = BOOTSTRAP
            raise

    def _doubt_leaders(self, tps: Iterable[TopicPartition]) -> None:
        """They refused, or are lost: ask who leads these, and not only who has named them."""
        doubtful = list(tps)
        led_by = {self._leaders.pop(tp, -1) for tp in doubtful}
        if doubtful:
            self._ask_another(led_by)

    def _ask_another(self, doubted: Set[int] = frozenset()) -> None:
        """Who was asked last may be behind the others: the next one, in a circle, and none of ``doubted``."""
        self._turn += 1
        known = sorted(self.brokers.addresses)
        others = [node_id for node_id in known if node_id not in doubted] or known
        self._informant = others[self._turn % len(others)] if others else BOOTSTRAP

    async def look_elsewhere(self, topics: Iterable[str]) -> None:
        """Hear of leaders from another broker than last time: what the one that is known answers leads nowhere."""
        self._ask_another()
        await self.metadata(topics)

    async def cluster_id(self) -> str | None:
        """Of the cluster that this is connected to; None: it has none."""
        return self._cluster_id or (await self.metadata([])).cluster_id

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
            if topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise (NotThereYet if may_be_late else UnknownTopic)(name, _no_topic(name))
            worst = next(
                (item.error_code for item in topic.partitions.values() if item.leader < 0), topic.error_code
            )
            check_read(worst, f"topic {name!r}")
            if not topic.partitions:
                raise Again(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
            return topic

        missing_max_ms = self.request_timeout_ms if is_known_to_exist else _AUTO_CREATED_MS
        return await self.retried(ask, missing_max_ms=missing_max_ms)

    async def leaders(
        self, topics: Iterable[str], *, allow_auto_topic_creation: bool = False
    ) -> dict[TopicPartition, int]:
        """The node that leads each partition of ``topics``, asked anew, and another broker than last time."""
        names = set(topics)
        self._ask_another()
        await self.metadata(names, allow_auto_topic_creation=allow_auto_topic_creation)
        return {tp: node_id for tp, node_id in self._leaders.items() if tp.topic in names}

    async def _cold(self, node_id: int, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        version = CLIENT_VERSION[api_key]
        body = await self.brokers.ask(node_id, api_key, [messages.encode_request(api_key, version, fields)])
        return messages.decode_response(api_key, version, body)

    async def _newest(
        self,
        node_id: int,
        api_key: ApiKey,
        fields: Mapping[str, Any],
        *,
        wait_ms: int = 0,
        version_max: int | None = None,
    ) -> Any:
        """As :meth:`_cold`, in the newest version that both sides know; ``wait_ms``: the broker may take that long."""
        connection = await self.brokers.connection(
            node_id
        )  # only who was connected to has said what it serves
        version = self.brokers.newest(api_key, connection.name, version_max)
        request = messages.encode_request(api_key, version, fields)
        body = await self.brokers.ask(node_id, api_key, [request], wait_ms=wait_ms, version=version)
        return messages.decode_response(api_key, version, body)

    async def _on_controller(self, api_key: ApiKey, fields: Mapping[str, Any]) -> Any:
        """Any broker will do: it forwards to the controller where there is another one."""
        return await self._anywhere(api_key, fields)

    def forget_coordinator(self, key_type: int, key: str) -> None:
        """Look for it anew: it is another broker, or cannot be reached."""
        self._coordinators.pop((key_type, key), None)

    async def _coordinator(self, key_type: int, key: str) -> int:
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.brokers.addresses:
            return known
        answer = await self._anywhere(ApiKey.FIND_COORDINATOR, {"key": key, "key_type": key_type})
        check_read(answer.error_code, f"find the coordinator of {key!r}", answer.error_message or "")
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
                    raise _without_leader(tp, found.topics.get(tp.topic), self.leader_epochs.of(tp))
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in wanted:
            by_node.setdefault(self._leaders[tp], []).append(tp)
        return by_node

    async def _by_leader(
        self,
        tps: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Coroutine[Any, Any, dict[TopicPartition, _V]]],
    ) -> dict[TopicPartition, _V]:
        wanted = list(tps)

        async def once() -> dict[TopicPartition, _V]:
            by_node = await self._leaders_of(wanted)
            try:
                answers = await self.runtime.gather(ask(node_id, mine) for node_id, mine in by_node.items())
            except (Again, ConnectionLost):
                self._doubt_leaders(wanted)
                raise
            return {tp: value for answer in answers for tp, value in answer.items()}

        return await self.retried(once)

    async def retried(self, ask: Callable[[], Awaitable[_T]], *, missing_max_ms: int = _NEWS_SPREAD_MS) -> _T:
        """Repeat a read until it is answered, refused for good, or ``request_timeout_ms`` is over.

        Before the first contact with any broker, ``first_contact_timeout_ms``; for a topic that nobody knows,
        ``missing_max_ms`` from when that was first said.
        """
        began_ms = self.runtime.now_ms()
        missing_ms: int | None = None
        while True:
            try:
                answer = await ask()
                self.trouble = None
                return answer
            except NotThereYet as error:
                missing_ms = self.runtime.now_ms() if missing_ms is None else missing_ms
                patience_ms = min(missing_max_ms, self.request_timeout_ms)
                if self.runtime.now_ms() >= missing_ms + patience_ms or self.brokers.is_closed:
                    raise UnknownTopic(error.topic, error.detail) from None
            except (Again, ConnectionLost) as error:
                self.trouble = str(error)
                was_reached = self.brokers.were_reached
                patience_ms = self.request_timeout_ms if was_reached else self._first_contact_timeout_ms
                if isinstance(error, ConnectionLost) and error.not_kafka and not was_reached:
                    raise
                if self.runtime.now_ms() >= began_ms + patience_ms or self.brokers.is_closed:
                    raise
            await self.runtime.pause(_RETRY_PAUSE_MS)


class Again(BrokerError):
    """A refusal that may pass."""


class NotThereYet(Again):
    """Nobody knows of a topic, or of a partition of it: news of a fresh one may still be on the way."""

    def __init__(self, topic: str, detail: str) -> None:
        self.topic, self.detail = topic, detail
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r}", detail)


def _no_topic(name: str) -> str:
    impossible = topic_name_error(name)
    if impossible is not None:
        return f"it does not exist, and cannot: {impossible}"
    return f"it does not exist; create it (semel topic create {name}), or look at the name"


def _without_leader(tp: TopicPartition, found: TopicMetadata | None, leader_epoch: int) -> Again:
    """Why nobody leads a partition, by what the brokers say of its topic; ``leader_epoch``: the highest known."""
    code = ErrorCode.NONE if found is None else found.error_code
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return NotThereYet(tp.topic, _no_topic(tp.topic))
    if found is not None and found.partitions and tp.partition not in found.partitions:
        partitions = counted(len(found.partitions), "partition")
        return NotThereYet(tp.topic, f"it has {partitions}; there is no {tp.partition}")
    named = f"no broker names a leader of epoch {leader_epoch} or later" if leader_epoch >= 0 else ""
    return Again(code or ErrorCode.LEADER_NOT_AVAILABLE, f"partition {tp}", named)


def check(code: int, what: str, detail: str = "") -> None:
    if int(code):
        raise BrokerError(int(code), what, detail)


def check_read(code: int, what: str, detail: str = "") -> None:
    if int(code):
        kind = Again if ErrorCode.of(int(code)).retriable else BrokerError
        raise kind(int(code), what, detail)


def by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in tps:
        grouped.setdefault(tp.topic, []).append(tp)
    return grouped


def partitions_of(topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        for item in topic.partitions:
            yield TopicPartition(topic.name, int(item.partition_index)), item


def topic_metadata(item: Any) -> TopicMetadata:
    return TopicMetadata(
        item.name,
        item.topic_id if item.topic_id is not None and item.topic_id.int else None,
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
        item.is_internal
        or item.name.startswith(OWN_TOPICS),  # no server says so: kafka-python could not write to them then
    )
