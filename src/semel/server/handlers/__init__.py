"""One file an API, or a family of APIs; the table says who handles what.

A handler is a function of (broker, call, body): no sockets, no clock, no waiting. What it cannot answer yet
it returns as an outcome to be carried out (:mod:`semel.server.outcome`).
"""

from __future__ import annotations

from typing import Final

from semel.server.handlers import (
    acls,
    api_versions,
    committed_offsets,
    configs,
    coordinators,
    fetch,
    group_admin,
    groups,
    init_producer_id,
    log_dirs,
    metadata,
    offsets,
    placement,
    produce,
    producers,
    topic_partitions,
    topics,
    transactions,
)
from semel.server.handlers.schema import FieldsHandler, Handler, in_turn, through_schema
from semel.wire.api import ApiKey

_THROUGH_SCHEMA: Final[dict[ApiKey, FieldsHandler]] = {
    ApiKey.LIST_OFFSETS: offsets.handle_list,
    ApiKey.METADATA: metadata.handle,
    ApiKey.OFFSET_FETCH: committed_offsets.handle_fetch,
    ApiKey.FIND_COORDINATOR: coordinators.handle,
    ApiKey.JOIN_GROUP: groups.handle_join,
    ApiKey.HEARTBEAT: groups.handle_heartbeat,
    ApiKey.LEAVE_GROUP: groups.handle_leave,
    ApiKey.SYNC_GROUP: groups.handle_sync,
    ApiKey.DESCRIBE_GROUPS: group_admin.handle_describe,
    ApiKey.LIST_GROUPS: group_admin.handle_list,
    ApiKey.DELETE_GROUPS: group_admin.handle_delete,
    ApiKey.OFFSET_DELETE: group_admin.handle_offset_delete,
    ApiKey.CREATE_TOPICS: topics.handle_create,
    ApiKey.DELETE_TOPICS: topics.handle_delete,
    ApiKey.DELETE_RECORDS: in_turn(offsets.handle_delete_records),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.handle_leader_epochs,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.handle_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.handle_add_offsets,
    ApiKey.END_TXN: transactions.handle_end,
    ApiKey.WRITE_TXN_MARKERS: producers.handle_markers,
    ApiKey.TXN_OFFSET_COMMIT: committed_offsets.handle_transactional_commit,
    ApiKey.DESCRIBE_ACLS: acls.handle_describe,
    ApiKey.CREATE_ACLS: acls.handle_create,
    ApiKey.DELETE_ACLS: acls.handle_delete,
    ApiKey.DESCRIBE_CONFIGS: configs.handle_describe,
    ApiKey.ALTER_CONFIGS: configs.handle_replace,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.handle,
    ApiKey.CREATE_PARTITIONS: topics.handle_create_partitions,
    ApiKey.ELECT_LEADERS: placement.handle_election,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.handle_alter,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: placement.handle_reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: placement.handle_list_reassignments,
    ApiKey.DESCRIBE_CLUSTER: metadata.handle_describe_cluster,
    ApiKey.LIST_CONFIG_RESOURCES: configs.handle_list,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.handle_describe,
    ApiKey.LIST_TRANSACTIONS: transactions.handle_list,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_partitions.handle,
}

HANDLERS: Final[dict[ApiKey, Handler]] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.OFFSET_COMMIT: committed_offsets.handle_commit,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.DESCRIBE_PRODUCERS: producers.handle_describe,
    **{api_key: through_schema(api_key, handle) for api_key, handle in _THROUGH_SCHEMA.items()},
}
