"""The blocking admin client: topics, groups and what brokers know, in one call each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from semel.client.blocking import Cluster
from semel.client.cluster import Isolation
from semel.client.group_admin import (
    change_offsets,
    delete_offsets,
    describe,
    group_lag,
    offsets_of,
    refuse_undeleted,
)
from semel.client.groups import GroupDescription, GroupListing, Offsets, PartitionLag
from semel.client.model import (
    ClusterDescription,
    CommittedOffset,
    ConfigEntry,
    ListedOffset,
    TopicMetadata,
    TransactionDescription,
    TransactionListing,
)
from semel.client.settings import names_checked
from semel.client.transaction_admin import HeldPartition, abort, described, held_partitions
from semel.types import ProducerDescription, TopicPartition


class Admin:
    """Topics, their settings and trims; offsets; producers; consumer groups."""

    @names_checked()
    def __init__(
        self,
        bootstrap: str | list[str],
        *,
        client_id: str = "semel",
        request_timeout_ms: int = 30_000,
        security_protocol: str = "PLAINTEXT",
    ) -> None:
        self.cluster = Cluster(
            bootstrap,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            security_protocol=security_protocol,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.cluster.close()

    @names_checked(what="argument")
    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = -1,
    ) -> TopicMetadata:
        """Create a topic and wait until it has leaders."""
        self.cluster.create_topics(
            {name: partitions}, configs={name: configs or {}}, replication_factor=replication_factor
        )
        return self.cluster.topic(name, is_known_to_exist=True)

    def delete_topic(self, name: str) -> None:
        self.cluster.delete_topics([name])

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names in order; internal topics only on request."""
        found = self.cluster.metadata().topics.values()
        return sorted(topic.name for topic in found if include_internal or not topic.is_internal)

    def describe_topic(self, name: str) -> TopicMetadata:
        return self.cluster.topic(name)

    def add_partitions(self, name: str, partitions: int) -> TopicMetadata:
        """Grow a topic to this number of partitions."""
        self.cluster.add_partitions({name: partitions})
        return self.cluster.topic(name)

    def describe_configs(self, name: str) -> dict[str, ConfigEntry]:
        return self.cluster.describe_configs([name])[name]

    def alter_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None takes one back to its default."""
        self.cluster.alter_configs({name: configs})

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Trim each partition's prefix; answers the new log start offsets."""
        return self.cluster.delete_records(before_offsets)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation: Isolation = "read_committed"
    ) -> dict[TopicPartition, ListedOffset]:
        return self.cluster.list_offsets(timestamps, isolation)

    def describe_producers(
        self, tps: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        return self.cluster.describe_producers(tps)

    def transactions(self) -> list[TransactionListing]:
        """The transactional ids that there are, by name."""
        return self.cluster.list_transactions()

    def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Each with what it has open. :class:`~semel.errors.BrokerError`: there is no such transactional id."""
        return described(self.cluster, transactional_ids)

    def partitions_held_by(self, transactional_id: str) -> list[HeldPartition]:
        """What its open transaction has written to, and where readers of committed rows wait for it."""
        return held_partitions(self.cluster, described(self.cluster, [transactional_id])[transactional_id])

    def abort_transaction(self, transactional_id: str) -> None:
        """End what it has open, if anything, and shut its holder out (as Kafka's ``Admin.fenceProducers``).

        :class:`~semel.errors.BrokerError`: there is no such transactional id.
        """
        abort(self.cluster, described(self.cluster, [transactional_id])[transactional_id])

    def groups(self) -> list[GroupListing]:
        """The consumer groups that there are, by name."""
        return self.cluster.list_groups()

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Each group with its members. :class:`~semel.errors.GroupError`: there is no such group."""
        return describe(self.cluster, groups)

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups with their offsets. :class:`~semel.errors.GroupError` names those that were not, and why."""
        refuse_undeleted(self.cluster.delete_groups(groups))

    def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """What the group has committed: of each partition the next offset to be read.

        What a transaction that is open is about to commit is not in it (nor in :meth:`group_lag`).
        """
        return offsets_of(self.cluster, group)

    def alter_group_offsets(self, group: str, offsets: Offsets) -> None:
        """Commit in the place of a group without members. :class:`~semel.errors.NotCommitted`: it has some."""
        change_offsets(group, lambda: self.cluster.commit_offsets(group, offsets))

    def delete_group_offsets(self, group: str, tps: Iterable[TopicPartition]) -> None:
        """Forget offsets, of topics that no member reads.

        :class:`~semel.errors.NotCommitted`: some does; it says of which topics they are not deleted, and of which they
        are.
        """
        delete_offsets(self.cluster, group, tps)

    def group_lag(self, group: str) -> list[PartitionLag]:
        """How far the group has come in every partition of the topics that it reads or has read."""
        return group_lag(self.cluster, group)

    def describe_cluster(self) -> ClusterDescription:
        return self.cluster.describe_cluster()
