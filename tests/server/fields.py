"""Every field of every request that the server advertises: honoured, or ignorable and why.

A field that is advertised and passed over in silence breaks what its sender was promised. So each is here, by
Kafka's name: *honoured* names the test that shows it, a case of ``tests/peers/same_as_kafka`` (``theme.case``) or a
test of ``tests/server`` or ``tests/wire`` (``module.py::test``), and *ignorable* says why nothing can depend on it.

Arrays of structs stand here only where null means something of its own. ``test_fields.py`` holds the table to the
schemas of all versions that are advertised.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from semel.wire.api import ApiKey


class Field(NamedTuple):
    """``by`` is the test that shows that a field is honoured; ``why`` it may be ignored, when it is not."""

    by: str | None = None
    why: str | None = None


def honoured(by: str) -> Field:
    return Field(by=by)


def ignorable(why: str) -> Field:
    return Field(why=why)


_NO_OTHER_REPLICA: Final = ignorable("there is no other replica to wait for")
_AT_ONCE: Final = ignorable(
    "the change is answered when it is made; nothing is waited for that could time out"
)
_NO_FOLLOWERS: Final = ignorable("there are no followers; whoever asks reads as a consumer does")
_NO_AUTHORIZER: Final = ignorable("there is no authorizer, and so nothing to find, to add or to take away")
_NO_SESSIONS: Final = ignorable("no session is ever opened, so there is nothing to forget in one")
_ONLY_CONSUMER_GROUPS: Final = ignorable("only groups by the newer protocol (KIP-848) are held to it")
_REASON: Final = ignorable("it says why, to who reads Apache Kafka's log; nothing is decided by it")
_PRODUCE: Final = honoured("every_field.places_of_a_produce")
_FETCH: Final = honoured("every_field.places_of_a_fetch")
_LIST: Final = honoured("every_field.partitions_of_a_list")
_COMMIT: Final = honoured("seldom_sent.commits_read_back")
_LIFE: Final = honoured("groups.a_members_life_in_every_version")
_STATIC: Final = honoured("static_members.who_says_to_be_a_static_member")
_SYNC: Final = honoured("groups.syncs_of_the_wrong_ones")
_BEAT: Final = honoured("groups.heartbeats_of_the_wrong_ones")
_FORGET: Final = honoured("group_offsets.deletes_of_what_is_not_there")
_GROUP: Final = honoured("seldom_sent.committed_offsets_of_nobody")
_CREATE: Final = honoured("topics.placed_by_hand")
_CONFIGS: Final = honoured("topics.the_answers_configs")
_TRIM: Final = honoured("every_field.records_deleted")
_EPOCH: Final = honoured("every_field.leader_epochs_of_the_end_of_an_epoch")
_ADD: Final = honoured("transactions.partitions_added_by_the_wrong_ones")
_ADD_OFFSETS: Final = honoured("transactions.offsets_added_by_the_wrong_ones")
_END: Final = honoured("transactions.ends_by_the_wrong_ones")
_OFFSETS: Final = honoured("transactions_written.offsets_by_the_wrong_ones")
_MEMBER: Final = honoured("transactions_written.offsets_by_members")
_PENDING: Final = honoured("transactions_written.offsets_that_are_pending")
_MARKER: Final = honoured("every_field.markers")
_DESCRIBE: Final = honoured("describe_configs.values_and_sources_of_a_topic")
_GROW: Final = honoured("topics.more_partitions_placed_by_hand")
_REPLACE: Final = honoured("alter_configs.several_topics_each_for_itself")
_CHANGE: Final = honoured("alter_configs.some_changes_refused")
_MOVE: Final = honoured("reassignments.several_at_once")

FIELDS: Final[dict[ApiKey, dict[str, Field]]] = {
    ApiKey.PRODUCE: {
        "transactional_id": honoured("transactions_written.batches_by_the_wrong_ones"),
        "acks": honoured("seldom_sent.acks_of_no_sense"),
        "timeout": _NO_OTHER_REPLICA,
        "topic_data.name": _PRODUCE,
        "topic_data.topic_id": honoured("test_roundtrip.py::test_produce_request"),
        "topic_data.partition_data.index": _PRODUCE,
        "topic_data.partition_data.records": honoured("every_field.records_read_back"),
    },
    ApiKey.FETCH: {
        "cluster_id": ignorable("only the controllers of a quorum say which cluster they mean"),
        "replica_id": _NO_FOLLOWERS,
        "replica_state.replica_id": _NO_FOLLOWERS,
        "replica_state.replica_epoch": _NO_FOLLOWERS,
        "max_wait": honoured("test_handlers.py::test_a_fetch_waits_until_there_is_enough_or_time_is_up"),
        "min_bytes": honoured("every_field.waits_of_a_fetch"),
        "max_bytes": honoured("every_field.bounds_of_a_fetch"),
        "isolation_level": honoured("transactions_seen.fetches_in_every_version"),
        "session_id": honoured("seldom_sent.fetches_in_no_session"),
        "session_epoch": honoured("seldom_sent.fetches_in_no_session"),
        "topics.topic": _FETCH,
        "topics.topic_id": honoured("test_plain_fetch.py::test_it_answers_as_the_full_codec_does"),
        "topics.partitions.partition": _FETCH,
        "topics.partitions.current_leader_epoch": _FETCH,
        "topics.partitions.fetch_offset": _FETCH,
        "topics.partitions.last_fetched_epoch": _NO_FOLLOWERS,
        "topics.partitions.log_start_offset": _NO_FOLLOWERS,
        "topics.partitions.partition_max_bytes": honoured("every_field.bounds_of_a_fetch"),
        "topics.partitions.replica_directory_id": _NO_FOLLOWERS,
        "topics.partitions.high_watermark": _NO_FOLLOWERS,
        "forgotten_topics_data.topic": _NO_SESSIONS,
        "forgotten_topics_data.topic_id": _NO_SESSIONS,
        "forgotten_topics_data.partitions": _NO_SESSIONS,
        "rack_id": ignorable("no replica is nearer than the one there is"),
    },
    ApiKey.LIST_OFFSETS: {
        "replica_id": _NO_FOLLOWERS,
        "isolation_level": honoured("transactions_seen.ends_in_every_version_of_a_list"),
        "topics.name": _LIST,
        "topics.partitions.partition_index": _LIST,
        "topics.partitions.current_leader_epoch": honoured("every_field.leader_epochs_of_a_list"),
        "topics.partitions.timestamp": honoured("every_field.timestamps_of_a_list"),
        "timeout": ignorable("it bounds the wait for a tier of storage that is remote, and there is none"),
    },
    ApiKey.METADATA: {
        "topics": honoured("every_field.no_topics_of_a_metadata"),
        "topics.name": honoured("every_field.topics_of_a_metadata"),
        "topics.topic_id": honoured("every_field.topics_by_id"),
        "allow_auto_topic_creation": honoured("every_field.topics_that_a_metadata_makes"),
        "include_cluster_authorized_operations": honoured("authorized_operations.metadata_asked_for"),
        "include_topic_authorized_operations": honoured("authorized_operations.metadata_asked_for"),
    },
    ApiKey.OFFSET_COMMIT: {
        "group_id": _COMMIT,
        "generation_id_or_member_epoch": honoured("group_offsets.commits_in_every_version"),
        "member_id": honoured("group_offsets.commits_in_every_version"),
        "group_instance_id": honoured("group_offsets.commits_of_static_members"),
        "retention_time": honoured("test_groups.py::test_a_commit_is_kept_for_as_long_as_it_says"),
        "topics.name": _COMMIT,
        "topics.partitions.partition_index": _COMMIT,
        "topics.partitions.committed_offset": _COMMIT,
        "topics.partitions.committed_leader_epoch": _COMMIT,
        "topics.partitions.committed_metadata": _COMMIT,
    },
    ApiKey.OFFSET_FETCH: {
        "group_id": _COMMIT,
        "topics": _COMMIT,
        "topics.name": _COMMIT,
        "topics.partition_indexes": _COMMIT,
        "groups.group_id": _GROUP,
        "groups.member_id": _ONLY_CONSUMER_GROUPS,
        "groups.member_epoch": _ONLY_CONSUMER_GROUPS,
        "groups.topics": _GROUP,
        "groups.topics.name": _GROUP,
        "groups.topics.partition_indexes": _GROUP,
        "require_stable": honoured("transactions_written.offsets_that_are_pending"),
    },
    ApiKey.FIND_COORDINATOR: {
        "key": honoured("every_field.coordinators_found"),
        "key_type": honoured("seldom_sent.coordinators"),
        "coordinator_keys": honoured("every_field.coordinators_found"),
    },
    ApiKey.JOIN_GROUP: {
        "group_id": _LIFE,
        "session_timeout": honoured("groups.session_timeouts_of_a_join"),
        "rebalance_timeout": honoured("test_groups.py::test_who_does_not_join_again_in_time_is_left_out"),
        "member_id": honoured("groups.joins_with_an_id_that_is_not_known"),
        "group_instance_id": honoured("static_members.a_static_follower_comes_again"),
        "protocol_type": honoured("groups.protocols_of_a_second_join"),
        "protocols.name": honoured("groups.a_protocol_is_voted_for"),
        "protocols.metadata": honoured("groups.a_second_member"),
        "reason": _REASON,
    },
    ApiKey.HEARTBEAT: {
        "group_id": _BEAT,
        "generation_id": _BEAT,
        "member_id": _BEAT,
        "group_instance_id": _STATIC,
    },
    ApiKey.LEAVE_GROUP: {
        "group_id": _LIFE,
        "member_id": honoured("groups.leaves_of_the_wrong_ones"),
        "members.member_id": honoured("groups.several_leave"),
        "members.group_instance_id": _STATIC,
        "members.reason": _REASON,
    },
    ApiKey.SYNC_GROUP: {
        "group_id": _SYNC,
        "generation_id": _SYNC,
        "member_id": _SYNC,
        "group_instance_id": _STATIC,
        "protocol_type": _SYNC,
        "protocol_name": _SYNC,
        "assignments.member_id": honoured("groups.assignments_of_strangers"),
        "assignments.assignment": honoured("groups.a_second_member"),
    },
    ApiKey.DESCRIBE_GROUPS: {
        "groups": honoured("group_admin.several_described"),
        "include_authorized_operations": honoured("group_admin.operations_that_are_allowed"),
    },
    ApiKey.LIST_GROUPS: {
        "states_filter": honoured("group_admin.listed_by_state"),
        "types_filter": honoured("group_admin.listed_by_type"),
    },
    ApiKey.DELETE_GROUPS: {"groups_names": honoured("group_admin.several_deleted")},
    ApiKey.OFFSET_DELETE: {
        "group_id": _FORGET,
        "topics.name": _FORGET,
        "topics.partitions.partition_index": _FORGET,
    },
    ApiKey.API_VERSIONS: {
        "client_software_name": ignorable("nothing is told apart by it"),
        "client_software_version": ignorable("nothing is told apart by it"),
    },
    ApiKey.CREATE_TOPICS: {
        "topics.name": honoured("topics.names_of_no_sense"),
        "topics.num_partitions": honoured("topics.counts_of_no_sense"),
        "topics.replication_factor": honoured("topics.counts_of_no_sense"),
        "topics.assignments.partition_index": honoured("topics.placed_by_hand_with_gaps"),
        "topics.assignments.broker_ids": _CREATE,
        "topics.configs.name": _CONFIGS,
        "topics.configs.value": _CONFIGS,
        "timeout": _AT_ONCE,
        "validate_only": honoured("topics.only_looked_at"),
    },
    ApiKey.DELETE_TOPICS: {
        "topic_names": honoured("topics.deleted_in_versions_without_ids"),
        "topics.name": honoured("topics.deleted_by_name_and_by_id"),
        "topics.topic_id": honoured("topics.deleted_by_name_and_by_id"),
        "timeout": _AT_ONCE,
    },
    ApiKey.DELETE_RECORDS: {
        "topics.name": _TRIM,
        "topics.partitions.partition_index": _TRIM,
        "topics.partitions.offset": _TRIM,
        "timeout": _NO_OTHER_REPLICA,
    },
    ApiKey.INIT_PRODUCER_ID: {
        "transactional_id": honoured("transactions.an_init_during_a_transaction"),
        "transaction_timeout": honoured("transactions.a_transaction_that_takes_too_long"),
        "producer_id": honoured("transactions.inits_by_id"),
        "producer_epoch": honoured("transactions.inits_by_id"),
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "replica_id": _NO_FOLLOWERS,
        "topics.topic": _EPOCH,
        "topics.partitions.partition": _EPOCH,
        "topics.partitions.current_leader_epoch": _EPOCH,
        "topics.partitions.leader_epoch": _EPOCH,
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "v3_and_below_transactional_id": _ADD,
        "v3_and_below_producer_id": _ADD,
        "v3_and_below_producer_epoch": _ADD,
        "v3_and_below_topics.name": honoured("transactions.partitions_added_of_which_some_are_not_there"),
        "v3_and_below_topics.partitions": honoured("transactions.partitions_added_several_times"),
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {
        "transactional_id": _ADD_OFFSETS,
        "producer_id": _ADD_OFFSETS,
        "producer_epoch": _ADD_OFFSETS,
        "group_id": ignorable(
            "it says which partition of __consumer_offsets is written, and there is one; a commit names its group"
        ),
    },
    ApiKey.END_TXN: {
        "transactional_id": _END,
        "producer_id": _END,
        "producer_epoch": honoured("transactions.ends_in_each_state_by_newer_clients"),
        "committed": honoured("transactions.ends_in_each_state_by_older_clients"),
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        "transactional_id": _OFFSETS,
        "group_id": _OFFSETS,
        "producer_id": _OFFSETS,
        "producer_epoch": _OFFSETS,
        "generation_id": _MEMBER,
        "member_id": _MEMBER,
        "group_instance_id": _MEMBER,
        "topics.name": honoured("transactions_written.offsets_of_what_is_not_there"),
        "topics.partitions.partition_index": _PENDING,
        "topics.partitions.committed_offset": _PENDING,
        "topics.partitions.committed_leader_epoch": honoured("transactions_written.offsets_read_back"),
        "topics.partitions.committed_metadata": honoured("transactions_written.offsets_read_back"),
    },
    ApiKey.WRITE_TXN_MARKERS: {
        "markers.producer_id": _MARKER,
        "markers.producer_epoch": _MARKER,
        "markers.transaction_result": honoured("every_field.markers_of_a_commit"),
        "markers.topics.name": _MARKER,
        "markers.topics.partition_indexes": _MARKER,
        "markers.coordinator_epoch": ignorable(
            "one server coordinates all transactions for ever: there is no older coordinator that could come late"
        ),
    },
    ApiKey.DESCRIBE_ACLS: {
        "resource_type_filter": _NO_AUTHORIZER,
        "resource_name_filter": _NO_AUTHORIZER,
        "pattern_type_filter": _NO_AUTHORIZER,
        "principal_filter": _NO_AUTHORIZER,
        "host_filter": _NO_AUTHORIZER,
        "operation": _NO_AUTHORIZER,
        "permission_type": _NO_AUTHORIZER,
    },
    ApiKey.CREATE_ACLS: {
        "creations.resource_type": _NO_AUTHORIZER,
        "creations.resource_name": _NO_AUTHORIZER,
        "creations.resource_pattern_type": _NO_AUTHORIZER,
        "creations.principal": _NO_AUTHORIZER,
        "creations.host": _NO_AUTHORIZER,
        "creations.operation": _NO_AUTHORIZER,
        "creations.permission_type": _NO_AUTHORIZER,
    },
    ApiKey.DELETE_ACLS: {
        "filters.resource_type_filter": _NO_AUTHORIZER,
        "filters.resource_name_filter": _NO_AUTHORIZER,
        "filters.pattern_type_filter": _NO_AUTHORIZER,
        "filters.principal_filter": _NO_AUTHORIZER,
        "filters.host_filter": _NO_AUTHORIZER,
        "filters.operation": _NO_AUTHORIZER,
        "filters.permission_type": _NO_AUTHORIZER,
    },
    ApiKey.DESCRIBE_CONFIGS: {
        "resources.resource_type": honoured("describe_configs.of_what_is_not_there"),
        "resources.resource_name": _DESCRIBE,
        "resources.configuration_keys": honoured("describe_configs.no_names_are_all_names"),
        "include_synonyms": honoured("describe_configs.synonyms_of_a_topic"),
        "include_documentation": honoured("describe_configs.documentation"),
    },
    ApiKey.ALTER_CONFIGS: {
        "resources.resource_type": honoured("alter_configs.of_what_is_not_there"),
        "resources.resource_name": _REPLACE,
        "resources.configs.name": _REPLACE,
        "resources.configs.value": _REPLACE,
        "validate_only": honoured("alter_configs.only_looked_at"),
    },
    ApiKey.DESCRIBE_LOG_DIRS: {
        "topics": honoured("log_dirs.all_partitions"),
        "topics.topic": honoured("log_dirs.some_partitions"),
        "topics.partitions": honoured("log_dirs.some_partitions"),
    },
    ApiKey.CREATE_PARTITIONS: {
        "topics.name": _GROW,
        "topics.count": honoured("topics.more_partitions_of_no_sense"),
        "topics.assignments": _GROW,
        "topics.assignments.broker_ids": _GROW,
        "timeout": _AT_ONCE,
        "validate_only": _GROW,
    },
    ApiKey.ELECT_LEADERS: {
        "election_type": honoured("elections.an_election_that_there_is_not"),
        "topic_partitions": honoured("elections.all_partitions"),
        "topic_partitions.topic": honoured("elections.partitions_that_are_not_there"),
        "topic_partitions.partitions": honoured("elections.partitions_that_are_not_there"),
        "timeout": _AT_ONCE,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resources.resource_type": honoured("alter_configs.some_of_what_is_not_there"),
        "resources.resource_name": _CHANGE,
        "resources.configs.name": _CHANGE,
        "resources.configs.config_operation": _CHANGE,
        "resources.configs.value": _CHANGE,
        "validate_only": honoured("alter_configs.some_changes_only_looked_at"),
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "timeout": _AT_ONCE,
        "allow_replication_factor_change": ignorable("there is one factor, and no other is ever allowed"),
        "topics.name": _MOVE,
        "topics.partitions.partition_index": _MOVE,
        "topics.partitions.replicas": _MOVE,
    },
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {
        "timeout": _AT_ONCE,
        "topics": honoured("reassignments.listed"),
        "topics.name": honoured("reassignments.listed"),
        "topics.partition_indexes": honoured("reassignments.listed"),
    },
    ApiKey.DESCRIBE_CLUSTER: {
        "include_cluster_authorized_operations": honoured("authorized_operations.describe_cluster"),
        "endpoint_type": honoured("describe_cluster.controllers"),
        "include_fenced_brokers": ignorable("the one broker is never fenced"),
    },
    ApiKey.DESCRIBE_PRODUCERS: {
        "topics.name": honoured("every_field.producers_described"),
        "topics.partition_indexes": honoured("every_field.producers_described"),
    },
    ApiKey.DESCRIBE_TRANSACTIONS: {
        "transactional_ids": honoured("transactions_seen.described_that_are_not_there"),
    },
    ApiKey.LIST_TRANSACTIONS: {
        "state_filters": honoured("transactions_seen.listed_by_state"),
        "producer_id_filters": honoured("transactions_seen.listed_by_producer_id"),
        "duration_filter": honoured("transactions_seen.listed_by_duration"),
        "transactional_id_pattern": honoured("transactions_seen.listed_by_pattern"),
    },
    ApiKey.LIST_CONFIG_RESOURCES: {
        "resource_types": honoured("config_resources.topics_and_brokers"),
    },
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {
        "topics.name": honoured("topic_partitions.pages"),
        "response_partition_limit": honoured("topic_partitions.limits_of_no_sense"),
        "cursor": honoured("topic_partitions.pages"),
        "cursor.topic_name": honoured("topic_partitions.pages"),
        "cursor.partition_index": honoured("topic_partitions.a_cursor_at_no_partition"),
    },
}
