from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from semel.core.group.groups import RETENTION_MS
from semel.core.group.records import CommittedOffset
from semel.core.group.requests import Codes, CommitOffsets, OffsetToCommit
from semel.core.identity import BLOCK_IDS
from semel.core.identity import Refused as IdentityRefused
from semel.core.topics import DeleteTopic, Refused, Topic
from semel.core.transaction.requests import Init
from semel.errors import ErrorCode
from semel.server.storage.aside import at_once
from semel.server.storage.segment import Segment
from semel.server.storage.state_log import Submitted
from semel.server.storage.storage import Storage
from semel.types import ProducerGrant, TopicPartition

NOW_MS = 1_000_000


def commit(storage: Storage, *offsets: OffsetToCommit, now_ms: int = NOW_MS) -> Submitted[Codes]:
    return storage.group_log.submit(storage.groups.commit(CommitOffsets("g", offsets), 0, now_ms), now_ms)


def names(storage) -> list[str]:
    return [topic.name for topic in storage.topics if not topic.is_internal]


def test_topics_survive_a_crash(open_storage, crashed) -> None:
    live = open_storage()
    made = at_once(live.create_topic("t", 2, {"retention.ms": "1000"}, now_ms=NOW_MS))
    assert isinstance(made, Topic)
    at_once(live.add_partitions("t", 3, now_ms=NOW_MS))
    at_once(live.alter_topic_config("t", {"segment.bytes": "2048"}, now_ms=NOW_MS))
    at_once(live.create_topic("gone", now_ms=NOW_MS))
    at_once(live.delete_topic("gone", now_ms=NOW_MS))
    after = open_storage(crashed(live, "crashed"))
    topic = after.topics.get("t")
    assert (topic.topic_id, topic.partition_count) == (made.topic_id, 3)
    assert topic.settings == {"retention.ms": "1000", "segment.bytes": "2048"}
    assert after.partition("t", 2).config.segment_bytes == 2048
    assert after.topics.by_id(made.topic_id) is topic
    assert names(after) == ["t"]
    assert not [path for path in after.data_dir.iterdir() if path.name.startswith("gone")]


def test_a_topic_made_anew_is_empty_and_another_one(open_storage, make_batch, crashed) -> None:
    storage = open_storage()
    first = at_once(storage.create_topic("t", now_ms=NOW_MS))
    partition = storage.partition("t", 0)
    partition.append(*make_batch(0), NOW_MS)
    partition.sync()
    at_once(partition.delete_records(1))
    at_once(storage.delete_topic("t", now_ms=NOW_MS))
    assert storage.partition("t", 0) is None
    assert partition.append(*make_batch(1), NOW_MS).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    partition.sync()
    second = at_once(storage.create_topic("t", now_ms=NOW_MS))
    assert second.topic_id != first.topic_id
    fresh = storage.partition("t", 0)
    assert (fresh.log_start_offset, fresh.log_end_offset, fresh.producers()) == (0, 0, [])
    assert open_storage(crashed(storage, "c")).partition("t", 0).log_start_offset == 0


def test_what_a_crash_left_of_a_topic_that_was_never_made_goes(open_storage) -> None:
    storage = open_storage()
    orphan = storage.data_dir / "half-made-0"
    orphan.mkdir()
    (orphan / "00000000000000000000.log").write_bytes(b"")
    hidden = storage.data_dir / ("t-0." + "0123" * 8 + "-delete")
    hidden.mkdir()
    (hidden / "x").write_bytes(b"")
    other = storage.data_dir / "notes"
    other.mkdir()
    storage.close(now_ms=NOW_MS)
    open_storage()
    assert not orphan.exists()
    assert not hidden.exists()
    assert other.exists(), "what is nobody's is left alone"


