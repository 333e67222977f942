"""The one table of APIs and versions: what semel's server serves, and where each API turns flexible.

A version is in ``SERVED`` only if every field of it is honoured or may be ignored (``tests/server/fields.py`` says
which, and why); what is not there is not advertised, and a request for it is answered UNSUPPORTED_VERSION
(ApiVersions) or closes the connection (all others), as Kafka's ``KafkaApis`` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ApiKey(IntEnum):
    """Kafka's request types that semel sends or serves (``org.apache.kafka.common.protocol.ApiKeys``)."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class ServedApi:
    """The versions of one API, both ends inclusive, and the first one that is flexible (KIP-482)."""

    version_min: int
    version_max: int
    flexible_from: int
    advertised_min: int | None = None

    def serves(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max


SERVED: Final[dict[ApiKey, ServedApi]] = {
    # librdkafka switches compression off unless the advertised range of Produce starts at 0 (KAFKA-18659);
    # it never sends those versions.
    ApiKey.PRODUCE: ServedApi(3, 13, 9, advertised_min=0),
    ApiKey.FETCH: ServedApi(4, 18, 12),
    ApiKey.LIST_OFFSETS: ServedApi(1, 10, 6),
    ApiKey.METADATA: ServedApi(0, 13, 9),
    ApiKey.OFFSET_COMMIT: ServedApi(2, 9, 8),
    ApiKey.OFFSET_FETCH: ServedApi(1, 9, 6),
    ApiKey.FIND_COORDINATOR: ServedApi(0, 5, 3),
    ApiKey.JOIN_GROUP: ServedApi(0, 9, 6),
    ApiKey.HEARTBEAT: ServedApi(0, 4, 4),
    ApiKey.LEAVE_GROUP: ServedApi(0, 5, 4),
    ApiKey.SYNC_GROUP: ServedApi(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: ServedApi(0, 6, 5),
    ApiKey.LIST_GROUPS: ServedApi(0, 5, 3),
    ApiKey.API_VERSIONS: ServedApi(0, 4, 3),
    ApiKey.CREATE_TOPICS: ServedApi(2, 7, 5),
    ApiKey.DELETE_TOPICS: ServedApi(1, 6, 4),
    ApiKey.DELETE_RECORDS: ServedApi(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: ServedApi(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ServedApi(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: ServedApi(0, 3, 3),  # later ones are between brokers
    ApiKey.ADD_OFFSETS_TO_TXN: ServedApi(0, 4, 3),
    ApiKey.END_TXN: ServedApi(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: ServedApi(1, 1, 1),
    ApiKey.TXN_OFFSET_COMMIT: ServedApi(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: ServedApi(1, 3, 2),
    ApiKey.CREATE_ACLS: ServedApi(1, 3, 2),
    ApiKey.DELETE_ACLS: ServedApi(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: ServedApi(1, 4, 4),
    ApiKey.ALTER_CONFIGS: ServedApi(0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: ServedApi(1, 4, 2),
    ApiKey.CREATE_PARTITIONS: ServedApi(0, 3, 2),
    ApiKey.DELETE_GROUPS: ServedApi(0, 2, 2),
    ApiKey.ELECT_LEADERS: ServedApi(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ServedApi(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ServedApi(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ServedApi(0, 0, 0),
    ApiKey.OFFSET_DELETE: ServedApi(0, 0, 1),
    ApiKey.DESCRIBE_CLUSTER: ServedApi(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: ServedApi(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: ServedApi(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: ServedApi(0, 2, 0),
    ApiKey.LIST_CONFIG_RESOURCES: ServedApi(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ServedApi(0, 0, 0),
}


def is_flexible(api_key: ApiKey, version: int) -> bool:
    """Whether this version has compact lengths and tagged fields."""
    return version >= SERVED[api_key].flexible_from
