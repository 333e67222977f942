"""Batches that are compressed again: in order, bounded, judged when they are appended, and gone without a trace."""

from __future__ import annotations

import random
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.conftest import ServerProcess
from tests.server.test_plain_produce import DIALLED, NOW_MS, Server

from semel.config import ServerSettings
from semel.core.log.watermarks import FetchIsolation
from semel.errors import ErrorCode
from semel.record.batch import Record, assemble_batch, decode_records, encode_batch, scan_batches
from semel.record.compression import Compression
from semel.server.outcome import AfterSync, Answer, Compressing, Handled, framed
from semel.server.router import handle_next
from semel.server.storage.aside import at_once
from semel.server.storage.outcome import Slice
from semel.server.storage.partition import Partition
from semel.wire import fetch, messages, produce
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, decode_response_header, encode_request_header
from semel.wire.messages import Fields
from semel.wire.produce import ProducedPartition, ProducePartition, ProduceRequest

GZIP, NONE, ZSTD = Compression.GZIP, Compression.NONE, Compression.ZSTD
VERSION = 12
FrameReader = Callable[[socket.socket], bytes]


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(durable=True)
    yield running
    running.close()


class Connection:
    """What a shell does with the requests of one, as slowly as it is told to."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.waiting: tuple[Compressing, Handled] | None = None  # nothing begins behind it
        self.results: list[list[ProducedPartition]] = []
        self._reads: deque[list[memoryview]] = deque()

    def send(self, *requests: ProduceRequest, version: int = VERSION) -> None:
        """All in one read."""
        self._reads.append([frame(request, version) for request in requests])
        self._begin()

    def go_on(self) -> None:
        """The one that waits has its turn."""
        assert self.waiting is not None
        (outcome, handled), self.waiting = self.waiting, None
        self._end(handled._replace(outcome=at_once(outcome.begin(lambda: NOW_MS))))
        self._begin()

    def finish(self) -> list[list[ProducedPartition]]:
        while self.waiting is not None:
            self.go_on()
        return self.results

    def _begin(self) -> None:
        while self._reads and self.waiting is None:
            frames = self._reads[0]
            if not frames:
                self._reads.popleft()
                continue
            handled = handle_next(self.server.broker, frames, DIALLED, NOW_MS, lambda: 1 << 20)
            del frames[: handled.requests]
            if isinstance(handled.outcome, Compressing):
                self.waiting = (handled.outcome, handled)
            else:
                self._end(handled)

    def _end(self, handled: Handled) -> None:
        outcome = handled.outcome
        if isinstance(outcome, AfterSync):
            for partition in outcome.partitions:
                partition.sync()
            outcome = outcome.answer if outcome.finish is None else outcome.finish()
        assert isinstance(outcome, Answer)
        content = b"".join(bytes(part) for part in framed(outcome, handled))
        while content:
            size_bytes = int.from_bytes(content[:4], "big")
            answer, content = content[4 : 4 + size_bytes], content[4 + size_bytes :]
            _, body_at = decode_response_header(answer, ApiKey.PRODUCE, VERSION)
            self.results.append(produce.decode_response(VERSION, answer[body_at:])[0])


def frame(request: ProduceRequest, version: int = VERSION) -> memoryview:
    head = encode_request_header(ApiKey.PRODUCE, version, 1, "c")
    return memoryview(bytearray(b"".join((head, *produce.encode_request(version, request)))))


def rows(
    topic: str,
    value: bytes,
    codec: Compression = NONE,
    *,
    partition: int = 0,
    acks: int = -1,
    sequence: int = -1,
) -> ProduceRequest:
    producer = {} if sequence < 0 else {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
    batch = encode_batch([Record(0, NOW_MS, None, value)], compression=codec, **producer)
    return ProduceRequest(None, acks, 1000, [ProducePartition(topic, partition, memoryview(batch))])


def partition_of(server: Server, topic: str, number: int = 0) -> Partition:
    found = server.storage.partition(topic, number)
    assert found is not None
    return found


def stored(server: Server, topic: str, number: int = 0) -> list[tuple[Compression, bytes | None]]:
    partition = partition_of(server, topic, number)
    piece = partition.read(partition.log_start_offset, 1 << 24, FetchIsolation.LOG_END)
    assert isinstance(piece, Slice)
    return [
        (header.compression, record.value)
        for batch, header in scan_batches(piece.read())
        for record in decode_records(batch)
    ]


def codes(results: Sequence[Sequence[ProducedPartition]]) -> list[str]:
    return [ErrorCode.of(one.error_code).name for partitions in results for one in partitions]


SENT = st.lists(
    st.tuples(
        st.sampled_from(["t", "z", "z", "z", "several"]),
        st.sampled_from([NONE, GZIP, ZSTD]),
        st.integers(0, 1),
    ),
    max_size=12,
)


@settings(max_examples=settings().max_examples // 8)
@given(st.lists(st.tuples(SENT, st.integers(0, 3)), min_size=1, max_size=4))
def test_each_partition_has_its_batches_in_the_order_of_their_requests(
    reads: list[tuple[list[tuple[str, Compression, int]], int]],
) -> None:
    server = Server(durable=True)
    expected: dict[tuple[str, int], list[bytes]] = {
        (topic, number): [] for topic in "tz" for number in (0, 1)
    }
    try:
        line, sent = Connection(server), 0
        for read, turns in reads:
            requests = []
            for topic, codec, number in read:
                sent += 1
                value = b"row %d" % sent
                partitions = []
                for name in "tz" if topic == "several" else topic:
                    partitions += rows(name, value, codec, partition=number).partitions
                    expected[name, number].append(value)
                requests.append(ProduceRequest(None, -1, 1000, partitions))
            line.send(*requests)
            for _ in range(turns):
                if line.waiting is not None:
                    line.go_on()
        assert set(codes(line.finish())) <= {"NONE"}
        for (topic, number), values in expected.items():
            found = stored(server, topic, number)
            assert [value for _, value in found] == values
            assert topic == "t" or {codec for codec, _ in found} <= {GZIP}
        assert server.broker.compressing_bytes == 0
    finally:
        server.close()


def test_what_has_the_codec_does_not_wait(server: Server) -> None:
    line = Connection(server)
    line.send(rows("z", b"1", GZIP), rows("z", b"2", GZIP))
    assert line.waiting is None
    line.send(rows("z", b"3"), rows("z", b"4", GZIP))
    assert line.waiting is not None
    line.send(rows("z", b"5", GZIP))
    beside = Connection(server)
    beside.send(rows("z", b"6", GZIP, partition=1))
    assert (line.results[2:], codes(beside.results)) == ([], ["NONE"]), "only those behind it wait"
    line.finish()
    assert [value for _, value in stored(server, "z")] == [b"1", b"2", b"3", b"4", b"5"]


def test_nothing_is_answered_before_it_is_synced(server: Server) -> None:
    handled = handle_next(server.broker, [frame(rows("z", b"1"))], DIALLED, NOW_MS, lambda: 1 << 20)
    assert isinstance(handled.outcome, Compressing)
    then = at_once(handled.outcome.begin(lambda: NOW_MS))
    assert isinstance(then, AfterSync)
    assert (partition_of(server, "z").log_end_offset, partition_of(server, "z").high_watermark) == (1, 0)


def test_batches_are_judged_when_their_turn_has_come(server: Server) -> None:
    line = Connection(server)
    line.send(*(rows("z", b"%d" % n, sequence=n) for n in (0, 1, 0, 3, 2)))
    assert codes(line.finish()) == ["NONE", "NONE", "NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER", "NONE"]
    assert [one.base_offset for results in line.results for one in results] == [0, 1, 0, -1, 2]


def test_a_setting_that_changes_meanwhile_keeps_the_order(server: Server) -> None:
    line = Connection(server)
    line.send(rows("z", b"1"))
    at_once(server.broker.alter_config("z", {"compression.type": None}, NOW_MS))
    line.send(rows("z", b"2"))
    line.finish()
    line.send(rows("z", b"3"))
    assert stored(server, "z") == [(GZIP, b"1"), (NONE, b"2"), (NONE, b"3")]


def test_a_topic_that_is_deleted_meanwhile_is_unknown(server: Server) -> None:
    line, other = Connection(server), Connection(server)
    line.send(rows("z", b"1"))
    other.send(rows("z", b"2", acks=1))
    at_once(server.broker.delete_topic("z", NOW_MS))
    at_once(server.broker.create_topic("z", 1, {}, NOW_MS))
    assert codes(line.finish()) == codes(other.finish()) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert partition_of(server, "z").log_end_offset == 0, "a topic of the same name is another one"
    assert server.broker.compressing_bytes == 0


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_a_batch_that_is_sent_again_meanwhile_is_stored_once(server: Server, first_to_end: int) -> None:
    """Its producer has lost the connection; what was sent on it is carried out all the same."""
    lost, other = Connection(server), Connection(server)
    sent = [rows("z", b"%d" % n, sequence=n) for n in range(3)]
    lost.send(*sent)
    other.send(*sent)
    for one in (lost, other) if first_to_end == 0 else (other, lost):
        assert [result.base_offset for results in one.finish() for result in results] == [0, 1, 2]
    assert stored(server, "z") == [(GZIP, b"%d" % n) for n in range(3)]


def test_a_batch_is_stamped_when_it_is_appended(server: Server) -> None:
    """Else one that overtakes it, as it has the codec, would be older than what is in front of it."""
    at_once(server.broker.alter_config("z", {"message.timestamp.type": "LogAppendTime"}, NOW_MS))
    handled = handle_next(server.broker, [frame(rows("z", b"1"))], DIALLED, NOW_MS, lambda: 1 << 20)
    assert isinstance(handled.outcome, Compressing)
    then = at_once(handled.outcome.begin(lambda: NOW_MS + 7))
    assert isinstance(then, AfterSync)
    (partition,) = then.partitions
    partition.sync()
    piece = partition_of(server, "z").read(0, 1 << 20, FetchIsolation.LOG_END)
    assert isinstance(piece, Slice)
    assert [header.max_timestamp for _, header in scan_batches(piece.read())] == [NOW_MS + 7]


def test_a_bound_that_is_lowered_meanwhile_holds(server: Server) -> None:
    line = Connection(server)
    line.send(rows("z", bytes(range(256)) * 2))
    at_once(server.broker.alter_config("z", {"max.message.bytes": "100"}, NOW_MS))
    assert codes(line.finish()) == ["MESSAGE_TOO_LARGE"]
    assert stored(server, "z") == []


def test_what_becomes_too_large_when_it_is_stored_otherwise_is_refused(server: Server) -> None:
    at_once(server.broker.alter_config("z", {"compression.type": "uncompressed"}, NOW_MS))
    line = Connection(server)
    line.send(rows("z", bytes(2_000_000), GZIP), rows("z", b"small", GZIP))
    assert codes(line.finish()) == ["MESSAGE_TOO_LARGE", "NONE"]
    assert stored(server, "z") == [(NONE, b"small")]


def test_a_request_of_several_partitions_keeps_its_order(server: Server) -> None:
    """Also where one partition is named twice, and only the first of its batches is in another codec."""
    line = Connection(server)
    partitions = [*rows("z", b"1").partitions, *rows("z", b"2", GZIP).partitions, *rows("t", b"3").partitions]
    line.send(ProduceRequest(None, -1, 1000, partitions))
    assert (stored(server, "z"), stored(server, "t")) == ([], [])
    assert codes(line.finish()) == ["NONE"] * 3
    assert stored(server, "z") == [(GZIP, b"1"), (GZIP, b"2")]
    assert stored(server, "t") == [(NONE, b"3")]


def test_a_bad_batch_does_not_spoil_the_others(server: Server) -> None:
    line = Connection(server)
    rubbish = assemble_batch(b"\x77" * 40, record_count=2, last_offset_delta=1)
    bad = ProduceRequest(None, -1, 1000, [ProducePartition("z", 0, memoryview(rubbish))])
    line.send(rows("z", b"1"), bad, rows("z", b"2"))
    assert codes(line.finish()) == ["NONE", "INVALID_RECORD", "NONE"]
    assert [value for _, value in stored(server, "z")] == [b"1", b"2"]


def test_what_waits_is_bounded() -> None:
    server = Server(durable=True, settings=ServerSettings(queued_max_request_bytes=1 << 20))
    try:
        first, second, third = Connection(server), Connection(server), Connection(server)
        large = b"v" * 600_000
        first.send(rows("z", large))
        second.send(rows("z", large), rows("z", b"small"))
        third.send(rows("z", large, acks=1))
        assert codes(third.results) == ["NOT_ENOUGH_REPLICAS"], "it had not to wait for that"
        assert codes(first.finish()) == ["NONE"]
        assert codes(second.finish()) == ["NOT_ENOUGH_REPLICAS", "NONE"]
        third.send(rows("z", large))
        assert codes(third.finish())[-1] == "NONE"
    finally:
        server.close()


def test_a_request_that_ends_in_a_defect_leaves_the_line(server: Server) -> None:
    handled = handle_next(
        server.broker, [frame(rows("z", b"1")), frame(rows("z", b"2"))], DIALLED, NOW_MS, lambda: 1 << 20
    )
    assert isinstance(handled.outcome, Compressing)
    change = handled.outcome.begin(lambda: NOW_MS)
    change.send(None)
    change.close()
    assert server.broker.compressing_bytes == 0


# By the real shell.


class Talk:
    """One connection to a real server."""

    def __init__(self, connection: socket.socket, read: FrameReader) -> None:
        self._connection, self._read = connection, read

    def ask(self, api_key: ApiKey, version: int, fields: Fields) -> Any:
        head = encode_request_header(api_key, version, 7, "c")
        body = messages.encode_request(api_key, version, fields)
        self._connection.sendall(INT32.pack(len(head) + len(body)) + head + body)
        answer = self._read(self._connection)
        _, body_at = decode_response_header(answer, api_key, version)
        return messages.decode_response(api_key, version, answer[body_at:])

    def make_topic(self, name: str, **configs: str) -> None:
        settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": []}
        fields = {"topics": [topic | {"configs": settings}], "timeout": 1000, "validate_only": False}
        assert self.ask(ApiKey.CREATE_TOPICS, 7, fields).topics[0].error_code == 0

    def send(self, *requests: ProduceRequest) -> None:
        """In one write."""
        frames = [frame(request) for request in requests]
        self._connection.sendall(b"".join(INT32.pack(len(one)) + bytes(one) for one in frames))

    def results(self, answers: int) -> list[ProducedPartition]:
        found = []
        for _ in range(answers):
            answer = self._read(self._connection)
            assert answer, "the server closed the connection"
            _, body_at = decode_response_header(answer, ApiKey.PRODUCE, VERSION)
            found += produce.decode_response(VERSION, answer[body_at:])[0]
        return found

    def read_log(self, topic: str) -> list[tuple[Compression, bytes | None]]:
        asked = fetch.FetchRequest(0, 1, 1 << 26, 0, [fetch.FetchPartition(topic, 0, 0, 1 << 26)])
        head = encode_request_header(ApiKey.FETCH, 11, 7, "c")
        body = fetch.encode_request(11, asked)
        self._connection.sendall(INT32.pack(len(head) + len(body)) + head + bytes(body))
        answer = self._read(self._connection)
        _, body_at = decode_response_header(answer, ApiKey.FETCH, 11)
        records = fetch.decode_response(11, answer[body_at:]).partitions[0].records
        return [
            (header.compression, record.value)
            for batch, header in scan_batches(records or b"")
            for record in decode_records(batch)
        ]


@pytest.mark.thorough
def test_a_pipeline_of_all_kinds_is_stored_and_answered_in_order(
    lasting_server: ServerProcess, frame_reader: FrameReader
) -> None:
    """More than a connection may have in the line at a time, so that it is not read for a while."""
    values = [b"%d " % n + bytes(100_000 if n % 3 else 10) for n in range(60)]
    with lasting_server.connect() as connection, lasting_server.connect() as other:
        talk = Talk(connection, frame_reader)
        talk.make_topic("piped", compression_type="gzip", compression_gzip_level="1")
        talk.send(*(rows("piped", value, acks=(-1, 1, 0)[n % 3]) for n, value in enumerate(values)))
        Talk(other, frame_reader).make_topic("beside")  # nobody else waits
        answered = talk.results(len(values) - len(values[2::3]))
        assert [(one.error_code, one.base_offset) for one in answered] == [
            (0, n) for n in range(len(values)) if n % 3 != 2
        ]
        talk.send(rows("piped", b"last", GZIP))
        talk.results(1)  # and what was not answered is visible by now, too
        assert talk.read_log("piped") == [(GZIP, value) for value in [*values, b"last"]]


@pytest.mark.slow
def test_one_who_leaves_takes_nothing_of_the_others_along(
    lasting_server: ServerProcess, frame_reader: FrameReader
) -> None:
    large = [rows("left", b"%d" % n + bytes(200_000)) for n in range(10)]
    with lasting_server.connect() as connection:
        talk = Talk(connection, frame_reader)
        talk.make_topic("left", compression_type="zstd")
        with lasting_server.connect() as leaving:
            Talk(leaving, frame_reader).ask(
                ApiKey.LIST_OFFSETS, 6, {"replica_id": -1, "isolation_level": 0, "topics": []}
            )
            Talk(leaving, frame_reader).send(*large)
        talk.send(rows("left", b"mine"))
        assert codes([talk.results(1)]) == ["NONE"]
        assert (ZSTD, b"mine") in talk.read_log("left")
    assert "Traceback" not in lasting_server.log


@pytest.mark.thorough
def test_large_requests_wait_for_room_instead_of_being_refused(
    start_server: Callable[..., ServerProcess], frame_reader: FrameReader
) -> None:
    server = start_server("-Xqueued.max.request.bytes=1048576", "-Xfirst.request.max.bytes=1048576")
    value = random.Random(7).randbytes(300_000) * 2  # which takes its codec a while
    with server.connect() as connection, ExitStack() as stack:
        Talk(connection, frame_reader).make_topic(
            "busy", compression_type="zstd", compression_zstd_level="19"
        )
        talks = [Talk(stack.enter_context(server.connect()), frame_reader) for _ in range(8)]
        senders = [Thread(target=talk.send, args=(rows("busy", value),)) for talk in talks]
        for sender in senders:
            sender.start()
        assert codes([talk.results(1) for talk in talks]) == ["NONE"] * 8
        for sender in senders:
            sender.join()


@pytest.mark.thorough
def test_an_unanswered_batch_that_is_refused_closes_the_connection(
    lasting_server: ServerProcess, frame_reader: FrameReader
) -> None:
    rubbish = assemble_batch(b"\x77" * 40, record_count=2, last_offset_delta=1)
    with lasting_server.connect() as connection:
        talk = Talk(connection, frame_reader)
        talk.make_topic("shut", compression_type="lz4")
        talk.send(ProduceRequest(None, 0, 1000, [ProducePartition("shut", 0, memoryview(rubbish))]))
        assert frame_reader(connection) == b""


@pytest.mark.thorough
def test_who_stops_the_server_finds_what_was_answered(
    start_server: Callable[..., ServerProcess], frame_reader: FrameReader
) -> None:
    server = start_server()
    values = [b"%d" % n + bytes(50_000) for n in range(40)]
    with server.connect() as connection:
        talk = Talk(connection, frame_reader)
        talk.make_topic("stopped", compression_type="gzip")
        talk.send(*(rows("stopped", value) for value in values))
        talk.results(1)
        assert server.stop() == 0
        answered = 1
        while frame_reader(connection):
            answered += 1
    again = start_server()
    with again.connect() as connection:
        stored_rows = Talk(connection, frame_reader).read_log("stopped")
    assert len(stored_rows) >= answered
    assert stored_rows == [(GZIP, value) for value in values][: len(stored_rows)]
