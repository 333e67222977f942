"""Fetch requests of the plain form get, byte for byte, the answers that the general handler gives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.config import Address, ServerSettings
from semel.core.log.watermarks import Watermarks
from semel.record.batch import Record, encode_batch, scan_batches, validate_batch
from semel.server.broker import Broker
from semel.server.outcome import Answer, AnswerInFiles, Call, Delayed, Handled, framed
from semel.server.router import handle, handle_next
from semel.server.storage.aside import at_once
from semel.server.storage.settings import StorageSettings
from semel.server.storage.storage import Storage
from semel.types import TopicPartition
from semel.wire import fetch
from semel.wire.api import SERVED, ApiKey
from semel.wire.fetch import FetchPartition, FetchRequest
from semel.wire.frames import decode_request_header, encode_request_header

NOW_MS = 1_700_000_000_000
DIALLED = Address("127.0.0.1", 9092)
SERVED_FETCH = SERVED[ApiKey.FETCH]
SIZES = [100, 20_000, 150_000, 90_000, 100, 140_000, 130_000, 50_000] * 2
ANSWER_BYTES_MAX = 1 << 20
SYNCED = len(SIZES) - 3  # of the first partition; the rest is there, and not to be seen yet

Limits = tuple[int, int, int, int]
Item = tuple[int, int, int, int, int]

limits = st.tuples(
    st.sampled_from([0, 0, 0, 500, -1]),
    st.sampled_from([0, 1, 1, 200_000, 10**9]),
    st.sampled_from([0, 100, 160_000, 500_000, 2**31 - 1, -1]),
    st.sampled_from([0, 1]),
)
items = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 2, 9]),
        st.sampled_from([-1, -1, -1, 0, 0, 1]),
        st.integers(0, len(SIZES)) | st.sampled_from([-1, 99]),
        st.sampled_from([0, 100, 120_000, 300_000, 2**31 - 1, -1]),
        st.sampled_from([-1, -1, 0, 0, 1, -2]),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Partition 0 has several segments and an end that is not synced, 1 begins at offset 3, 2 is empty."""
    folder = tmp_path_factory.mktemp("data")
    storage = Storage.open(folder, None, StorageSettings(durable=True), now_ms=NOW_MS)
    broker = Broker(ServerSettings(), storage)
    at_once(broker.create_topic("t", 3, {"segment.bytes": "400000"}, NOW_MS))
    for number in (0, 1):
        partition = storage.find(TopicPartition("t", number))
        assert partition is not None
        for place, size in enumerate(SIZES):
            batch = memoryview(encode_batch([Record(0, NOW_MS, None, os.urandom(size))]))
            assert not partition.append(batch, [validate_batch(batch)], NOW_MS).error_code
            if number or place < SYNCED:
                partition.sync()
        if number:
            assert not at_once(partition.delete_records(3))
    yield broker
    storage.close(now_ms=NOW_MS)


def frame_of(
    broker: Broker, version: int, limits: Limits, items: list[Item], *, known: bool = True
) -> memoryview:
    topic = broker.storage.topics.get("t")
    assert topic is not None
    name = ("t" if known else "nowhere") if version < 13 else (topic.topic_id if known else UUID(int=9))
    partitions = [
        FetchPartition(name, n, offset, size, epoch, last) for n, epoch, offset, size, last in items
    ]
    head = encode_request_header(ApiKey.FETCH, version, 77, "c")
    return memoryview(head + fetch.encode_request(version, FetchRequest(*limits, partitions)))


def answer_of(handled: Handled) -> bytes | Delayed:
    outcome = handled.outcome
    if isinstance(outcome, AnswerInFiles):
        outcome = outcome.read()
    if isinstance(outcome, Delayed):
        return outcome
    assert isinstance(outcome, Answer)
    return b"".join(framed(outcome, handled))


def generally(broker: Broker, frame: memoryview) -> bytes | Delayed:
    header, body_at = decode_request_header(frame)
    call = Call(
        header.api_key, header.api_version, header.client_id, DIALLED, NOW_MS, lambda: ANSWER_BYTES_MAX
    )
    outcome = handle(broker, call, frame[body_at:])
    return answer_of(Handled(outcome, 1, header.api_key, header.api_version, header.correlation_id))


def counted(broker: Broker) -> tuple[Counter[tuple[int, int]], int]:
    counters = broker.counters
    found = Counter(counters.requests), counters.fetched_bytes
    counters.requests.clear()
    counters.fetched_bytes = 0
    return found


@settings(deadline=None)
@given(
    st.integers(SERVED_FETCH.version_min, SERVED_FETCH.version_max),
    limits,
    items,
    st.sampled_from([True, True, True, False]),
)
def test_answered_as_the_general_handler_does(
    broker: Broker, version: int, limits: Limits, items: list[Item], known: bool
) -> None:
    frame = frame_of(broker, version, limits, items, known=known)
    counted(broker)
    plainly = answer_of(handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: ANSWER_BYTES_MAX))
    counted_plainly = counted(broker)
    expected = generally(broker, frame)
    if isinstance(expected, Delayed):
        assert isinstance(plainly, Delayed)
        assert (plainly.keys, plainly.wait_ms) == (expected.keys, expected.wait_ms)
    else:
        assert plainly == expected
    assert counted_plainly == counted(broker)


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_the_plain_path_is_taken(broker: Broker, version: int) -> None:
    """Else the other test would compare the general handler with itself."""
    items = [(0, -1, 0, 10**6, -1), (1, -1, 3, 100, 0)]
    frame = frame_of(broker, version, (0, 1, 10**6, 0), items)
    handled = handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: ANSWER_BYTES_MAX)
    assert isinstance(handled.outcome, AnswerInFiles)
    frame = frame_of(broker, version, (0, 1, 10**6, 0), [(0, -1, 0, 1000, -1)])
    handled = handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: ANSWER_BYTES_MAX)
    assert isinstance(handled.outcome, Answer) and handled.outcome.is_framed


@pytest.mark.parametrize(
    ("isolation_level", "batches"), [(fetch.READ_UNCOMMITTED, 4), (fetch.READ_COMMITTED, 2)]
)
def test_by_either_door_a_reader_of_committed_rows_stops_at_the_last_stable_offset(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, isolation_level: int, batches: int
) -> None:
    """Whatever holds it back."""
    monkeypatch.setattr(Watermarks, "last_stable_offset", 2)
    monkeypatch.setattr(Watermarks, "high_watermark", 4)
    frame = frame_of(
        broker, 12, (0, 1, 10**7, isolation_level), [(0, -1, 0, 10**7, -1), (0, -1, 1, 10**7, 0)]
    )
    handled = handle_next(broker, (frame,), DIALLED, NOW_MS, lambda: ANSWER_BYTES_MAX)
    for answer in (answer_of(handled), generally(broker, frame)):
        assert isinstance(answer, bytes)
        first, second = fetch.decode_response(12, memoryview(answer)[9:]).partitions
        assert (first.high_watermark, first.last_stable_offset) == (4, 2)
        for found, start in ((first, 0), (second, 1)):
            offsets = [header.base_offset for _, header in scan_batches(found.records)]
            assert offsets == list(range(start, batches))
