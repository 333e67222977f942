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
_NO_SESSIONS: Final = ignorable("no session is ever opened, so there is nothing to forget in one")
_NO_MEMBERS: Final = ignorable("there are no members, and an offset is everybody's who names the group")
_PRODUCE: Final = honoured("every_field.places_of_a_produce")
_FETCH: Final = honoured("every_field.places_of_a_fetch")
_LIST: Final = honoured("every_field.partitions_of_a_list")
_COMMIT: Final = honoured("seldom_sent.commits_read_back")
_GROUP: Final = honoured("seldom_sent.committed_offsets_of_nobody")
_CREATE: Final = honoured("topics.placed_by_hand")
_CONFIGS: Final = honoured("topics.the_answers_configs")
_TRIM: Final = honoured("every_field.records_deleted")
_EPOCH: Final = honoured("every_field.leader_epochs_of_the_end_of_an_epoch")
_MARKER: Final = honoured("every_field.markers")
_DESCRIBE: Final = honoured("describe_configs.values_and_sources_of_a_topic")
_GROW: Final = honoured("topics.more_partitions_placed_by_hand")
_REPLACE: Final = honoured("alter_configs.several_topics_each_for_itself")
_CHANGE: Final = honoured("alter_configs.some_changes_refused")
_MOVE: Final = honoured("reassignments.several_at_once")

FIELDS: Final[dict[ApiKey, dict[str, Field]]] = {
    ApiKey.PRODUCE: {
        "transactional_id": ignorable(
            "there are no transactions; a batch that says it is of one is refused by its own header"
        ),
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
        "isolation_level": ignorable(
            "without transactions the last stable offset is the high watermark, and nothing is aborted"
        ),
        "session_id": honoured("seldom_sent.fetches_in_no_session"),
        "session_epoch": _NO_SESSIONS,
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
        "isolation_level": honoured("every_field.isolation_levels_of_a_list"),
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
        "generation_id_or_member_epoch": honoured("seldom_sent.members_of_no_group"),
        "member_id": _NO_MEMBERS,
        "group_instance_id": _NO_MEMBERS,
        "retention_time": ignorable("offsets are kept for ever, so for at least as long"),
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
        "groups.member_id": _NO_MEMBERS,
        "groups.member_epoch": _NO_MEMBERS,
        "groups.topics": _GROUP,
        "groups.topics.name": _GROUP,
        "groups.topics.partition_indexes": _GROUP,
        "require_stable": ignorable("no offset is ever part of a transaction, so each is stable"),
    },
    ApiKey.FIND_COORDINATOR: {
        "key": honoured("every_field.coordinators_found"),
        "key_type": honoured("seldom_sent.coordinators"),
        "coordinator_keys": honoured("every_field.coordinators_found"),
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
        "transactional_id": honoured("test_handlers.py::test_identities_rise_and_shut_out"),
        "transaction_timeout": ignorable("there are no transactions that could be open for too long"),
        "producer_id": honoured("test_handlers.py::test_identities_rise_and_shut_out"),
        "producer_epoch": honoured("test_handlers.py::test_identities_rise_and_shut_out"),
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "replica_id": _NO_FOLLOWERS,
        "topics.topic": _EPOCH,
        "topics.partitions.partition": _EPOCH,
        "topics.partitions.current_leader_epoch": _EPOCH,
        "topics.partitions.leader_epoch": _EPOCH,
    },
    ApiKey.WRITE_TXN_MARKERS: {
        "markers.producer_id": _MARKER,
        "markers.producer_epoch": _MARKER,
        "markers.transaction_result": honoured("every_field.markers_of_a_commit"),
        "markers.topics.name": _MARKER,
        "markers.topics.partition_indexes": _MARKER,
        "markers.coordinator_epoch": ignorable(
            "there are no coordinators, of which an older one could be late"
        ),
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
