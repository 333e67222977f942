"""Bounds: what a hostile or broken client can do, and that the others feel nothing of it."""

from __future__ import annotations

import os
import socket
import struct
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from semel.record.batch import Record, encode_batch
from semel.wire import api_versions, fetch, messages, produce
from semel.wire.api import SERVED, ApiKey
from semel.wire.frames import decode_response_header, encode_request_header

FrameReader = Callable[[socket.socket], bytes]


def request(api_key: ApiKey, version: int, correlation_id: int, body: bytes) -> bytes:
    head = encode_request_header(api_key, version, correlation_id, "test")
    return struct.pack(">i", len(head) + len(body)) + head + body


def ask_versions(connection: socket.socket, read: FrameReader, correlation_id: int = 1) -> dict[int, Any]:
    body = bytes(api_versions.encode_request(3, "test", "1"))
    connection.sendall(request(ApiKey.API_VERSIONS, 3, correlation_id, body))
    frame = read(connection)
    assert frame, "the server closed the connection"
    assert decode_response_header(frame, ApiKey.API_VERSIONS, 3) == (correlation_id, 4)
    return api_versions.decode_response(3, frame[4:]).ranges


@pytest.mark.slow
def test_what_is_advertised_is_what_is_served(lasting_server: Any, frame_reader: FrameReader) -> None:
    with lasting_server.connect() as connection:
        ranges = ask_versions(connection, frame_reader)
    assert ranges.keys() == {int(key) for key in SERVED}
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ranges[ApiKey.FETCH] == (4, 18)


@pytest.mark.slow
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    lasting_server: Any, frame_reader: FrameReader
) -> None:
    with lasting_server.connect() as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        frame = frame_reader(connection)
        assert frame[:4] == struct.pack(">i", 7)
        answer = api_versions.decode_response(99, frame[4:])
        assert (answer.error_code, answer.ranges) == (35, {18: (0, 4)})
        ask_versions(connection, frame_reader)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n" * 10, id="http"),
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 0), id="no header"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="huge length"),
        pytest.param(struct.pack(">i", 600_000), id="too large before the first good request"),
        pytest.param(struct.pack(">ihhi", 8, 777, 0, 1), id="unknown API"),
        pytest.param(struct.pack(">ihhih", 10, 0, 9, 1, -1), id="body is missing"),
        pytest.param(struct.pack(">ihhih", 10, 3, 12, 1, 500), id="client id leaves the frame"),
        pytest.param(struct.pack(">ihhih", 10, 0, 2, 1, -1), id="version that is not served"),
    ],
)
def test_garbage_costs_its_sender_the_connection_and_nobody_else(
    lasting_server: Any, frame_reader: FrameReader, garbage: bytes
) -> None:
    with lasting_server.connect() as other, lasting_server.connect() as hostile:
        ask_versions(other, frame_reader)
        hostile.sendall(garbage)
        assert frame_reader(hostile) == b""
        ask_versions(other, frame_reader, 2)
    assert "Traceback" not in lasting_server.log


def test_half_a_frame_is_closed_in_time(start_server: Any, frame_reader: FrameReader) -> None:
    server = start_server("-X", "max.frame.arrival.ms=300")
    with server.connect() as slow, server.connect() as other:
        slow.sendall(struct.pack(">ih", 1000, 18))
        assert frame_reader(slow) == b""
        ask_versions(other, frame_reader)
    assert "did not arrive within" in server.log


def test_an_idle_connection_is_closed(start_server: Any, frame_reader: FrameReader) -> None:
    server = start_server("-X", "connections.max.idle.ms=300")
    with server.connect() as idle:
        ask_versions(idle, frame_reader)
        assert frame_reader(idle) == b""


