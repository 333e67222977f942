"""The low-level client for blocking code: :class:`semel.client.cluster.Cluster`, method by method."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, Self, TypeVar
from uuid import UUID

from semel.client import cluster as aio
from semel.client.background import shared_loop
from semel.client.groups import GroupDescription, GroupListing, Offsets
from semel.client.model import (
    ClusterDescription,
    ClusterMetadata,
    CommittedOffset,
    ConfigEntry,
    Fetched,
    ListedOffset,
    Produced,
    TopicMetadata,
    TransactionDescription,
    TransactionListing,
)
from semel.errors import ErrorCode
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Lease,
    ProducerDescription,
    ProducerGrant,
    TopicPartition,
)
from semel.wire.frames import Buffer

_T = TypeVar("_T")


class Cluster:
    """Blocking requests to a cluster; safe to use from several threads, not across a fork."""

    def __init__(
        self,
        bootstrap: str | list[str],
        *,
        client_id: str = "semel",
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        self.inner = aio.Cluster(
            bootstrap,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            security_protocol=security_protocol,
        )
        self._background = shared_loop()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def seed_addresses(self) -> list[str]:
        """The addresses that it was given."""
        return [f"{each.host}:{each.port}" for each in self.inner.brokers.bootstrap]

    @property
    def was_reached(self) -> bool:
        """Whether any broker has ever answered."""
        return self.inner.brokers.were_reached

    @property
    def connections_opened(self) -> int:
        """So far: it grows when a broker was away, or is another one now."""
        return self.inner.brokers.connections_opened

    @property
    def tells_committed_only(self) -> bool:
        """Whether all that a leader tells of is there for good, as on semel (known once any broker was asked)."""
        return self.inner.tells_committed_only

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._run(self.inner.close())

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._background.run(work)

    def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Brokers, and the topics named (all of them when None)."""
        return self._run(self.inner.metadata(topics, allow_auto_topic_creation=allow_auto_topic_creation))

    def look_elsewhere(self, topics: Iterable[str]) -> None:
        """Hear of leaders from another broker than last time: what the one that is known answers leads nowhere."""
        self._run(self.inner.look_elsewhere(topics))

    def known_partition_count(self, topic: str) -> int | None:
        """How many partitions the newest metadata gave ``topic``, without a request; ``None``: not known."""
        return self.inner.partition_counts.get(topic)

    def topic(
        self, name: str, *, allow_auto_topic_creation: bool = False, is_known_to_exist: bool = False
    ) -> TopicMetadata:
        """One topic that must exist, with all its leaders known."""
        return self._run(
            self.inner.topic(
                name,
                allow_auto_topic_creation=allow_auto_topic_creation,
                is_known_to_exist=is_known_to_exist,
            )
        )

    def describe_cluster(self) -> ClusterDescription:
        return self._run(self.inner.describe_cluster())

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation: aio.Isolation = "read_committed"
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first offset at or after the timestamp given (or a sentinel)."""
        return self._run(self.inner.list_offsets(timestamps, isolation))

    def describe_producers(
        self, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """What each partition's leader knows of the producers that wrote to it."""
        return self._run(self.inner.describe_producers(tps))

    def fetch(
        self,
        from_offsets: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        isolation: aio.Isolation = "read_committed",
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> dict[TopicPartition, Fetched]:
        """One round of reads; a partition's error is a value in its answer."""
        return self._run(
            self.inner.fetch(
                from_offsets,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
                isolation=isolation,
                topic_ids=topic_ids,
            )
        )

    def begin_fetch(
        self,
        from_offsets: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
        partition_max_bytes: int = 1024 * 1024,
        isolation: aio.Isolation = "read_committed",
        topic_ids: Mapping[str, UUID] | None = None,
        last_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> Future[dict[TopicPartition, Fetched]]:
        """The same without waiting: the caller works on one answer while the next is on its way."""
        return self._background.submit(
            self.inner.fetch(
                from_offsets,
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                partition_max_bytes=partition_max_bytes,
                isolation=isolation,
                topic_ids=topic_ids,
                last_epochs=last_epochs,
            )
        )

    def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        timeout_ms: int | None = None,
        transactional_id: str | None = None,
    ) -> dict[TopicPartition, Produced]:
        """One attempt for each partition, no retry: the caller judges the answers."""
        return self._run(
            self.inner.produce(batches, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)
        )

    def begin_produce(
        self, batches: Mapping[TopicPartition, Buffer], *, acks: int = -1, timeout_ms: int | None = None
    ) -> Future[dict[TopicPartition, Produced]]:
        """The same without waiting. Requests leave in the order of the calls once the leaders are known."""
        return self._background.submit(self.inner.produce(batches, acks=acks, timeout_ms=timeout_ms))

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Trim each partition's prefix; answers the new log start offsets."""
        return self._run(self.inner.delete_records(before_offsets))

    def init_producer_id(
        self,
        transactional_id: str | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        timeout_ms: int = 60_000,
    ) -> ProducerGrant:
        """A new producer id; or, with a name, that identity with its epoch raised."""
        return self._run(
            self.inner.init_producer_id(transactional_id, producer_id, producer_epoch, timeout_ms)
        )

    def lease_producer_id(
        self,
        tps: Iterable[TopicPartition],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Lease | ProducerGrant:
        """A leased producer id, or the rest of one; from brokers that know no leases, one without an end."""
        return self._run(self.inner.lease_producer_id(tps, producer_id, producer_epoch))

    def write_fence(
        self, fences: Mapping[tuple[int, int], Iterable[TopicPartition]], *, coordinator_epoch: int = 0
    ) -> dict[tuple[int, TopicPartition], ErrorCode]:
        """Raise each (producer id, producer epoch) in those partitions: older epochs can no longer append."""
        return self._run(self.inner.write_fence(fences, coordinator_epoch=coordinator_epoch))

    def commit_offsets(self, group: str, offsets: Offsets) -> None:
        """Commit for a group whose members assign partitions themselves."""
        self._run(self.inner.commit_offsets(group, offsets))

    def committed_offsets(
        self, group: str, tps: Iterable[TopicPartition] | None = None, *, require_stable: bool = True
    ) -> dict[TopicPartition, CommittedOffset]:
        """A group's committed offsets: of these partitions, or of all that it committed.

        ``require_stable``: while a transaction is open that may commit another one, wait for its end.
        """
        return self._run(self.inner.committed_offsets(group, tps, require_stable=require_stable))

    def delete_offsets(self, group: str, tps: Iterable[TopicPartition]) -> None:
        """Forget what the group committed of these. GROUP_SUBSCRIBED_TO_TOPIC: a member reads the topic."""
        self._run(self.inner.delete_offsets(group, tps))

    def list_groups(self) -> list[GroupListing]:
        """The groups of every broker, by name."""
        return self._run(self.inner.list_groups())

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription | None]:
        """Each group as its coordinator knows it; None: there is no such group."""
        return self._run(self.inner.describe_groups(groups))

    def delete_groups(self, groups: Iterable[str]) -> dict[str, ErrorCode]:
        """Delete groups with their offsets; a group's refusal is a value in the answer."""
        return self._run(self.inner.delete_groups(groups))

    def list_transactions(
        self, states: Iterable[str] = (), producer_ids: Iterable[int] = (), *, duration_min_ms: int = -1
    ) -> list[TransactionListing]:
        """The transactional ids of every broker, by name; only those in one of ``states``, if some are named."""
        return self._run(self.inner.list_transactions(states, producer_ids, duration_min_ms=duration_min_ms))

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | None]:
        """Each as its coordinator knows it; None: it knows no such transactional id."""
        return self._run(self.inner.describe_transactions(transactional_ids))

    def abort_transaction_of(self, transactional_id: str, timeout_ms: int) -> ProducerGrant:
        """Shut whoever has this transactional id out; what it has open is aborted."""
        return self._run(self.inner.abort_transaction_of(transactional_id, timeout_ms))

    def create_topics(
        self,
        topics: Mapping[str, int],
        *,
        configs: Mapping[str, Mapping[str, str]] | None = None,
        replication_factor: int = -1,
        validate_only: bool = False,
    ) -> None:
        """Create topics with these numbers of partitions (-1: the broker's default)."""
        self._run(
            self.inner.create_topics(
                topics, configs=configs, replication_factor=replication_factor, validate_only=validate_only
            )
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        self._run(self.inner.delete_topics(names))

    def add_partitions(self, partition_counts: Mapping[str, int]) -> None:
        """Grow topics to these numbers of partitions."""
        self._run(self.inner.add_partitions(partition_counts))

    def describe_configs(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """The configuration of each topic."""
        return self._run(self.inner.describe_configs(topics))

    def alter_configs(self, topics: Mapping[str, Mapping[str, str | None]]) -> None:
        """Set settings of topics; None takes one back to its default."""
        self._run(self.inner.alter_configs(topics))
