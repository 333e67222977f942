"""Who makes the same mistake over and over is told of once, and is slowed down; nobody else is."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from semel.record.batch import Record, encode_batch
from semel.server.offenders import DELAY_S_MAX, FREE_OFFENCES, delay_s
from semel.wire import api_versions, produce
from semel.wire.api import ApiKey
from semel.wire.frames import encode_request_header

FrameReader = Callable[[socket.socket], bytes]


def frame(api_key: int, version: int, client_id: str, body: bytes = b"") -> bytes:
    text = client_id.encode()
    head = struct.pack(">hhih", api_key, version, 7, len(text)) + text
    return struct.pack(">i", len(head) + len(body)) + head + body


def greet(connection: socket.socket, read: FrameReader, software: str = "some-client") -> None:
    head = encode_request_header(ApiKey.API_VERSIONS, 3, 1, "greeting")
    body = bytes(api_versions.encode_request(3, software, "1.2"))
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    assert read(connection)


def lines(server: Any, *words: str) -> list[str]:
    return [line for line in server.log.splitlines() if all(word in line for word in words)]


def test_a_client_that_retries_an_unserved_version_is_slowed_and_told_of_once(
    server: Any, frame_reader: FrameReader
) -> None:
    connections, until_s = 0, time.monotonic() + 4
    while time.monotonic() < until_s:
        with server.connect() as connection:
            greet(connection, frame_reader)
            connection.sendall(frame(ApiKey.FETCH, 99, "stubborn"))
            assert frame_reader(connection) == b""
            connections += 1
    assert 4 <= connections <= 15
    assert len(lines(server, "FETCH", "99")) == 1, server.log
    assert len(server.log.splitlines()) <= 5, server.log
    server.stop()
    (left_out,) = lines(server, f"left out {connections - 1} lines")
    assert "FETCH" in left_out


@pytest.mark.thorough
def test_honest_clients_at_the_same_address_wait_for_nothing(
    start_server: Any, frame_reader: FrameReader
) -> None:
    server = start_server("-X", "max.connections.per.ip=30")
    stop = threading.Event()

    def offend() -> None:
        while not stop.is_set():
            with server.connect() as connection:
                try:
                    connection.sendall(frame(ApiKey.FETCH, 99, "stubborn"))
                    frame_reader(connection)
                except OSError:
                    pass

    offenders = [threading.Thread(target=offend) for _ in range(40)]
    for one in offenders:
        one.start()
    try:
        for _ in range(50):  # as offenders do, they would wait for 250 s
            with server.connect() as connection:
                connection.sendall(frame(ApiKey.API_VERSIONS, 99, "newer"))
                assert struct.unpack_from(">h", frame_reader(connection), 4) == (35,)
                greet(connection, frame_reader)
    finally:
        stop.set()
        for one in offenders:
            one.join()
    assert len(server.log.splitlines()) < 20, server.log
    assert server.stop() == 0


@pytest.mark.thorough
def test_who_is_held_holds_nothing_and_is_let_go(server: Any, frame_reader: FrameReader) -> None:
    before = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    leaving = [server.connect() for _ in range(400)]
    for connection in leaving:
        connection.sendall(frame(ApiKey.FETCH, 99, "stubborn") + b"x" * 1000)
    time.sleep(0.5)
    assert len(os.listdir(f"/proc/{server.process.pid}/fd")) - before <= 260
    for connection in leaving:
        connection.close()
    give_up_s = time.monotonic() + 20
    while len(os.listdir(f"/proc/{server.process.pid}/fd")) > before + 5:
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
    assert "Traceback" not in server.log


def test_the_wait_begins_late_grows_and_is_bounded() -> None:
    waits = [delay_s(offences) for offences in range(1, 2000)]
    assert waits[:FREE_OFFENCES] == [0.0] * FREE_OFFENCES
    assert waits[FREE_OFFENCES] > 0
    assert waits == sorted(waits)
    assert waits[-1] == DELAY_S_MAX


def test_the_log_says_who_wants_what_there_is_not(server: Any, frame_reader: FrameReader) -> None:
    consumer_group_heartbeat = 68
    for client_id in ("billing", "billing", "shipping\nforged line"):
        with server.connect() as connection:
            greet(connection, frame_reader, software="librdkafka")
            connection.sendall(frame(consumer_group_heartbeat, 1, client_id))
            assert frame_reader(connection) == b""
    (billing,) = lines(server, "CONSUMER_GROUP_HEARTBEAT", "'billing'")
    assert "WARNING" in billing and "librdkafka 1.2" in billing and "127.0.0.1" in billing
    (shipping,) = lines(server, "CONSUMER_GROUP_HEARTBEAT", "'shipping")
    assert "forged line" in shipping


def test_kafkas_way_to_refuse_without_an_answer_is_no_offence(server: Any, frame_reader: FrameReader) -> None:
    batch = memoryview(encode_batch([Record(0, 1, None, b"v")]))
    item = produce.ProducePartition("not-there", 0, batch)
    body = b"".join(produce.encode_request(9, produce.ProduceRequest(None, 0, 1000, [item])))
    head = encode_request_header(ApiKey.PRODUCE, 9, 1, "fire and forget")
    for _ in range(30):  # five seconds each, if it were one: no test may take that long
        with server.connect() as connection:
            connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            assert frame_reader(connection) == b""
    assert len(lines(server, "acks=0")) == 1
