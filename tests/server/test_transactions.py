"""Fetch, ListOffsets, DescribeProducers and markers over a partition with transactions, by either door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.test_handlers import NOW_MS, ask, ask_produce, carried_out, describe, produced

from semel.config import Address, ServerSettings
from semel.core.log.admission import AppendOrigin
from semel.errors import ErrorCode
from semel.record.batch import Record, decode_header, encode_batch, scan_batches
from semel.record.control import encode_abort_marker, encode_commit_marker
from semel.server.broker import Broker
from semel.server.outcome import Answer, Delayed, Handled, Outcome, framed
from semel.server.router import handle_next
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Incoming
from semel.server.storage.partition import Partition
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.wire import describe_producers, fetch, messages
from semel.wire.api import ApiKey
from semel.wire.frames import encode_request_header

LATEST, AT = -1, NOW_MS + 1
DIALLED = Address("127.0.0.1", 9092)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    storage = Storage.open(tmp_path / "data", None, StorageSettings(), now_ms=NOW_MS)
    broker = Broker(ServerSettings(), storage)
    at_once(broker.create_topic("t", 1, {}, NOW_MS))
    yield broker
    storage.close(now_ms=NOW_MS)


@pytest.fixture
def partition(broker: Broker) -> Partition:
    found = broker.storage.partition("t", 0)
    assert found is not None
    return found


def write(
    partition: Partition, producer_id: int, sequence: int, *, time_ms: int = NOW_MS, is_synced: bool = True
) -> None:
    batch = encode_batch(
        [Record(0, time_ms, b"k", b"v")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    _append(partition, batch, AppendOrigin.TRANSACTION, is_synced=is_synced)


def end(partition: Partition, producer_id: int, *, commit: bool) -> None:
    encode = encode_commit_marker if commit else encode_abort_marker
    _append(partition, encode(producer_id, 0, 0, NOW_MS), AppendOrigin.COORDINATOR)


def _append(partition: Partition, batch: bytearray, origin: AppendOrigin, *, is_synced: bool = True) -> None:
    (outcome,) = partition.append_all([Incoming(memoryview(batch), [decode_header(batch)], origin)], NOW_MS)
    assert outcome.error_code is ErrorCode.NONE
    if is_synced:
        partition.sync()
    else:
        partition.note_acknowledged(outcome.sync_offset)


def request(level: int, offset: int, wait_ms: int, min_bytes: int) -> fetch.FetchRequest:
    item = fetch.FetchPartition("t", 0, offset, 10**6)
    return fetch.FetchRequest(wait_ms, min_bytes, 10**6, level, [item])


def fetched(broker: Broker, level: int, offset: int, version: int = 11) -> fetch.FetchedPartition:
    """By both doors, which give the same bytes."""
    body = fetch.encode_request(version, request(level, offset, 0, 1))
    general = carried_out(ask(broker, ApiKey.FETCH, version, body))
    frame = memoryview(encode_request_header(ApiKey.FETCH, version, 7, "c") + body)
    handled = handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: 10**7)
    assert isinstance(handled.outcome, Answer)
    assert b"".join(framed(handled.outcome, Handled(Answer(()), 1, 1, version, 7))).endswith(general)
    (found,) = fetch.decode_response(version, general).partitions
    return found


def offsets_of(found: fetch.FetchedPartition) -> list[int]:
    return [header.base_offset for _, header in scan_batches(found.records or b"")]


@pytest.mark.parametrize("version", [4, 11, 12])
def test_either_reader_is_told_what_kafka_tells(broker: Broker, partition: Partition, version: int) -> None:
    write(partition, 1, 0)
    write(partition, 2, 0)
    end(partition, 1, commit=False)
    committed = fetched(broker, fetch.READ_COMMITTED, 0, version)
    assert offsets_of(committed) == [0]
    assert (committed.high_watermark, committed.last_stable_offset, committed.aborted) == (3, 1, [(1, 0)])
    every = fetched(broker, fetch.READ_UNCOMMITTED, 0, version)
    assert offsets_of(every) == [0, 1, 2]
    assert (every.high_watermark, every.last_stable_offset, every.aborted) == (3, 1, None)
    nothing = fetched(broker, fetch.READ_COMMITTED, 1, version)
    assert (offsets_of(nothing), nothing.aborted) == ([], [])
    end(partition, 2, commit=True)
    rest = fetched(broker, fetch.READ_COMMITTED, 1, version)
    assert (offsets_of(rest), rest.last_stable_offset, rest.aborted) == ([1, 2, 3], 4, [(1, 0)])
    assert fetched(broker, fetch.READ_COMMITTED, 3, version).aborted == []


def test_a_reader_of_what_is_committed_waits_until_the_last_stable_offset_has_moved(
    broker: Broker, partition: Partition
) -> None:
    write(partition, 1, 0)
    body = fetch.encode_request(11, request(fetch.READ_COMMITTED, 0, 1000, 1))
    delayed = ask(broker, ApiKey.FETCH, 11, body)
    assert isinstance(delayed, Delayed)
    assert list(delayed.keys) == [partition.name]
    write(partition, 1, 1)
    assert delayed.attempt(False) is None, "there is more, and not for this one"
    end(partition, 1, commit=True)
    answer = delayed.attempt(False)
    assert answer is not None
    (found,) = fetch.decode_response(11, carried_out(answer)).partitions
    assert offsets_of(found) == [0, 1, 2]


@pytest.mark.parametrize("level", [fetch.READ_UNCOMMITTED, fetch.READ_COMMITTED])
def test_offsets_are_listed_up_to_where_one_reads(broker: Broker, partition: Partition, level: int) -> None:
    write(partition, 1, 0)
    write(partition, 2, 0, time_ms=AT)

    def listed(timestamp: int) -> int:
        asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
        fields = {
            "replica_id": -1,
            "isolation_level": level,
            "topics": [{"name": "t", "partitions": [asked]}],
        }
        body = messages.encode_request(ApiKey.LIST_OFFSETS, 7, fields)
        answer = carried_out(ask(broker, ApiKey.LIST_OFFSETS, 7, body))
        (topic,) = messages.decode_response(ApiKey.LIST_OFFSETS, 7, memoryview(answer)).topics
        return int(topic.partitions[0].offset)

    is_committed = level == fetch.READ_COMMITTED
    assert listed(LATEST) == (0 if is_committed else 2)
    assert listed(AT) == listed(-3) == (-1 if is_committed else 1)
    end(partition, 1, commit=True)
    assert listed(LATEST) == (1 if is_committed else 3)
    end(partition, 2, commit=True)
    assert listed(LATEST) == 4
    assert listed(AT) == listed(-3) == 1


def test_producers_are_described_with_their_open_transactions(broker: Broker, partition: Partition) -> None:
    write(partition, 1, 0)
    write(partition, 2, 0)
    end(partition, 1, commit=True)
    answer = carried_out(describe(broker))
    (described,) = describe_producers.decode_response(memoryview(answer))
    assert {one.producer_id: one.transaction_start_offset for one in described.producers} == {1: -1, 2: 1}


def test_a_client_may_write_in_no_transaction_that_nobody_vouches_for(broker: Broker) -> None:
    assert produced(ask_produce(broker, sequence=0, producer_id=1, epoch=0)).error_code == ErrorCode.NONE
    batch = encode_batch(
        [Record(0, NOW_MS, None, b"v")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=1,
        transactional=True,
    )
    found = broker.storage.partition("t", 0)
    assert found is not None
    refused = found.append(memoryview(batch), [decode_header(batch)], NOW_MS)
    assert refused.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "no transactional id" in str(refused.error_message)


def _ends(broker: Broker, isolation_level: int, timestamp: int) -> Outcome:
    item = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    asked = {
        "replica_id": -1,
        "isolation_level": isolation_level,
        "topics": [{"name": "t", "partitions": [item]}],
    }
    return ask(broker, ApiKey.LIST_OFFSETS, 7, messages.encode_request(ApiKey.LIST_OFFSETS, 7, asked))


@pytest.mark.parametrize("timestamp", [LATEST, AT, -3])
def test_the_end_is_told_once_what_is_acknowledged_can_be_seen(
    broker: Broker, partition: Partition, timestamp: int
) -> None:
    write(partition, 1, 0, time_ms=AT, is_synced=False)
    assert isinstance(_ends(broker, fetch.READ_COMMITTED, LATEST), Answer), "for whom nothing is due"
    answer = carried_out(_ends(broker, fetch.READ_UNCOMMITTED, timestamp))
    (found,) = messages.decode_response(ApiKey.LIST_OFFSETS, 7, answer).topics[0].partitions
    assert found.offset == (1 if timestamp == LATEST else 0)
    assert not partition.owes_sight
    if timestamp != -3:
        assert isinstance(_ends(broker, fetch.READ_UNCOMMITTED, timestamp), Answer), (
            "and nobody waits any more"
        )


def test_a_fetch_that_does_not_wait_for_rows_waits_for_those_that_are_acknowledged(
    broker: Broker, partition: Partition
) -> None:
    write(partition, 1, 0, is_synced=False)
    body = fetch.encode_request(11, request(fetch.READ_UNCOMMITTED, 0, 0, 1))
    frame = memoryview(encode_request_header(ApiKey.FETCH, 11, 7, "c") + body)
    outcome = handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: 10**7).outcome
    (found,) = fetch.decode_response(11, carried_out(outcome)).partitions
    assert (offsets_of(found), found.high_watermark) == ([0], 1)
    write(partition, 1, 1, is_synced=False)
    assert isinstance(ask(broker, ApiKey.FETCH, 11, body), Answer), "there is something to read"
    committed = fetch.encode_request(11, request(fetch.READ_COMMITTED, 1, 0, 1))
    assert isinstance(ask(broker, ApiKey.FETCH, 11, committed), Answer)