def test_refusals_name_their_reason(open_storage) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    cases = [
        (at_once(storage.create_topic("t", now_ms=NOW_MS)), ErrorCode.TOPIC_ALREADY_EXISTS),
        (at_once(storage.create_topic("a/b", now_ms=NOW_MS)), ErrorCode.INVALID_TOPIC),
        (at_once(storage.create_topic("__consumer_offsets", now_ms=NOW_MS)), ErrorCode.INVALID_TOPIC),
        (at_once(storage.create_topic("u", 0, now_ms=NOW_MS)), ErrorCode.INVALID_PARTITIONS),
        (at_once(storage.create_topic("u", 1, {"no.such": "1"}, now_ms=NOW_MS)), ErrorCode.INVALID_CONFIG),
        (at_once(storage.delete_topic("u", now_ms=NOW_MS)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (at_once(storage.delete_topic("__semel_metadata", now_ms=NOW_MS)), ErrorCode.INVALID_TOPIC),
        (at_once(storage.add_partitions("t", 1, now_ms=NOW_MS)), ErrorCode.INVALID_PARTITIONS),
        (at_once(storage.alter_topic_config("t", {"cleanup.policy": "shrink"}, now_ms=NOW_MS)), 40),
    ]
    for refused, code in cases:
        assert isinstance(refused, Refused)
        assert refused.error_code == code
        assert refused.reason
    assert names(storage) == ["t"]


def test_the_cluster_keeps_its_id(open_storage) -> None:
    first = open_storage()
    cluster_id = first.cluster_id
    first.close(now_ms=NOW_MS)
    assert open_storage().cluster_id == cluster_id
    assert len(cluster_id) == 22


def test_no_producer_id_is_ever_given_twice(open_storage, crashed) -> None:
    storage = open_storage()
    given = []
    for restart in range(3):
        for _ in range(BLOCK_IDS // 2 + 10):
            granted = storage.init_producer(now_ms=NOW_MS).response
            assert isinstance(granted, ProducerGrant)
            given.append(granted.producer_id)
        storage = open_storage(crashed(storage, f"crashed-{restart}"))
    assert len(set(given)) == len(given)


def test_of_two_copies_of_an_identity_the_first_to_ask_goes_on(open_storage, crashed) -> None:
    storage = open_storage()
    first = storage.init_producer(now_ms=NOW_MS).response
    resumed = storage.init_producer(first.producer_id, first.producer_epoch, now_ms=NOW_MS)
    assert resumed.response == ProducerGrant(first.producer_id, 1)
    storage.metadata_log.partition.sync()
    after = open_storage(crashed(storage, "crashed"))
    twin = after.init_producer(first.producer_id, first.producer_epoch, now_ms=NOW_MS).response
    assert isinstance(twin, IdentityRefused)
    assert twin.error_code is ErrorCode.PRODUCER_FENCED


def test_committed_offsets_survive_and_go_with_their_topic(open_storage, crashed) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    name = TopicPartition("t", 0)
    committed = commit(storage, OffsetToCommit(name, 5, 0, "note"))
    assert committed.response == {name: ErrorCode.NONE}
    assert committed.sync_offset == storage.group_log.partition.log_end_offset
    storage.group_log.partition.sync()
    after = open_storage(crashed(storage, "crashed"))
    assert after.groups.offsets("g")[name].committed_offset == 5
    at_once(after.delete_topic("t", now_ms=NOW_MS))
    assert name not in after.groups.offsets("g")


def test_what_an_earlier_semel_kept_counts_from_the_takeover(open_storage, crashed) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    name = TopicPartition("t", 0)
    commit(storage, OffsetToCommit(name, 5, 0, "note"), now_ms=7)
    storage.close(now_ms=NOW_MS)
    properties = storage.data_dir / "meta.properties"
    properties.write_text(properties.read_text().replace("format.version=3", "format.version=1"))
    for start in ("first", "second"):  # at the second there is nothing to take over
        after = open_storage(crashed(storage, start), now_ms=NOW_MS + (start == "second"))
        assert after.groups.offsets("g")[name] == CommittedOffset(5, 0, "note", NOW_MS)
        assert after.group_log.partition.synced_offset == 2
        assert "semel.format.version=3" in (after.data_dir / "meta.properties").read_text()
        storage = after


def test_offsets_go_when_their_time_is_over(open_storage, crashed) -> None:
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    commit(storage, OffsetToCommit(TopicPartition("t", 0), 5, 0, ""), now_ms=0)
    storage.maintain(RETENTION_MS - 1)
    assert list(storage.groups.offsets("g")) == [("t", 0)]
    storage.maintain(RETENTION_MS)
    assert not storage.groups.offsets("g")
    assert not open_storage(crashed(storage, "crashed")).groups.offsets("g")


def test_the_state_logs_stay_small(open_storage, crashed, monkeypatch) -> None:
    monkeypatch.setattr("semel.server.storage.state_log.COMPACT_BYTES_MIN", 20_000)
    storage = open_storage()
    log = storage.group_log.partition
    log.config = replace(log.config, segment_bytes=5_000)
    at_once(storage.create_topic("t", topic_id=UUID(int=77), now_ms=NOW_MS))
    name = TopicPartition("t", 0)
    producer_id = storage.init_producer(now_ms=NOW_MS).response.producer_id
    for n in range(400):
        commit(storage, OffsetToCommit(name, n, 0, ""))
        storage.init_producer(producer_id, n, now_ms=NOW_MS)
        if n % 50 == 0:
            storage.maintain(NOW_MS)
    storage.maintain(NOW_MS)
    assert storage.group_log.partition.size_bytes < 20_000
    assert storage.metadata_log.partition.size_bytes < 20_000
    after = open_storage(crashed(storage, "crashed"))
    assert after.groups.offsets("g")[name].committed_offset == 399
    again = after.init_producer(producer_id, 400, now_ms=NOW_MS).response
    assert again == ProducerGrant(producer_id, 401)
    assert after.topics.get("t").topic_id == UUID(int=77)


def test_there_is_a_bound_on_topics_and_partitions(tmp_path: Path) -> None:
    from semel.server.storage.settings import StorageSettings
    from semel.server.storage.storage import Storage

    settings = StorageSettings(topics_max=4, partitions_max=6)
    storage = Storage.open(tmp_path / "data", None, settings, now_ms=NOW_MS)
    assert at_once(storage.create_topic("a", 5, now_ms=NOW_MS)).error_code is ErrorCode.POLICY_VIOLATION
    at_once(storage.create_topic("a", 2, now_ms=NOW_MS))
    at_once(storage.create_topic("b", 1, now_ms=NOW_MS))
    assert at_once(storage.create_topic("c", 1, now_ms=NOW_MS)).error_code is ErrorCode.POLICY_VIOLATION


def test_a_topic_whose_partitions_cannot_be_opened_is_not_made(open_storage, monkeypatch) -> None:
    """Too many open files, say: promised partitions that cannot be opened would keep the next start away."""
    storage = open_storage()
    created = Segment.create.__func__
    calls = []

    def create(cls, *arguments, **named):
        calls.append(arguments)
        if len(calls) > 3:
            raise OSError(24, "Too many open files")
        return created(cls, *arguments, **named)

    monkeypatch.setattr(Segment, "create", classmethod(create))
    refused = at_once(storage.create_topic("wide", 5, now_ms=NOW_MS))
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert names(storage) == []
    assert storage.partition("wide", 0) is None
    assert isinstance(at_once(storage.create_topic("wide", 5, now_ms=NOW_MS)), Topic)
    assert storage.partition("wide", 4) is not None


def test_offsets_of_a_topic_that_was_deleted_by_a_crash_go_with_it(open_storage, crashed) -> None:
    """Else a new topic of that name would be read from where the old one was left."""
    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    name = TopicPartition("t", 0)
    commit(storage, OffsetToCommit(name, 5, 0, ""))
    decision = storage.topics.decide(DeleteTopic("t"), NOW_MS)
    at_once(storage.metadata_log.submit_durably(decision, NOW_MS))
    after = open_storage(crashed(storage, "crashed"))
    at_once(after.create_topic("t", now_ms=NOW_MS))
    assert name not in after.groups.offsets("g")


def test_large_records_do_not_keep_a_state_log_from_being_compacted(open_storage, monkeypatch) -> None:
    monkeypatch.setattr("semel.server.storage.state_log.COMPACT_BYTES_MIN", 20_000)
    storage = open_storage()
    offsets = [OffsetToCommit(TopicPartition("t", n), 5, 0, "m" * 4096) for n in range(700)]
    for _ in range(3):
        assert commit(storage, *offsets).error_message is None
    grown = storage.group_log.partition.size_bytes
    storage.maintain(NOW_MS)
    assert storage.group_log.partition.size_bytes < grown / 2


def test_a_folder_that_ignores_case_costs_no_topic_its_records(open_storage, monkeypatch) -> None:
    """As on macOS, where the folders of T and t are one."""
    from semel.server.storage.filesystem import OsFileSystem

    storage = open_storage()
    at_once(storage.create_topic("t", now_ms=NOW_MS))
    monkeypatch.setattr(
        OsFileSystem,
        "exists",
        lambda self, path: path.name.lower() in {one.name.lower() for one in path.parent.iterdir()},
    )
    refused = at_once(storage.create_topic("T", now_ms=NOW_MS))
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.INVALID_TOPIC
    assert (storage.data_dir / "t-0").is_dir()


def test_every_new_id_comes_from_the_source_that_was_given(tmp_path: Path) -> None:
    from semel.server.storage.storage import Storage

    given: list[UUID] = []

    def new_uuid() -> UUID:
        given.append(UUID(int=len(given) + 1))
        return given[-1]

    storage = Storage.open(tmp_path / "data", now_ms=0, new_uuid=new_uuid)
    topic = at_once(storage.create_topic("events", now_ms=0))
    assert isinstance(topic, Topic)
    assert (storage.cluster_id, topic.topic_id) == ("AAAAAAAAAAAAAAAAAAAAAQ", UUID(int=2))
    at_once(storage.delete_topic("events", now_ms=0))
    assert len(given) == 3  # the name that the removed folder has until it is empty
    storage.close(now_ms=0)


def test_identities_are_durable_also_where_the_page_cache_is_trusted(open_storage) -> None:
    """A power cut may take records there, but never give a producer id to two writers."""
    storage = open_storage(durable=False)
    fresh = storage.init_producer(now_ms=NOW_MS)
    named = storage.transaction_log.submit(
        storage.transactions.init(Init("identity", 1_000, 7), NOW_MS), NOW_MS
    )
    for state_log, granted in ((storage.metadata_log, fresh), (storage.transaction_log, named)):
        log = state_log.partition
        assert log.high_watermark < granted.sync_offset, "it is answered after the sync"
        log.sync()
        assert log.synced_offset == log.high_watermark >= granted.sync_offset
