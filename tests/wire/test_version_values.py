"""A version brings fields, which the schemas know, and values, which nothing generated knows: those are in tables here.

Raising a ``version_max`` of :data:`semel.wire.api.SERVED` fails until somebody has looked what values the version
brings (the comments at the head of the request's and the response's schema in Apache Kafka, and its KIP), has
answered them, asked for them in ``tests/peers/same_as_kafka/cases``, and written it down.
"""

from __future__ import annotations

from typing import Final

import pytest

from semel.server.handlers import offsets
from semel.wire.api import SERVED, ApiKey

# The newest version, and the values and codes that came with versions (not the fields).
LOOKED_THROUGH: Final[dict[ApiKey, tuple[int, str]]] = {
    ApiKey.PRODUCE: (
        13,
        "10: a new leader in the answer; 11: TRANSACTION_ABORTABLE; 12: registers by itself",
    ),
    ApiKey.FETCH: (18, "10: zstd; 12: diverging epochs; 13: UNKNOWN_TOPIC_ID"),
    ApiKey.LIST_OFFSETS: (10, "7: -3; 8: -4; 9: -5; 11, not served: -6"),
    ApiKey.METADATA: (13, "13: error code of the whole answer"),
    ApiKey.OFFSET_COMMIT: (9, "9: codes of KIP-848, for members that are not served"),
    ApiKey.OFFSET_FETCH: (9, "7: require_stable, UNSTABLE_OFFSET_COMMIT; 8: several groups"),
    ApiKey.FIND_COORDINATOR: (5, "1: transactions; 5: TRANSACTION_ABORTABLE; 6, not served: share groups"),
    ApiKey.JOIN_GROUP: (9, "4: MEMBER_ID_REQUIRED; 5: static members; 9: skips the assignment"),
    ApiKey.HEARTBEAT: (4, "3: FENCED_INSTANCE_ID"),
    ApiKey.LEAVE_GROUP: (5, "3: several members"),
    ApiKey.SYNC_GROUP: (5, "5: INCONSISTENT_GROUP_PROTOCOL"),
    ApiKey.DESCRIBE_GROUPS: (6, "6: GROUP_ID_NOT_FOUND"),
    ApiKey.LIST_GROUPS: (5, "4: states; 5: types"),
    ApiKey.API_VERSIONS: (4, "4: features whose least version is 0"),
    ApiKey.CREATE_TOPICS: (7, "4: -1 partitions; 6: THROTTLING_QUOTA_EXCEEDED"),
    ApiKey.DELETE_TOPICS: (6, "5: THROTTLING_QUOTA_EXCEEDED; 6: by id"),
    ApiKey.DELETE_RECORDS: (2, "none"),
    ApiKey.INIT_PRODUCER_ID: (5, "4: PRODUCER_FENCED; 5: TRANSACTION_ABORTABLE; 6, not served: two phases"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (4, "none"),
    ApiKey.ADD_PARTITIONS_TO_TXN: (3, "2: PRODUCER_FENCED; 4 and later, not served, are between brokers"),
    ApiKey.ADD_OFFSETS_TO_TXN: (4, "2: PRODUCER_FENCED; 4: TRANSACTION_ABORTABLE"),
    ApiKey.END_TXN: (5, "2: PRODUCER_FENCED; 4: TRANSACTION_ABORTABLE; 5: the next epoch"),
    ApiKey.WRITE_TXN_MARKERS: (1, "none"),
    ApiKey.TXN_OFFSET_COMMIT: (5, "3: member codes; 4: TRANSACTION_ABORTABLE; 5: registers by itself"),
    ApiKey.DESCRIBE_ACLS: (3, "1: patterns; 3: users by their kind; SECURITY_DISABLED is the answer to all"),
    ApiKey.CREATE_ACLS: (3, "the same"),
    ApiKey.DELETE_ACLS: (3, "the same"),
    ApiKey.DESCRIBE_CONFIGS: (4, "3: types and documentation"),
    ApiKey.ALTER_CONFIGS: (2, "none"),
    ApiKey.DESCRIBE_LOG_DIRS: (4, "3: an error of the whole answer; 4: sizes of the disk"),
    ApiKey.CREATE_PARTITIONS: (3, "3: THROTTLING_QUOTA_EXCEEDED"),
    ApiKey.DELETE_GROUPS: (2, "none"),
    ApiKey.ELECT_LEADERS: (2, "1: unclean elections"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (1, "none"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (1, "1: whether the replication factor may change"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, "none"),
    ApiKey.OFFSET_DELETE: (0, "none"),
    ApiKey.DESCRIBE_CLUSTER: (2, "1: controllers; 2: fenced brokers"),
    ApiKey.DESCRIBE_PRODUCERS: (0, "none"),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, "none"),
    ApiKey.LIST_TRANSACTIONS: (2, "1: by duration; 2: by pattern, INVALID_REGULAR_EXPRESSION"),
    ApiKey.LIST_CONFIG_RESOURCES: (1, "1: types other than client metrics"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, "none"),
}

# The timestamps that are none (``ListOffsetsRequest`` of Apache Kafka 4.2), and since which version they are known.
SPECIAL_TIMESTAMPS: Final = {-1: 0, -2: 0, -3: 7, -4: 8, -5: 9, -6: 11}


@pytest.mark.parametrize("api_key", list(ApiKey))
def test_the_values_of_each_version_were_looked_through(api_key: ApiKey) -> None:
    version, _ = LOOKED_THROUGH[api_key]
    assert SERVED[api_key].version_max == version, (
        f"{api_key.name} {SERVED[api_key].version_max}: see the head of this file"
    )


def test_every_special_timestamp_of_an_advertised_version_is_answered() -> None:
    """One that is in no table was refused with UNSUPPORTED_VERSION, in a version that was advertised."""
    newest = SERVED[ApiKey.LIST_OFFSETS].version_max
    wanted = {timestamp: since for timestamp, since in SPECIAL_TIMESTAMPS.items() if since <= newest}
    assert wanted == offsets._SPECIAL_FROM
