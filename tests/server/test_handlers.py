"""Handlers without a socket, over real files: what is answered when, and what a bad disk makes of it."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.server.carrying_out import CarriedOut, carry_out
from tests.server.failing_disk import Disk

from semel.config import Address, ServerSettings
from semel.core.topics import Refused
from semel.errors import ErrorCode
from semel.record.batch import Record, encode_batch
from semel.server.broker import Broker
from semel.server.operation import InTurn
from semel.server.outcome import AfterSync, Answer, Call, Delayed, Disconnect, Operation, Outcome
from semel.server.router import handle, handle_next
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.wire import describe_producers, fetch, init_producer_id, messages, produce
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer, MalformedMessage, encode_request_header

NOW_MS = 1_700_000_000_000
_epochs = itertools.count(9)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def broker(tmp_path: Path, disk: Disk) -> Iterator[Broker]:
    storage = Storage.open(tmp_path / "data", disk, StorageSettings(), now_ms=NOW_MS)
    broker = Broker(ServerSettings(), storage)
    at_once(broker.create_topic("t", 1, {}, NOW_MS))
    yield broker
    storage.close(now_ms=NOW_MS)


def ask(broker: Broker, api_key: ApiKey, version: int, body: Buffer) -> Outcome:
    call = Call(int(api_key), version, "test", Address("127.0.0.1", 9092), NOW_MS, lambda: 10**7)
    return handle(broker, call, body)


def carried_out(outcome: Outcome) -> bytes:
    """The answer's bytes, with whatever change or sync it needs done first."""
    if isinstance(outcome, Operation):
        outcome = carry_out(outcome).answer
    if isinstance(outcome, AfterSync):
        for partition in outcome.partitions:
            partition.sync()
        outcome = outcome.answer or Answer(()) if outcome.finish is None else outcome.finish()
    assert isinstance(outcome, Answer)
    return b"".join(bytes(part) for part in outcome.parts)


def ask_produce(
    broker: Broker, *, sequence: int = -1, producer_id: int = -1, epoch: int = -1, acks: int = -1
) -> Outcome:
    batch = encode_batch(
        [Record(0, NOW_MS, None, b"v")], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )
    item = produce.ProducePartition("t", 0, memoryview(batch))
    body = bytearray().join(produce.encode_request(9, produce.ProduceRequest(None, acks, 1000, [item])))
    return ask(broker, ApiKey.PRODUCE, 9, memoryview(body))


def produced(outcome: Outcome) -> produce.ProducedPartition:
    (result,), _ = produce.decode_response(9, carried_out(outcome))
    return result


def ask_fetch(broker: Broker, offset: int, *, wait_ms: int = 0, min_bytes: int = 1) -> Outcome:
    item = fetch.FetchPartition("t", 0, offset, 10**6)
    request = fetch.FetchRequest(wait_ms, min_bytes, 10**6, 0, [item])
    return ask(broker, ApiKey.FETCH, 11, fetch.encode_request(11, request))


def fetched(outcome: Outcome) -> fetch.FetchedPartition:
    (partition,) = fetch.decode_response(11, carried_out(outcome)).partitions
    return partition


def describe(broker: Broker) -> Outcome:
    fields = {"topics": [{"name": "t", "partition_indexes": [0]}]}
    body = messages.encode_request(ApiKey.DESCRIBE_PRODUCERS, 0, fields)
    return ask(broker, ApiKey.DESCRIBE_PRODUCERS, 0, body)


