"""The data folder: its lock and version, its topics and their partitions.

Invariants:
- One process at a time; a folder of another format version is refused, not guessed at.
- The metadata log says which topics there are. A partition's folder is durable before its topic is in that
  log, and goes after its topic has gone from it: a folder without a topic holds nothing acknowledged.
- The clean-shutdown marker is there only between a stop that synced everything and the next start.
- Topics change one at a time: see :mod:`semel.server.storage.aside` for what that takes and gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from semel.config import parse_setting
from semel.core.decision import Decision, LogBacked, StateRecord
from semel.core.dynamic_config.broker import log_config
from semel.core.dynamic_config.resources import AlterResource, Kind, Resources
from semel.core.group.groups import Groups
from semel.core.group.records import encode_key, encode_offset
from semel.core.log.config import COMPACT, BadConfig, LogConfig
from semel.core.log.names import GROUP_OFFSETS_TOPIC, METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from semel.core.log.recovery import Cut, Sound
from semel.core.topics import AddPartitions, AlterConfig, CreateTopic, DeleteTopic, Refused, Topic, Topics
from semel.core.transaction.states import TransactionState
from semel.core.transaction.transactions import Transactions
from semel.errors import ErrorCode, StorageError
from semel.server.storage.aside import Change, aside, at_once
from semel.server.storage.checkpoints import LogStarts
from semel.server.storage.cleaning import Cleaner
from semel.server.storage.data_folder import FORMAT_VERSION, DataFolder
from semel.server.storage.expired_leases import ExpiredLeases
from semel.server.storage.filesystem import FileSystem, OsFileSystem
from semel.server.storage.id_blocks import FolderIdBlocks, IdBlocks
from semel.server.storage.last_boot import LastBoot
from semel.server.storage.leader_epoch import begin_leader_epoch
from semel.server.storage.observer import NOBODY, StorageObserver
from semel.server.storage.open_files import OpenFiles
from semel.server.storage.outcome import RecoveryReport
from semel.server.storage.partition import Partition
from semel.server.storage.producer_bound import ProducerBound
from semel.server.storage.producer_ids import ProducerIds
from semel.server.storage.producer_ids import Response as ProducerIdResponse
from semel.server.storage.settings import StorageSettings
from semel.server.storage.state_log import StateLog, Submitted
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

_EXPIRATION: Final = "producer.id.expiration.ms"
_CLEANER_BYTES: Final = "log.cleaner.dedupe.buffer.size"
_OF_STORAGE: Final = (_EXPIRATION, _CLEANER_BYTES)
_OFFSETS_END_FROM: Final = 2  # of the folder's versions
_INTERNAL_IDS: Final = {
    METADATA_TOPIC: UUID(int=2),
    GROUP_OFFSETS_TOPIC: UUID(int=3),
    TRANSACTION_STATE_TOPIC: UUID(int=4),
}
_METADATA_CONFIG: Final = LogConfig(retention_ms=-1, segment_bytes=64 << 20, segment_ms=2**62)
# Each start reads all of it, so the part that grows, and is not compacted yet, is kept small.
_COMPACTED_CONFIG: Final = replace(_METADATA_CONFIG, cleanup_policy=COMPACT, segment_bytes=4 << 20)
_DURABLE_TOPICS: Final = (METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
_INTERNAL_CONFIGS: Final = {
    METADATA_TOPIC: _METADATA_CONFIG,
    GROUP_OFFSETS_TOPIC: _COMPACTED_CONFIG,
    TRANSACTION_STATE_TOPIC: _COMPACTED_CONFIG,
}


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Storage:
    """All that one server keeps, below one folder."""

    def __init__(
        self,
        data_dir: Path,
        file_system: FileSystem,
        settings: StorageSettings,
        now_ms: int,
        new_uuid: Callable[[], UUID],
        monotonic_ms: Callable[[], int],
        id_blocks: IdBlocks,
        observer: StorageObserver,
    ) -> None:
        """Use :meth:`open`."""
        self._started_with: Final = settings
        self.settings = settings
        self.new_uuid: Final = new_uuid
        self.monotonic_ms: Final = monotonic_ms
        self._observer = observer
        self._partitions: dict[TopicPartition, Partition] = {}
        self.recovery: list[RecoveryReport] = []
        self._folder = DataFolder(file_system, data_dir, new_uuid)
        self._last_boot = LastBoot(file_system, data_dir)
        self._leader_epoch = (
            0 if self._folder.is_new else begin_leader_epoch(file_system, data_dir, now_ms, new_uuid().int)
        )
        self._log_starts = LogStarts(file_system, data_dir)
        self.cleaner = Cleaner(
            file_system, data_dir, settings.cleaner_map_bytes, lambda: new_uuid().bytes + new_uuid().bytes
        )
        self._files = OpenFiles(file_system, settings.cold_files_max)
        self._producer_bound = ProducerBound(settings.producers_max)

        self.topics = Topics(settings.default_config)
        for internal, topic_id in _INTERNAL_IDS.items():
            self.topics.put(Topic(internal, topic_id, 1, {}, _INTERNAL_CONFIGS[internal], is_internal=True))
        self.transactions = Transactions(settings.transactions)
        self.producer_ids = ProducerIds(
            self._producer_bound,
            settings.producer_lease_ms,
            monotonic_ms,
            lambda: new_uuid().int,
            id_blocks,
            partial(_written_by, self._partitions),
            self.transactions.name_of,
            observer,
        )
        self.groups = Groups(settings.offsets, settings.groups)
        self.resources = Resources()
        states: list[LogBacked] = [
            self.topics,
            self.resources,
            self.producer_ids.identities,
            self.producer_ids.leases,
        ]
        self._metadata = StateLog(self._open_internal(METADATA_TOPIC, now_ms), states)
        self._take_effect(self.resources.in_force(settings.broker_id))
        self._group_log = StateLog(
            self._open_internal(GROUP_OFFSETS_TOPIC, now_ms), [self.groups], self.groups
        )
        self._transaction_log = StateLog(
            self._open_internal(TRANSACTION_STATE_TOPIC, now_ms), [self.transactions], newest_only=True
        )
        self.producer_ids.begin(self._metadata)
        if self._folder.version < FORMAT_VERSION:
            self._take_over(now_ms)
        self.groups.membership.begin(self.groups.records.stored, monotonic_ms(), now_ms)
        self._producer_bound.forget_some = ExpiredLeases(
            self._partitions, self.producer_ids.live_leases
        ).forget_some
        self._remove_orphans()
        for topic in self.topics:
            for number in range(topic.partition_count):
                name = TopicPartition(topic.name, number)
                if name not in self._partitions:
                    self._open_partition(name, topic.config, now_ms)

    @classmethod
    def open(
        cls,
        data_dir: Path,
        file_system: FileSystem | None = None,
        settings: StorageSettings | None = None,
        *,
        now_ms: int,
        new_uuid: Callable[[], UUID] = uuid4,
        monotonic_ms: Callable[[], int] = _monotonic_ms,
        id_blocks: IdBlocks | None = None,
        observer: StorageObserver = NOBODY,
    ) -> Storage:
        """Lock the folder, recover what is in it, and be ready. ``StorageError`` says why not.

        ``new_uuid`` is where every new id comes from: nothing else here is random. ``monotonic_ms`` is a clock
        that only goes forward, and counts the lives of leases; for all else time is the wall clock's ``now_ms``.
        ``id_blocks`` is where blocks of producer ids come from, unless it is this folder alone.
        """
        try:
            return cls(
                data_dir,
                file_system or OsFileSystem(),
                settings or StorageSettings(),
                now_ms,
                new_uuid,
                monotonic_ms,
                id_blocks or FolderIdBlocks(),
                observer,
            )
        except OSError as error:
            raise StorageError(f"data folder {data_dir} cannot be used: {error}") from error

    # Partitions

    def __iter__(self) -> Iterator[Partition]:
        """Every partition, the internal ones too."""
        return iter(list(self._partitions.values()))

    def partition(self, topic: str, number: int) -> Partition | None:
        return self._partitions.get(TopicPartition(topic, number))

    def find(self, name: TopicPartition) -> Partition | None:
        return self._partitions.get(name)

    @property
    def data_dir(self) -> Path:
        return self._folder.path

    @property
    def cluster_id(self) -> str:
        return self._folder.cluster_id

    @property
    def was_clean(self) -> bool:
        """Whether the server before closed it, so that nothing had to be scanned."""
        return self._folder.was_clean

    @property
    def may_have_lost(self) -> bool:
        """Whether something that a server wrote before, and did not sync, may be gone. A kill alone takes nothing that
        was acknowledged.
        """
        return not self.was_clean and not self._last_boot.is_this

    def note_recovered(self) -> None:
        """What was lost is known; ``OSError``: not for certain."""
        self._last_boot.note()

    def disk_room(self) -> tuple[int, int]:
        """Bytes of the disk under the folder, and those that are free; ``OSError`` when it does not say."""
        return self._folder.room()

    @property
    def producer_count(self) -> int:
        """(Producer, partition) pairs that are remembered."""
        return self._producer_bound.known

    @property
    def metadata_log(self) -> StateLog:
        """The log of topics and producer identities."""
        return self._metadata

    @property
    def group_log(self) -> StateLog:
        """The log of groups and what they have committed."""
        return self._group_log

    @property
    def transaction_log(self) -> StateLog:
        """The log of transactional ids and their transactions."""
        return self._transaction_log

    # Producer identities: answer once the log's partition is synced far enough.

    def init_producer(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        lease_partitions: tuple[TopicPartition, ...] | None = None,
        *,
        now_ms: int,
    ) -> Submitted[ProducerIdResponse]:
        """Grant the right to write (InitProducerId without a name); as a lease if partitions are named for one."""
        return self.producer_ids.init(producer_id, producer_epoch, lease_partitions, now_ms)

    # Topics. Rare, so they write and sync before they return; what takes long of that is done aside.

    async def create_topic(
        self,
        name: str,
        partition_count: int = 1,
        settings: Mapping[str, str | None] | None = None,
        *,
        now_ms: int,
        topic_id: UUID | None = None,
    ) -> Topic | Refused:
        """Make a topic; durable when it returns."""
        if len(self.topics) >= self.settings.topics_max:
            return Refused(ErrorCode.POLICY_VIOLATION, f"there are {len(self.topics)} topics already")
        request = CreateTopic(name, partition_count, settings or {}, topic_id or self.new_uuid())
        decision = self.topics.decide(request, now_ms)
        topic = decision.response
        if isinstance(topic, Refused):
            return topic
        return await self._grow(decision, topic, 0, now_ms)

    async def delete_topic(self, name: str, *, now_ms: int) -> Topic | Refused:
        """Remove a topic with all its records; durable when it returns."""
        decision = self.topics.decide(DeleteTopic(name), now_ms)
        topic = decision.response
        if isinstance(topic, Refused):
            return topic
        await self._metadata.submit_durably(decision, now_ms)
        names = [TopicPartition(name, number) for number in range(topic.partition_count)]
        gone = [self._partitions.pop(one) for one in names if one in self._partitions]
        for partition in gone:  # before anything else can fail: nobody may append to what is gone
            partition.abandon("the topic was deleted")
        with suppress(StorageError):  # else the next start does it
            await self._group_log.submit_durably(self.groups.forget_topic(name), now_ms)
        with suppress(OSError):  # likewise
            await aside(self._remove_partitions, names, gone)
        return topic

    async def add_partitions(self, name: str, partition_count: int, *, now_ms: int) -> Topic | Refused:
        """Grow a topic to ``partition_count`` partitions; durable when it returns."""
        before = self.topics.get(name)
        decision = self.topics.decide(AddPartitions(name, partition_count), now_ms)
        topic = decision.response
        if isinstance(topic, Refused):
            return topic
        assert before is not None
        return await self._grow(decision, topic, before.partition_count, now_ms)

    async def alter_topic_config(
        self, name: str, changes: Mapping[str, str | None], *, now_ms: int, replaces: bool = False
    ) -> Topic | Refused:
        """Change settings of a topic; ``None`` puts one back to its default. Durable when it returns."""
        decision = self.topics.decide(AlterConfig(name, changes, replaces), now_ms)
        topic = decision.response
        if isinstance(topic, Refused):
            return topic
        await self._metadata.submit_durably(decision, now_ms)
        for number in range(topic.partition_count):
            self._partitions[TopicPartition(name, number)].config = topic.config
        return topic

    # Settings of brokers and groups.

    def decide_resource(self, request: AlterResource, now_ms: int) -> Decision[Mapping[str, str] | Refused]:
        """What becomes of a change of settings; the resource's settings as they will be."""
        decision = self.resources.decide(request, now_ms)
        settings = decision.response
        if isinstance(settings, Refused) or request.kind is not Kind.BROKER:
            return decision
        dynamic = self.resources.in_force(self.settings.broker_id, {request.name: settings})
        default = log_config(dynamic, self._started_with.default_config)
        if isinstance(default, BadConfig):
            return Decision((), Refused(ErrorCode.INVALID_REQUEST, f"{default.name}: {default.reason}"))
        refused = self.topics.refusal_of_default(default)
        return decision if refused is None else Decision((), refused)

    async def alter_resource(self, request: AlterResource, *, now_ms: int) -> Mapping[str, str] | Refused:
        """Change settings of brokers or of a group; durable, and in force, when it returns."""
        decision = self.decide_resource(request, now_ms)
        settings = decision.response
        if isinstance(settings, Refused):
            return settings
        await self._metadata.submit_durably(decision, now_ms)
        self._take_effect(self.resources.in_force(self.settings.broker_id))
        return settings

    def _take_effect(self, dynamic: Mapping[str, str]) -> None:
        """Go on with what was changed since the server was started, instead of what it was started with."""
        started = self._started_with
        default = log_config(dynamic, started.default_config)
        if isinstance(default, BadConfig):
            raise StorageError(
                f"{default.name}, of the settings that were changed while a server ran, does not go with those "
                f"that it is started with now: {default.reason}"
            )
        own = {name: parse_setting(name, dynamic[name]) for name in _OF_STORAGE if name in dynamic}
        self.settings = replace(
            started,
            default_config=default,
            producer_id_expiration_ms=own.get(_EXPIRATION, started.producer_id_expiration_ms),
            cleaner_map_bytes=own.get(_CLEANER_BYTES, started.cleaner_map_bytes),
        )
        self.cleaner.map_bytes = self.settings.cleaner_map_bytes
        for topic in self.topics.fall_back_to(default):
            for number in range(topic.partition_count):
                partition = self._partitions.get(TopicPartition(topic.name, number))
                if partition is not None:  # else none is open yet
                    partition.config = topic.config

    # Upkeep

    def maintain(self, now_ms: int) -> None:
        """All of :meth:`upkeep` and of :meth:`compaction` at once."""
        for begin in chain(self.upkeep(now_ms), self.compaction(now_ms)):
            at_once(begin())

    def upkeep(self, now_ms: int) -> Iterator[Callable[[], Change[object]]]:
        """Retention, forgotten producers: do it every few minutes.

        In many changes, between which others may come: with many partitions it takes its time.
        """
        for partition in self:
            yield partial(self._keep_up, partition, now_ms)
            for _ in partition.expire_producers(now_ms - self.settings.producer_id_expiration_ms):
                yield _nothing
        yield partial(self._metadata.compact_if_large, now_ms)
        while self._forget_what_is_over(now_ms):
            yield _nothing

    def compaction(self, now_ms: int) -> Iterator[Callable[[], Change[object]]]:
        """Whatever is due of it, in many changes as well: do it every few seconds."""
        for partition in self:
            yield from partition.clean(now_ms)

    def _forget_what_is_over(self, now_ms: int) -> bool:
        """Some of the groups' offsets, and transactional ids, whose time is over; whether there may be more."""
        of_groups = self._group_log.submit(self.groups.forget_what_is_over(now_ms), now_ms)
        ids = self._transaction_log.submit(self.transactions.forget_what_is_over(now_ms), now_ms)
        return any(each.response and each.error_message is None for each in (of_groups, ids))

    async def _keep_up(self, partition: Partition, now_ms: int) -> None:
        if self.find(partition.name) is partition:  # not deleted meanwhile
            await partition.apply_retention(now_ms)

    def close(self, *, now_ms: int) -> bool:
        """Sync everything and let go of the folder; whether the next start need not scan."""
        # As long as it is not settled what was lost, the next start has to ask, too.
        is_settled = not (self.may_have_lost and self._has_open_transactions())
        clean = sum(not partition.close(now_ms=now_ms) for partition in self) == 0 and is_settled
        self._partitions.clear()
        clean = clean and self._folder.leave_clean_marker()
        self._folder.let_go()
        return clean

    def _has_open_transactions(self) -> bool:
        """By the coordinator's log or by any partition: either may have lost the end that would say so."""
        ongoing = self.transactions.count_by_state()[TransactionState.ONGOING]
        return ongoing > 0 or any(each.open_transactions() for each in self)

    # The folder

    def _take_over(self, now_ms: int) -> None:
        """What an older semel kept otherwise. Once all of it is durable, that one refuses the folder: it does not know
        the records that follow.
        """
        reserved = self.topics.get(TRANSACTION_STATE_TOPIC)
        if reserved is None or not reserved.is_internal:
            raise StorageError(
                f"topic {TRANSACTION_STATE_TOPIC!r} of data folder {self.data_dir} was made by a client, and is the "
                "server's own from this semel on: copy it to another name with the semel before, and delete it"
            )
        if self._folder.version < _OFFSETS_END_FROM:
            self._take_over_offsets(now_ms)
        self._take_over_identities(now_ms)
        self._folder.note_taken_over()

    def _take_over_offsets(self, now_ms: int) -> None:
        """Committed offsets had no end so far: their time counts from now."""
        anew = [
            StateRecord(encode_key(key), encode_offset(committed._replace(committed_ms=now_ms)))
            for key, committed in self.groups.records.committed()
        ]
        self._write_now(self._group_log, Decision(tuple(anew), None), "committed offsets", now_ms)

    def _take_over_identities(self, now_ms: int) -> None:
        """Names move to the log of transactions, and are gone from here only when they are durable there."""
        identities = self.producer_ids.identities
        grants = [(each.name, each.grant, each.granted_ms) for each in identities.named.values()]
        taken = self.transactions.take_over(grants)
        self._write_now(self._transaction_log, taken, "named identities", now_ms)
        self._write_now(self._metadata, identities.forget_named(), "named identities", now_ms)

    def _write_now(self, log: StateLog, decision: Decision[None], what: str, now_ms: int) -> None:
        submitted = log.submit(decision, now_ms)
        log.partition.sync()
        if submitted.error_message is not None or log.partition.needs_sync:
            raise StorageError(f"{what} cannot be taken over: {submitted.error_message}")

    def _open_internal(self, topic: str, now_ms: int) -> Partition:
        name = TopicPartition(topic, 0)
        self._folder.make_internal(name)
        return self._open_partition(name, _INTERNAL_CONFIGS[topic], now_ms)

    def _open_partition(self, name: TopicPartition, config: LogConfig, now_ms: int) -> Partition:
        """Open what the folder held when the server started."""
        partition = self._opened(name, config, now_ms)
        self._partitions[name] = partition
        self.recovery.append(partition.recovery)
        if not isinstance(partition.recovery.verdict, Sound | Cut):
            self._last_boot.forget()  # the disk may have told of a failed sync now
        return partition

    def _opened(self, name: TopicPartition, config: LogConfig, now_ms: int) -> Partition:
        return Partition(
            self._files,
            self.data_dir,
            name,
            config,
            # Who may write is decided once, also where the page cache is trusted with what is written.
            durable=self.settings.durable or name.topic in _DURABLE_TOPICS,
            clean=self.was_clean,
            leader_epoch=self._leader_epoch,
            now_ms=now_ms,
            log_starts=self._log_starts,
            producer_bound=self._producer_bound,
            leases=self.producer_ids.live_leases,
            observer=self._observer,
            cleaner=self.cleaner,
            sync_failed=self._last_boot.forget,
        )

    async def _grow(
        self, decision: Decision[Topic | Refused], topic: Topic, first_number: int, now_ms: int
    ) -> Topic | Refused:
        """Make a topic's partitions from ``first_number`` on, and then let everybody know of them."""
        if len(self._partitions) + topic.partition_count - first_number > self.settings.partitions_max:
            limit = f"the server's bound of {self.settings.partitions_max} partitions"
            return Refused(ErrorCode.POLICY_VIOLATION, f"{topic.name!r} would pass {limit}")
        if not self._metadata.partition.is_online:  # it may have the topic: its folders are not to be touched
            reason = f"no partitions for {topic.name!r}: {self._metadata.partition.offline_reason}"
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        names = [TopicPartition(topic.name, n) for n in range(first_number, topic.partition_count)]
        collides = self._collision(topic.name)
        if collides is not None and names and self._folder.has(names[0]):
            reason = f"this disk cannot tell {topic.name!r} from topic {collides!r}"
            return Refused(ErrorCode.INVALID_TOPIC, reason)
        made = await aside(self._make_partitions, topic, names, now_ms)
        if isinstance(made, Refused):
            return made
        await self._metadata.submit_durably(decision, now_ms)
        self._partitions.update(made)
        return topic

    def _make_partitions(
        self, topic: Topic, names: Sequence[TopicPartition], now_ms: int
    ) -> dict[TopicPartition, Partition] | Refused:
        """Partitions of a topic, folders durable and files open; nobody else knows of them yet.

        Before the topic is in the metadata log: a partition that cannot be opened now could not be opened by
        the next start either.
        """
        made: dict[TopicPartition, Partition] = {}
        try:
            self._folder.remove(names)  # of a topic that had this name before
            self._forget_offsets(names)
            for name in names:
                self._folder.make(name, topic.topic_id)
                made[name] = self._opened(name, topic.config, now_ms)
                if not made[name].is_online:
                    raise OSError(made[name].offline_reason)
            self._folder.sync()
        except OSError as error:
            made.clear()  # lets go of the files that are open
            with suppress(OSError):
                self._folder.remove(names)
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"no partitions for {topic.name!r}: {error}")
        return made

    def _collision(self, name: str) -> str | None:
        """A topic whose name differs from ``name`` by case only; some file systems take them for the same."""
        folded = name.casefold()
        known = (one.name for one in self.topics)
        return next((one for one in known if one.casefold() == folded and one != name), None)

    def _remove_partitions(self, names: Sequence[TopicPartition], gone: Iterable[Partition]) -> None:
        """What is on the disk of partitions that nobody can ask for any more."""
        for partition in gone:
            partition.let_go()
        self._forget_offsets(names)
        self._folder.remove(names)

    def _forget_offsets(self, names: Sequence[TopicPartition]) -> None:
        """Partitions of these names that are made anew start at 0, and nothing of them is compacted."""
        self._log_starts.forget(names)
        self.cleaner.forget(names)

    def _remove_orphans(self) -> None:
        """Remove what a topic that was never made, or is deleted, has left."""
        for name in self._folder.partitions():
            topic = self.topics.get(name.topic)
            if topic is None or name.partition >= topic.partition_count:
                self._folder.remove_orphan(name)
        committed = {key.partition.topic for key, _ in self.groups.records.committed()}
        for topic_name in sorted(committed):
            if self.topics.get(topic_name) is None:  # deleted, and then it was too late for this
                self._group_log.submit(self.groups.forget_topic(topic_name), 0)


def _written_by(partitions: Mapping[TopicPartition, Partition], producer_id: int) -> Iterator[TopicPartition]:
    return (name for name, partition in partitions.items() if partition.knows(producer_id))


async def _nothing() -> None:
    """A step of upkeep that is done already; others may come now."""
