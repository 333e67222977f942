"""Settings of brokers and groups that were changed while a server ran: in force at once, and after any stop."""

import pytest
from tests.server.storage.conftest import NOW_MS

from semel.core.dynamic_config.resources import ALL_BROKERS, AlterResource, Kind
from semel.core.topics import Refused
from semel.errors import StorageError
from semel.server.storage.aside import at_once

AGE, LAG = "log.retention.ms", "log.cleaner.min.compaction.lag.ms"


def alter(storage, kind, name, **changes):
    by_name = {key.replace("_", "."): value for key, value in changes.items()}
    return at_once(storage.alter_resource(AlterResource(kind, name, by_name), now_ms=NOW_MS))


def configs(storage, *topics):
    return [storage.partition(topic, 0).config for topic in topics]


def test_they_survive_a_crash_as_they_were_acknowledged(open_storage, crashed) -> None:
    storage = open_storage()
    alter(storage, Kind.BROKER, ALL_BROKERS, log_retention_ms="5", message_max_bytes="2048")
    alter(storage, Kind.BROKER, "0", log_retention_ms="6", producer_id_expiration_ms="7")
    alter(storage, Kind.BROKER, "1", log_retention_ms="8")
    alter(storage, Kind.GROUP, "g", consumer_session_timeout_ms="50000")
    alter(storage, Kind.GROUP, "h", consumer_session_timeout_ms="50000")
    alter(storage, Kind.GROUP, "h", consumer_session_timeout_ms=None)
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    after = open_storage(crashed(storage, "crashed"))
    assert after.resources.names(Kind.BROKER) == ["", "0", "1"]
    assert after.resources.names(Kind.GROUP) == ["g"]
    assert after.resources.in_force(0) == {
        AGE: "6", "message.max.bytes": "2048", "producer.id.expiration.ms": "7",
    }  # fmt: skip
    assert after.settings == storage.settings
    assert after.settings.producer_id_expiration_ms == 7
    (config,) = configs(after, "t")
    assert (config.retention_ms, config.max_message_bytes) == (6, 2048)


def test_topics_obey_at_once_but_for_what_they_say_themselves(open_storage) -> None:
    storage = open_storage()
    at_once(storage.create_topic("mine", 1, {"retention.ms": "9"}, now_ms=NOW_MS))
    at_once(storage.create_topic("theirs", 1, now_ms=NOW_MS))
    alter(storage, Kind.BROKER, "0", log_retention_ms="6", compression_type="lz4")
    at_once(storage.create_topic("new", 1, now_ms=NOW_MS))
    found = configs(storage, "mine", "theirs", "new")
    assert [(one.retention_ms, one.compression_type) for one in found] == [(9, "lz4"), (6, "lz4"), (6, "lz4")]
    alter(storage, Kind.BROKER, "0", log_retention_ms=None, compression_type=None)
    assert [one.retention_ms for one in configs(storage, "mine", "new")] == [9, 604_800_000]
    assert storage.metadata_log.partition.config.retention_ms == -1


def test_what_a_topic_could_not_have_is_refused(open_storage) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", 1, {"max.compaction.lag.ms": "10"}, now_ms=NOW_MS))
    for changes in ({LAG: "11"}, {LAG: "6", "log.cleaner.max.compaction.lag.ms": "5"}):
        refused = at_once(storage.alter_resource(AlterResource(Kind.BROKER, "0", changes), now_ms=NOW_MS))
        assert isinstance(refused, Refused)
        assert "max.compaction.lag.ms" in refused.reason
    assert storage.resources.in_force(0) == {}


def test_what_does_not_go_with_what_a_server_is_started_with_stops_it(open_storage, crashed) -> None:
    """It would have to choose, and a wrong choice deletes records."""
    storage = open_storage()
    alter(storage, Kind.BROKER, "0", log_cleaner_min_compaction_lag_ms="11")
    folder = crashed(storage, "crashed")
    with pytest.raises(StorageError, match="changed while a server ran, does not go with those"):
        open_storage(folder, max_compaction_lag_ms=10)


def test_they_stay_when_the_metadata_log_is_compacted(open_storage, crashed, monkeypatch) -> None:
    monkeypatch.setattr("semel.server.storage.state_log.COMPACT_BYTES_MIN", 2_000)
    storage = open_storage()
    for number in range(30):
        alter(storage, Kind.BROKER, "0", log_retention_ms=str(number + 1))
        alter(storage, Kind.GROUP, "g", streams_num_standby_replicas=str(number % 3))
    grown = storage.metadata_log.partition.size_bytes
    storage.maintain(NOW_MS)
    assert storage.metadata_log.partition.size_bytes < grown / 2
    after = open_storage(crashed(storage, "crashed"))
    assert after.resources.in_force(0) == {AGE: "30"}
    assert after.resources.get(Kind.GROUP, "g") == {"streams.num.standby.replicas": "2"}
