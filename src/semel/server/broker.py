"""The broker: the state that handlers share, and the way from a request to its handler.

It knows no socket, clock or thread, so that the simulator drives it as it is: ``handle`` turns one request
into one outcome, and what the outcome asks for (sync, wait) is the caller's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from semel.config import Address, ServerSettings
from semel.core.topics import AddPartitions, AlterConfig, CreateTopic, Refused, Topic
from semel.errors import ErrorCode, StorageError
from semel.server.counters import Counters
from semel.server.handlers import HANDLERS
from semel.server.handlers.plain_fetch import handle as handle_plain_fetch
from semel.server.handlers.plain_produce import handle_all as handle_plain_produce
from semel.server.outcome import Answer, Call, Handled, NotServed, Outcome
from semel.server.storage.aside import Change
from semel.server.storage.partition import Partition
from semel.server.storage.storage import Storage
from semel.types import TopicPartition
from semel.wire import api_versions, plain_fetch, plain_produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.api_names import name_of
from semel.wire.frames import Buffer, decode_request_header

# By number, as it comes off the wire; an API that is advertised but has no handler fails right here.
_SERVED: Final = {int(api_key): (served, HANDLERS[api_key]) for api_key, served in SERVED.items()}
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class Broker:
    """One server's whole state."""

    def __init__(self, settings: ServerSettings, storage: Storage) -> None:
        self.settings: Final = settings
        self.storage: Final = storage
        self.counters: Final = Counters()
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

    def handle_next(
        self,
        frames: Sequence[memoryview],
        dialled: Address,
        now_ms: int,
        answer_bytes_max: Callable[[], int],
    ) -> Handled:
        """Handle the first of the frames, with those behind it that can be handled together with it."""
        arrived = []
        for frame in frames:
            plain = plain_produce.decode(frame)
            if plain is None:
                break
            arrived.append(plain)
        if arrived:
            outcome: Outcome
            outcome, requests = handle_plain_produce(self, arrived, now_ms)
            form, correlation_id, _ = arrived[0]
            return Handled(outcome, requests, _PRODUCE, form.version, correlation_id)
        asked = plain_fetch.decode(frames[0])
        if asked is not None:
            fetch_form, correlation_id, partitions = asked
            found = handle_plain_fetch(self, fetch_form, correlation_id, partitions, answer_bytes_max)
            if found is not None:
                return Handled(found, 1, _FETCH, fetch_form.version, correlation_id)
        header, body_at = decode_request_header(frames[0])
        api_key, version, correlation_id, client_id = header
        call = Call(api_key, version, client_id, dialled, now_ms, answer_bytes_max)
        outcome = self.handle(call, frames[0][body_at:])
        return Handled(outcome, 1, api_key, version, correlation_id)

    def handle(self, call: Call, body: Buffer) -> Outcome:
        """One request's outcome. ``MalformedMessage`` when the body is not what its header announces."""
        api_key, version = call.api_key, call.api_version
        served = _SERVED.get(api_key)
        if served is None:
            return _not_served(call, "is not served")
        api, handle = served
        if not api.version_min <= version <= api.version_max:
            if api_key == ApiKey.API_VERSIONS:
                return Answer((api_versions.refusal(),))
            return _not_served(call, f"is not served ({api.version_min} to {api.version_max} are)")
        self.counters.requests[api_key, version] += 1
        return handle(self, call, body)

    def advertised(self, call: Call) -> Address:
        """Where clients are told to find this server: where this one found it, unless the settings say."""
        return self.settings.advertised or call.dialled

    def is_internal(self, topic: str) -> bool:
        """Whether clients may only read it."""
        known = self.storage.topics.get(topic)
        return known is not None and known.is_internal

    def note_readable(self, *partitions: TopicPartition) -> None:
        self._readable(partitions)

    def note_storage_error(self, partition: Partition | None, reason: str | None) -> None:
        if partition is not None and partition.no_room is not None:
            self.full.add(partition)
        self._storage_failed(partition, reason or "it cannot be written")

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


def _not_served(call: Call, why: str) -> NotServed:
    wanted = f"{name_of(call.api_key)} version {call.api_version} {why}"
    return NotServed(wanted, is_offence=True, client_id=call.client_id)


async def _tried(broker: Broker, change: Change[Topic | Refused]) -> Topic | Refused:
    try:
        return await change
    except (StorageError, OSError) as error:
        broker.note_storage_error(None, str(error))
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
