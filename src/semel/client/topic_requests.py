"""Topics: create, grow, configure, delete, trim. But for trims not repeated: a second try would meet the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from semel.client.model import ConfigEntry
from semel.client.routing import Routing, by_topic, check, check_read, partitions_of
from semel.types import TopicPartition
from semel.wire.api import ApiKey

_TOPIC_RESOURCE: Final = 2
_OPERATION_SET, _OPERATION_DELETE = 0, 1
_DEFAULT_SOURCE: Final = 5


class TopicRequests(Routing):
    """Requests about topics."""

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
            check(item.error_code, f"create topic {item.name!r}", item.error_message or "")

    async def delete_topics(self, names: Iterable[str]) -> None:
        fields = {"topic_names": list(names), "timeout": self.request_timeout_ms}
        answer = await self._on_controller(ApiKey.DELETE_TOPICS, fields)
        for item in answer.responses:
            check(item.error_code, f"delete topic {item.name!r}")

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
            check(item.error_code, f"add partitions to topic {item.name!r}", item.error_message or "")

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
        answer = await self.retried(lambda: self._anywhere(ApiKey.DESCRIBE_CONFIGS, fields))
        described = {}
        for result in answer.results:
            check(
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
            check(
                item.error_code,
                f"change configuration of topic {item.resource_name!r}",
                item.error_message or "",
            )

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
                    for name, of_topic in by_topic(tps).items()
                ],
                "timeout": self.request_timeout_ms,
            }
            answer = await self._cold(node_id, ApiKey.DELETE_RECORDS, fields)
            trimmed = {}
            for tp, item in partitions_of(answer.topics):
                check_read(item.error_code, f"trim {tp} to offset {before_offsets[tp]}")
                trimmed[tp] = int(item.low_watermark)
            return trimmed

        return await self._by_leader(before_offsets, ask)