def test_connections_are_bounded(start_server: Any, frame_reader: FrameReader) -> None:
    server = start_server("-X", "max.connections=2")
    with server.connect() as first, server.connect() as second:
        ask_versions(first, frame_reader)
        ask_versions(second, frame_reader)
        with server.connect() as third:
            assert frame_reader(third) == b""
        ask_versions(first, frame_reader)


def test_a_frame_byte_by_byte_is_understood(lasting_server: Any, frame_reader: FrameReader) -> None:
    body = bytes(api_versions.encode_request(3, "test", "1"))
    with lasting_server.connect() as connection:
        for byte in request(ApiKey.API_VERSIONS, 3, 5, body):
            connection.send(bytes([byte]))
        assert frame_reader(connection)[:4] == struct.pack(">i", 5)


def produce_body(value: bytes, acks: int = -1) -> bytes:
    batch = memoryview(encode_batch([Record(0, 1, None, value)]))
    item = produce.ProducePartition("t", 0, batch)
    return b"".join(produce.encode_request(9, produce.ProduceRequest(None, acks, 1000, [item])))


def make_topic(connection: socket.socket, read: FrameReader) -> None:
    wanted = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
    fields = {**wanted, "include_topic_authorized_operations": False}
    fields["include_cluster_authorized_operations"] = False
    body = messages.encode_request(ApiKey.METADATA, 9, fields)
    connection.sendall(request(ApiKey.METADATA, 9, 1, body))
    assert read(connection)


def test_answers_keep_the_order_of_pipelined_requests(server: Any, frame_reader: FrameReader) -> None:
    """A long poll, appends and a question in one write: the answers come in that order all the same."""
    with server.connect() as connection:
        make_topic(connection, frame_reader)
        poll = fetch.FetchRequest(200, 10**6, 10**6, 0, [fetch.FetchPartition("t", 0, 0, 10**6)])
        sent = request(ApiKey.FETCH, 11, 10, bytes(fetch.encode_request(11, poll)))
        for n in range(11, 200):
            sent += request(ApiKey.PRODUCE, 9, n, produce_body(b"%d" % n))
        versions = bytes(api_versions.encode_request(3, "test", "1"))
        sent += request(ApiKey.API_VERSIONS, 3, 200, versions)
        connection.sendall(sent)
        answered = [struct.unpack_from(">i", frame_reader(connection))[0] for _ in range(10, 201)]
    assert answered == list(range(10, 201))


def test_a_large_batch_stays_between_the_small_ones_around_it(server: Any, frame_reader: FrameReader) -> None:
    """Small ones may wait for those of other connections, and a large one never does."""
    with server.connect() as connection:
        make_topic(connection, frame_reader)
        values = [b"small", b"x" * 50_000, b"small", b"small", b"x" * 500_000, b"small"]
        connection.sendall(
            b"".join(request(ApiKey.PRODUCE, 9, n, produce_body(value)) for n, value in enumerate(values))
        )
        offsets = []
        for _ in values:
            (result,), _ = produce.decode_response(9, frame_reader(connection)[5:])
            offsets.append(result.base_offset)
    assert offsets == list(range(len(values)))


def test_a_large_batch_passes_and_a_client_that_does_not_read_is_held(
    start_server: Any, frame_reader: FrameReader
) -> None:
    server = start_server("-X", "message.max.bytes=5000000")
    with server.connect() as connection, server.connect() as other:
        make_topic(connection, frame_reader)
        connection.sendall(request(ApiKey.PRODUCE, 9, 1, produce_body(b"x" * 4_000_000)))
        results, _ = produce.decode_response(9, frame_reader(connection)[5:])
        assert results[0].error_code == 0
        question = fetch.FetchRequest(0, 1, 10**7, 0, [fetch.FetchPartition("t", 0, 0, 10**7)])
        asked = request(ApiKey.FETCH, 11, 2, bytes(fetch.encode_request(11, question)))
        connection.sendall(asked * 100)
        ask_versions(other, frame_reader)
        resident = memory_bytes(server.process.pid)
        assert resident < 300_000_000, resident
        for _ in range(100):
            assert len(frame_reader(connection)) > 4_000_000