def test_many_producers_are_described_in_steps_and_once_they_are_durable(broker: Broker, disk: Disk) -> None:
    count = 1200
    for producer_id in range(count):
        ask_produce(broker, sequence=0, producer_id=count - producer_id, epoch=3)
    told = carry_out(describe(broker))
    assert told.asides >= count // 250, "others have their turn in between"
    (described,) = describe_producers.decode_response(b"".join(told.answer.parts))
    assert [(one.producer_id, one.producer_epoch, one.last_sequence) for one in described.producers] == [
        (producer_id, 3, 0) for producer_id in range(1, count + 1)
    ]
    ask_produce(broker, sequence=1, producer_id=1, epoch=3)
    disk.sync_error = OSError(errno.EIO, "sync failed")
    (described,) = describe_producers.decode_response(carried_out(describe(broker)))
    assert (described.error_code, described.producers) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_a_reader_of_what_the_log_has_lost_is_told_so_at_once(broker: Broker) -> None:
    """However long it would wait for more rows."""
    produced(ask_produce(broker))

    def ask_behind(offset: int, last_fetched_epoch: int) -> Outcome:
        item = fetch.FetchPartition("t", 0, offset, 10**6, last_fetched_epoch=last_fetched_epoch)
        request = fetch.FetchRequest(60_000, 10**6, 10**6, 0, [item])
        return ask(broker, ApiKey.FETCH, 12, fetch.encode_request(12, request))

    def told(outcome: Outcome) -> tuple[int, tuple[int, int] | None]:
        (partition,) = fetch.decode_response(12, carried_out(outcome)).partitions
        return partition.error_code, partition.diverging_epoch

    assert told(ask_behind(5, 0)) == (ErrorCode.NONE, (0, 1))
    assert told(ask_behind(1, 7)) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)
    assert isinstance(ask_behind(1, 0), Delayed)


def test_acks_all_is_answered_after_the_sync_and_read_only_then(broker: Broker) -> None:
    outcome = ask_produce(broker)
    assert isinstance(outcome, AfterSync)
    assert fetched(ask_fetch(broker, 0)).records == b""
    result = produced(outcome)
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert fetched(ask_fetch(broker, 0)).high_watermark == 1


def test_acks_one_is_answered_as_acks_all_is(broker: Broker) -> None:
    """There is one replica; Apache Kafka shows what it has acknowledged, too."""
    outcome = ask_produce(broker, acks=1)
    assert isinstance(outcome, AfterSync)
    assert outcome.answer is None
    assert fetched(ask_fetch(broker, 0)).records == b""
    assert produced(outcome).base_offset == 0
    assert fetched(ask_fetch(broker, 0)).high_watermark == 1


