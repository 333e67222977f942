"""The broker: the state that handlers share.

It knows no socket, clock or thread, so that the simulator drives it as it is. The way to the handlers is the
router's (:mod:`semel.server.router`), which knows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

from semel.config import Address, ServerSettings, changed
from semel.core.dynamic_config.resources import AlterResource, Kind
from semel.core.topics import AddPartitions, AlterConfig, CreateTopic, Refused, Topic
from semel.errors import ErrorCode, StorageError
from semel.server.counters import Counters
from semel.server.group_coordinator import GroupCoordinator
from semel.server.outcome import Call
from semel.server.storage.aside import Change
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.server.transaction_coordinator import TransactionCoordinator
from semel.types import TopicPartition

ResultT = TypeVar("ResultT")


class Broker:
    """One server's whole state.

    ``settings`` are those in force: what it was ``started_with``, and what was changed since then. No more connections
    are taken than ``connections_fit``, whatever they say.
    """

    def __init__(
        self, settings: ServerSettings, storage: Storage, *, connections_fit: int = 2**31 - 1
    ) -> None:
        self.started_with: Final = settings
        self.storage: Final = storage
        self._connections_fit: Final = connections_fit
        self.settings = self._in_force()
        self.counters: Final = Counters()
        self.coordinator: Final = GroupCoordinator(
            storage.groups,
            storage.group_log,
            storage.monotonic_ms,
            storage.new_uuid,
            self.note_storage_error,
            lambda name: storage.find(name) is not None,
        )
        self.transactions: Final = TransactionCoordinator(
            storage.transactions,
            storage.transaction_log,
            storage.producer_ids,
            storage.metadata_log,
            storage,
            storage.monotonic_ms,
            lambda partition: self.note_readable(partition),
            self.note_storage_error,
            self._transaction_ended,
            self.counters.count_marker,
        )
        self.full: Final[set[Partition]] = set()  # had no room for a write, and perhaps have none yet
        self._storage_failed: Callable[[Partition | None, str], None] = lambda partition, reason: None
        self.compressing_bytes = 0  # of batches that wait to be compressed again
        self._readable: Callable[[Iterable[TopicPartition]], None] = lambda partitions: None

    @property
    def cluster_id(self) -> str:
        return self.storage.cluster_id

    def when_readable(self, told: Callable[[Iterable[TopicPartition]], None]) -> None:
        """``told`` hears of every partition of which more may be read."""
        self._readable = told

    def when_storage_fails(self, told: Callable[[Partition | None, str], None]) -> None:
        """``told`` hears of every request that the disk refused: the partition, or None for a change; and why."""
        self._storage_failed = told

    def advertised(self, call: Call) -> Address:
        """Where clients are told to find this server: where this one found it, unless the settings say."""
        return self.settings.advertised or call.dialled

    def is_internal(self, topic: str) -> bool:
        """Whether clients may only read it."""
        known = self.storage.topics.get(topic)
        return known is not None and known.is_internal

    def _in_force(self) -> ServerSettings:
        settings = changed(self.started_with, self.storage.resources.in_force(self.started_with.broker_id))
        return replace(settings, connections_max=min(settings.connections_max, self._connections_fit))

    def note_readable(self, *partitions: TopicPartition) -> None:
        self._readable(partitions)

    def note_storage_error(self, partition: Partition | None, reason: str | None) -> None:
        if partition is not None and partition.no_room is not None:
            self.full.add(partition)
        self._storage_failed(partition, reason or "it cannot be written")

    def _transaction_ended(self, partition: TopicPartition, producer_id: int, is_commit: bool) -> None:
        """A marker was appended: what a state's log has of the transaction counts now, or never."""
        group_log = self.storage.group_log
        if partition == group_log.partition.name:
            group_log.end_transaction(producer_id, is_commit=is_commit)

    def forget_room_again(self) -> list[Partition]:
        """Who was full, and whose last write was taken. Who was deleted is forgotten, too, and not among them."""
        again = [one for one in self.full if one.no_room is None]
        gone = [one for one in self.full if self.storage.find(one.name) is not one]
        self.full.difference_update(again, gone)
        return again

    # Changes of topics: the storage's decisions, with failures of the disk as refusals.

    async def create_topic(
        self,
        name: str,
        partition_count: int,
        settings: Mapping[str, str | None],
        now_ms: int,
        *,
        validate_only: bool = False,
    ) -> Topic | Refused:
        storage = self.storage
        if validate_only:
            request = CreateTopic(name, partition_count, settings, UUID(int=0))
            return storage.topics.decide(request, now_ms).response
        return await _tried(self, storage.create_topic(name, partition_count, settings, now_ms=now_ms))

    async def delete_topic(self, name: str, now_ms: int) -> Topic | Refused:
        result = await _tried(self, self.storage.delete_topic(name, now_ms=now_ms))
        if isinstance(result, Topic):  # who waits there must hear that it is gone
            self.note_readable(*(TopicPartition(name, n) for n in range(result.partition_count)))
        return result

    async def add_partitions(
        self, name: str, partition_count: int, now_ms: int, *, validate_only: bool = False
    ) -> Topic | Refused:
        storage = self.storage
        if validate_only:
            return storage.topics.decide(AddPartitions(name, partition_count), now_ms).response
        return await _tried(self, storage.add_partitions(name, partition_count, now_ms=now_ms))

    async def alter_config(
        self,
        name: str,
        changes: Mapping[str, str | None],
        now_ms: int,
        *,
        replaces: bool = False,
        validate_only: bool = False,
    ) -> Topic | Refused:
        storage = self.storage
        if validate_only:
            return storage.topics.decide(AlterConfig(name, changes, replaces), now_ms).response
        return await _tried(self, storage.alter_topic_config(name, changes, now_ms=now_ms, replaces=replaces))

    async def alter_resource(
        self, request: AlterResource, now_ms: int, *, validate_only: bool = False
    ) -> Mapping[str, str] | Refused:
        """Settings of brokers and groups."""
        if validate_only:
            return self.storage.decide_resource(request, now_ms).response
        result = await _tried(self, self.storage.alter_resource(request, now_ms=now_ms))
        if request.kind is Kind.BROKER:
            self.settings = self._in_force()
        return result


async def _tried(broker: Broker, change: Change[ResultT | Refused]) -> ResultT | Refused:
    try:
        return await change
    except (StorageError, OSError) as error:
        broker.note_storage_error(None, str(error))
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