def test_who_leaves_in_the_middle_of_an_answer_leaves_nothing_behind(
    start_server: Any, frame_reader: FrameReader
) -> None:
    server = start_server("-X", "message.max.bytes=5000000")
    with server.connect() as connection:
        make_topic(connection, frame_reader)
        connection.sendall(request(ApiKey.PRODUCE, 9, 1, produce_body(b"x" * 4_000_000)))
        results, _ = produce.decode_response(9, frame_reader(connection)[5:])
        assert results[0].error_code == 0
        question = fetch.FetchRequest(0, 1, 10**7, 0, [fetch.FetchPartition("t", 0, 0, 10**7)])
        asked = request(ApiKey.FETCH, 11, 2, bytes(fetch.encode_request(11, question)))
        open_files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        for _ in range(20):
            with server.connect() as leaving:
                leaving.sendall(asked * 3)
                assert leaving.recv(1000)
        give_up_s = time.monotonic() + 30
        while len(os.listdir(f"/proc/{server.process.pid}/fd")) > open_files:
            assert time.monotonic() < give_up_s
            ask_versions(connection, frame_reader)
        connection.sendall(asked)
        assert len(frame_reader(connection)) > 4_000_000
    assert "Traceback" not in server.log


def memory_bytes(process_id: int) -> int:
    with open(f"/proc/{process_id}/statm") as file:
        return int(file.read().split()[1]) * 4096


def commit_offset(connection: socket.socket, read: FrameReader, group: str, offset: int) -> None:
    item = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    item["committed_leader_epoch"] = -1
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": [item]}],
    }
    connection.sendall(
        request(ApiKey.OFFSET_COMMIT, 7, 1, messages.encode_request(ApiKey.OFFSET_COMMIT, 7, fields))
    )
    answer = messages.decode_response(ApiKey.OFFSET_COMMIT, 7, read(connection)[4:])
    assert int(answer.topics[0].partitions[0].error_code) == 0


def test_metrics_are_kafka_exporters(start_server: Any, frame_reader: FrameReader) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = start_server(f"--metrics=127.0.0.1:{port}")
    with server.connect() as connection:
        make_topic(connection, frame_reader)
        connection.sendall(request(ApiKey.PRODUCE, 9, 1, produce_body(b"x")))
        assert frame_reader(connection)
        commit_offset(connection, frame_reader, "readers", 0)
        commit_offset(connection, frame_reader, "resetters", -2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
    for line in (
        "kafka_brokers 1.0",
        'kafka_topic_partitions{topic="t"} 1.0',
        'kafka_topic_partition_current_offset{partition="0",topic="t"} 1.0',
        'kafka_topic_partition_oldest_offset{partition="0",topic="t"} 0.0',
        f'kafka_broker_info{{address="{server.bootstrap}",id="0"}} 1.0',
        'kafka_topic_partition_in_sync_replica{partition="0",topic="t"} 1.0',
        'kafka_topic_partition_under_replicated_partition{partition="0",topic="t"} 0.0',
        'kafka_consumergroup_current_offset{consumergroup="readers",partition="0",topic="t"} 0.0',
        'kafka_consumergroup_lag{consumergroup="readers",partition="0",topic="t"} 1.0',
        'semel_verdicts_total{error="NONE",of="batch",verdict="Append"} 1.0',
        "semel_leases 0.0",
        "semel_leases_expired_below 0.0",
        "semel_leases_refused_total 0.0",
        "semel_producers_reserved 0.0",
    ):
        assert line in page, page
    assert 'current_offset{consumergroup="resetters",partition="0",topic="t"} -2.0' in page
    assert 'lag{consumergroup="resetters"' not in page, "no place, so that nothing is behind it"
    assert "semel_fsync_seconds_bucket" in page