def test_a_failed_sync_is_never_acknowledged_with_acks_one(broker: Broker, disk: Disk) -> None:
    disk.sync_error = OSError(errno.EIO, "the disk is gone")
    assert produced(ask_produce(broker, acks=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_acks_one_does_not_wait_where_the_page_cache_is_trusted(tmp_path: Path, disk: Disk) -> None:
    storage = Storage.open(tmp_path / "data", disk, StorageSettings(durable=False), now_ms=NOW_MS)
    broker = Broker(ServerSettings(), storage)
    at_once(broker.create_topic("t", 1, {}, NOW_MS))
    assert isinstance(ask_produce(broker, acks=1), Answer)
    storage.close(now_ms=NOW_MS)


def test_acks_none_is_synced_all_the_same(broker: Broker) -> None:
    outcome = ask_produce(broker, acks=0)
    assert isinstance(outcome, AfterSync)
    assert outcome.finish is None and outcome.answer is None
    assert outcome.partitions


def test_a_failed_sync_is_never_acknowledged_and_the_partition_stays_offline(
    broker: Broker, disk: Disk
) -> None:
    produced(ask_produce(broker))
    disk.sync_error = OSError(errno.EIO, "the disk is gone")
    assert produced(ask_produce(broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.sync_error = None
    assert produced(ask_produce(broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert fetched(ask_fetch(broker, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_full_disk_refuses_and_recovers(broker: Broker, disk: Disk) -> None:
    disk.write_error = OSError(errno.ENOSPC, "no space left")
    assert produced(ask_produce(broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.write_error = None
    result = produced(ask_produce(broker))
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)


def init_named(broker: Broker, name: str) -> Outcome:
    body = init_producer_id.encode_request(4, init_producer_id.InitProducerIdRequest(name, 1000))
    return ask(broker, ApiKey.INIT_PRODUCER_ID, 4, body)


def commit(broker: Broker) -> Outcome:
    item = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [item | {"committed_leader_epoch": -1}]}],
    }
    return ask(broker, ApiKey.OFFSET_COMMIT, 7, messages.encode_request(ApiKey.OFFSET_COMMIT, 7, fields))


def put_marker(broker: Broker) -> Outcome:
    marker = {
        "producer_id": 5,
        "producer_epoch": next(_epochs),
        "transaction_result": False,
        "coordinator_epoch": 0,
    }
    topics = [{"name": "t", "partition_indexes": [0]}]
    body = messages.encode_request(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [marker | {"topics": topics}]})
    return ask(broker, ApiKey.WRITE_TXN_MARKERS, 1, body)


def produce_plainly(broker: Broker) -> Outcome:
    batch = memoryview(encode_batch([Record(0, NOW_MS, None, b"v")]))
    item = produce.ProducePartition("t", 0, batch)
    frame = encode_request_header(ApiKey.PRODUCE, 9, 1, "test")
    frame += b"".join(produce.encode_request(9, produce.ProduceRequest(None, -1, 1000, [item])))
    return handle_next(broker, [memoryview(frame)], Address("h", 1), NOW_MS, lambda: 10**7).outcome


WRITERS = [
    pytest.param(ask_produce, "t-0", id="produce"),
    pytest.param(produce_plainly, "t-0", id="plain produce"),
    pytest.param(put_marker, "t-0", id="marker"),
    pytest.param(lambda broker: init_named(broker, "x"), "__transaction_state-0", id="producer id"),
    pytest.param(commit, "__consumer_offsets-0", id="offset commit"),
]


@pytest.mark.parametrize(("write", "where"), WRITERS)
def test_whoever_finds_the_disk_full_or_broken_is_told_to_the_operator(
    broker: Broker, disk: Disk, write: Callable[[Broker], Outcome], where: str
) -> None:
    told: list[tuple[str, str]] = []
    broker.when_storage_fails(
        lambda partition, reason: told.append((str(partition and partition.name), reason))
    )
    carried_out(write(broker))
    assert not told and not broker.full
    disk.write_error = OSError(errno.ENOSPC, "no space left")
    carried_out(write(broker))
    ((partition, reason),) = told
    assert partition == where and "no space left" in reason
    (full,) = broker.full
    assert full.is_online and full.no_room is not None
    assert not broker.forget_room_again()
    disk.write_error = None
    carried_out(write(broker))
    assert broker.forget_room_again() == [full] and not broker.full
    disk.sync_error = OSError(errno.EIO, "the disk is gone")
    carried_out(write(broker))
    assert len(told) == 2 and "the disk is gone" in told[1][1]
    assert not broker.full


def test_a_topic_that_is_deleted_is_full_no_more(broker: Broker, disk: Disk) -> None:
    disk.write_error = OSError(errno.ENOSPC, "no space left")
    carried_out(ask_produce(broker))
    disk.write_error = None
    assert len(broker.full) == 1
    at_once(broker.delete_topic("t", NOW_MS))
    broker.forget_room_again()
    assert not broker.full


def test_a_failed_sync_of_the_identities_grants_nothing(broker: Broker, disk: Disk) -> None:
    disk.sync_error = OSError(errno.EIO, "the disk is gone")
    body = init_producer_id.encode_request(4, init_producer_id.InitProducerIdRequest("x", 1000))
    answer = carried_out(ask(broker, ApiKey.INIT_PRODUCER_ID, 4, body))
    assert init_producer_id.decode_response(4, answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_duplicates_gaps_and_unknown_producers(broker: Broker) -> None:
    assert produced(ask_produce(broker, producer_id=5, epoch=0, sequence=0)).base_offset == 0
    again = produced(ask_produce(broker, producer_id=5, epoch=0, sequence=0))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    gap = produced(ask_produce(broker, producer_id=5, epoch=0, sequence=2))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    stranger = produced(ask_produce(broker, producer_id=6, epoch=0, sequence=2))
    assert stranger.error_code == ErrorCode.UNKNOWN_PRODUCER_ID
    assert +broker.counters.verdicts == {
        "batch/Append/NONE": 1,
        "batch/Duplicate/NONE": 1,
        "batch/OutOfOrderSequence/OUT_OF_ORDER_SEQUENCE_NUMBER": 1,
        "batch/UnknownProducer/UNKNOWN_PRODUCER_ID": 1,
    }


def test_a_duplicate_of_what_is_not_durable_waits_too(broker: Broker) -> None:
    ask_produce(broker, producer_id=5, epoch=0, sequence=0)
    assert isinstance(ask_produce(broker, producer_id=5, epoch=0, sequence=0), AfterSync)


def test_identities_rise_and_shut_out(broker: Broker) -> None:
    def init(
        name: str | None, producer_id: int = -1, epoch: int = -1
    ) -> init_producer_id.InitProducerIdResponse:
        request = init_producer_id.InitProducerIdRequest(name, 1000, producer_id, epoch)
        body = init_producer_id.encode_request(4, request)
        return init_producer_id.decode_response(4, carried_out(ask(broker, ApiKey.INIT_PRODUCER_ID, 4, body)))

    first, second = init("x"), init("x")
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)
    assert first.producer_id == second.producer_id
    fresh = init(None)
    assert fresh.producer_id != first.producer_id
    resumed = init(None, fresh.producer_id, 0)
    assert (resumed.producer_id, resumed.producer_epoch) == (fresh.producer_id, 1)
    assert init(None, fresh.producer_id, 0).error_code == ErrorCode.PRODUCER_FENCED


def test_acks_zero_that_fails_closes(broker: Broker) -> None:
    outcome = ask_produce(broker, producer_id=6, epoch=0, sequence=2, acks=0)
    assert isinstance(outcome, Disconnect)


def test_a_corrupt_batch_is_refused(broker: Broker) -> None:
    batch = encode_batch([Record(0, NOW_MS, None, b"v")])
    batch[-1] ^= 1
    item = produce.ProducePartition("t", 0, memoryview(batch))
    body = bytearray().join(produce.encode_request(9, produce.ProduceRequest(None, -1, 1000, [item])))
    result = produced(ask(broker, ApiKey.PRODUCE, 9, memoryview(body)))
    assert result.error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_fetch_waits_until_there_is_enough_or_time_is_up(broker: Broker) -> None:
    waiting = ask_fetch(broker, 0, wait_ms=100)
    assert isinstance(waiting, Delayed)
    assert waiting.attempt(False) is None
    produced(ask_produce(broker))
    answer = waiting.attempt(False)
    assert answer is not None
    late = ask_fetch(broker, 1, wait_ms=100)
    assert isinstance(late, Delayed)
    assert late.attempt(True) is not None


def test_a_fetch_beyond_the_log_is_out_of_range(broker: Broker) -> None:
    assert fetched(ask_fetch(broker, 5)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def create(broker: Broker, *topics: tuple[str, int]) -> list[int]:
    wanted = [
        {"name": name, "num_partitions": count, "replication_factor": 1, "assignments": [], "configs": []}
        for name, count in topics
    ]
    fields = {"topics": wanted, "timeout": 1000, "validate_only": False}
    body = messages.encode_request(ApiKey.CREATE_TOPICS, 7, fields)
    answer = carried_out(ask(broker, ApiKey.CREATE_TOPICS, 7, body))
    return [int(one.error_code) for one in messages.decode_response(ApiKey.CREATE_TOPICS, 7, answer).topics]


def delete(broker: Broker, *names: str) -> tuple[list[int], CarriedOut]:
    fields = {"topics": [{"name": name, "topic_id": None} for name in names], "timeout": 1000}
    body = messages.encode_request(ApiKey.DELETE_TOPICS, 6, fields)
    told = carry_out(ask(broker, ApiKey.DELETE_TOPICS, 6, body))
    answer = messages.decode_response(ApiKey.DELETE_TOPICS, 6, b"".join(told.answer.parts))
    return [int(one.error_code) for one in answer.responses], told


def test_one_request_makes_and_deletes_many_topics_and_others_have_their_turn_in_between(
    broker: Broker,
) -> None:
    names = [f"new-{n}" for n in range(250)]  # more than 1,000 partitions' work
    assert create(broker, *((name, 1) for name in names)) == [0] * len(names)
    codes, told = delete(broker, *names)
    assert codes == [0] * len(names)
    assert sum(isinstance(each, InTurn) for each in told.waits) == len(names)


def test_a_request_for_more_than_kafka_takes_is_refused_whole(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.server.handlers.pieces.RECORDS_MAX", 20)
    too_many = ErrorCode.POLICY_VIOLATION
    assert create(broker, ("a", 20)) == [too_many]
    assert create(broker, ("a", 10), ("b", 10), ("c", 1)) == [too_many] * 3
    assert create(broker, ("a", 20), ("b", -100)) == [too_many] * 2
    assert create(broker, ("a", 10), ("a", 10), ("b", 7)) == [ErrorCode.INVALID_REQUEST, 0]
    assert create(broker, ("a", 19)) == [0]
    assert delete(broker, "a", "b", *(f"x-{n}" for n in range(19)))[0] == [too_many] * 21
    assert delete(broker, "a", "b")[0] == [0, 0]


def test_a_question_for_many_new_topics_makes_some_of_them(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.server.handlers.metadata._PARTITIONS_AT_ONCE", 24)
    wanted = [{"name": f"new-{n}"} for n in range(5)] + [{"name": "new-0"}]
    fields = {
        "topics": wanted,
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    body = messages.encode_request(ApiKey.METADATA, 9, fields)
    answer = messages.decode_response(ApiKey.METADATA, 9, carried_out(ask(broker, ApiKey.METADATA, 9, body)))
    codes = [int(topic.error_code) for topic in answer.topics]
    assert codes == [0, 0, 0, 0, 5], "each name once, and the others when asked again"


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_malformed_where_answers_need_one(broker: Broker, version: int) -> None:
    fields = {
        "topics": [{"name": None, "topic_id": UUID(int=9)}],
        "allow_auto_topic_creation": True,
        "include_topic_authorized_operations": False,
        "include_cluster_authorized_operations": False,
    }
    with pytest.raises(MalformedMessage, match="without a name"):
        ask(broker, ApiKey.METADATA, version, messages.encode_request(ApiKey.METADATA, version, fields))
    answer = carried_out(
        ask(broker, ApiKey.METADATA, 12, messages.encode_request(ApiKey.METADATA, 12, fields))
    )
    assert int(messages.decode_response(ApiKey.METADATA, 12, answer).topics[0].error_code) == 100


@pytest.mark.parametrize("version", [7, 8])
def test_a_partition_that_is_named_many_times_is_told_its_committed_offset_once(
    broker: Broker, version: int
) -> None:
    """A few bytes must not ask for kilobytes of metadata over and over."""
    item = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1}
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [item | {"committed_metadata": "m" * 4000}]}],
    }
    carried_out(
        ask(broker, ApiKey.OFFSET_COMMIT, 8, messages.encode_request(ApiKey.OFFSET_COMMIT, 8, fields))
    )
    group = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0, 5, *[0] * 1000]}] * 2}
    asked = group if version < 8 else {"groups": [group]}
    body = messages.encode_request(ApiKey.OFFSET_FETCH, version, asked | {"require_stable": False})
    answer = carried_out(ask(broker, ApiKey.OFFSET_FETCH, version, body))
    assert len(answer) < 5000
    decoded = messages.decode_response(ApiKey.OFFSET_FETCH, version, answer)
    topics = decoded.topics if version < 8 else decoded.groups[0].topics
    found = [(one.partition_index, one.committed_offset) for topic in topics for one in topic.partitions]
    assert found == [(0, 7), (5, -1)]


def test_a_topic_is_described_once_whatever_ids_come_with_its_name(broker: Broker) -> None:
    """A few bytes must not ask for a description of all its partitions over and over."""
    fields = {
        "topics": [{"name": "t", "topic_id": UUID(int=n)} for n in range(1000)],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    body = messages.encode_request(ApiKey.METADATA, 12, fields)
    answer = messages.decode_response(
        ApiKey.METADATA, 12, carried_out(ask(broker, ApiKey.METADATA, 12, body))
    )
    assert [topic.name for topic in answer.topics] == ["t"]


def test_what_many_topics_would_be_is_told_and_nothing_is_made(broker: Broker) -> None:
    topic = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    fields = {
        "topics": [topic | {"name": f"new-{n}"} for n in range(200)],
        "timeout": 1000,
        "validate_only": True,
    }
    body = messages.encode_request(ApiKey.CREATE_TOPICS, 7, fields)
    told = carry_out(ask(broker, ApiKey.CREATE_TOPICS, 7, body))
    assert told.asides == 1, "the answer is made in a thread"
    answer = messages.decode_response(ApiKey.CREATE_TOPICS, 7, b"".join(told.answer.parts))
    assert {int(one.error_code) for one in answer.topics} == {0}
    assert broker.storage.topics.get("new-0") is None


def test_a_partition_that_was_full_and_is_deleted_is_not_called_written_again(
    broker: Broker, disk: Disk
) -> None:
    disk.write_error = OSError(errno.ENOSPC, "No space left on device")
    assert produced(ask_produce(broker)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.write_error = None
    assert len(broker.full) == 1 and not broker.forget_room_again()
    assert not isinstance(at_once(broker.delete_topic("t", NOW_MS)), Refused)
    assert not broker.forget_room_again()
    assert not broker.full
