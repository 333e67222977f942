"""The blocking admin client: topics and what brokers know, in one call each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from semel.client.blocking import Cluster
from semel.client.cluster import Isolation
from semel.client.model import (
    ClusterDescription,
    ConfigEntry,
    ListedOffset,
    TopicMetadata,
)
from semel.client.settings import names_checked
from semel.types import ProducerDescription, TopicPartition


class Admin:
    """Topics, their settings and trims; offsets; producers."""

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

    def describe_cluster(self) -> ClusterDescription:
        return self.cluster.describe_cluster()
