"""Requests that are sent together take effect in their order, every time; who leaves in between leaves nothing."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.peers.metrics import metrics_of
from tests.peers.same_as_kafka import ConnectionClosed, Wire, asking
from tests.peers.same_as_kafka.asking import EARLIEST, LATEST, Request
from tests.peers.same_as_kafka.wire import NODE_ID

from semel.config import Address, ServerSettings
from semel.demo.verdicts import free_address
from semel.local import LocalLog
from semel.server.broker import Broker
from semel.server.in_order import InOrder
from semel.server.listener import Listener
from semel.server.outcome import AfterSync, Answer
from semel.server.storage.storage import Storage

TIMES = 20


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalLog(tmp_path_factory.mktemp("order"), broker_id=NODE_ID) as log:
        yield log.bootstrap


@pytest.fixture
def wire(bootstrap: str, request: pytest.FixtureRequest) -> Iterator[Wire]:
    with Wire(bootstrap, re.sub(r"\W", "-", request.node.name)) as wire:
        yield wire


def together(wire: Wire, *requests: Request) -> list[Any]:
    wire.send_together(*requests)
    return [wire.receive() for _ in requests]


@pytest.mark.slow
def test_a_topic_is_known_behind_its_making_and_unknown_behind_its_end(wire: Wire) -> None:
    for _ in range(TIMES):
        topic = wire.name()
        _, made, _, gone = together(
            wire,
            asking.create(topic),
            asking.metadata(topic),
            asking.delete(topic),
            asking.metadata(topic),
        )
        assert made.topics[0].error_code.name == "none"
        assert gone.topics[0].error_code.name == "unknown_topic_or_partition"


@pytest.mark.slow
def test_rows_go_into_a_topic_that_is_made_in_front_of_them(wire: Wire) -> None:
    for size in (10, 900_000):  # the larger one arrives in a buffer of its own, and waits there
        topic = wire.name()
        value = b"x" * size
        _, stored, listed, fetched = together(
            wire,
            asking.create(topic),
            asking.produce(topic, value),
            asking.list_offsets(topic, LATEST),
            asking.fetch(topic, 0),
        )
        assert stored.responses[0].partition_responses[0].error_code.name == "none"
        assert asking.offset(listed) == 1
        assert value in bytes(fetched.responses[0].partitions[0].records)


@pytest.mark.parametrize("acks", [-1, 1])
def test_an_end_offset_counts_the_rows_in_front_of_the_question(wire: Wire, acks: int) -> None:
    topic = wire.new_topic()
    asked = [asking.produce(topic, b"row", acks=acks), asking.list_offsets(topic, LATEST)]
    answers = together(wire, *asked * 300)
    assert [asking.offset(one) for one in answers[1::2]] == list(range(1, 301))


def test_rows_without_an_answer_count_too(wire: Wire) -> None:
    topic = wire.new_topic()
    for n in range(1, TIMES + 1):
        asking.send_unanswered(wire, asking.produce(topic, b"row", acks=0))
        api, version, fields = asking.list_offsets(topic, LATEST)
        assert asking.offset(wire.ask(api, version, **fields)) == n


def test_a_question_in_two_pieces_waits_for_the_rows_in_front_of_it(bootstrap: str, wire: Wire) -> None:
    topic = wire.new_topic()
    for n in range(1, TIMES + 1):
        with Wire(bootstrap, "pieces") as pieces:
            rows, question = asking.produce(topic, b"x" * 30_000), asking.list_offsets(topic, LATEST)
            asking.send_in_pieces(pieces, n + 5, rows, question)
            _, listed = pieces.receive(), pieces.receive()
            assert asking.offset(listed) == n


@pytest.mark.parametrize("size", [10, 500_000])  # the larger ones arrive in buffers of their own
def test_rows_that_are_compressed_again_are_in_front_of_all_behind_them(wire: Wire, size: int) -> None:
    topic, plain = wire.new_topic(compression_type="zstd"), wire.new_topic()
    row = b"x" * size
    end = 0
    for n in range(1, TIMES + 1):
        unanswered = [
            asking.encode_request(*asking.produce(one, row + b"unanswered", acks=0)) for one in (topic, plain)
        ]
        asked = [
            asking.produce(topic, row),
            asking.list_offsets(topic, LATEST),
            asking.fetch(topic, end),
            asking.produce(plain, row),
            asking.produce(topic, row, row, acks=1),
            asking.produce(plain, row),
            asking.list_offsets(topic, LATEST),
            asking.list_offsets(plain, LATEST),
        ]
        frames = [wire._framed(*one) for one in asked]
        wire._socket.sendall(b"".join([*frames[:4], *unanswered, *frames[4:]]))
        first, listed, fetched, _, answered, _, latest, latest_plain = (wire.receive() for _ in asked)
        assert first.responses[0].partition_responses[0].base_offset == end
        assert asking.offset(listed) == end + 1
        assert fetched.responses[0].partitions[0].high_watermark == end + 1
        assert answered.responses[0].partition_responses[0].base_offset == end + 2
        end += 4
        assert (asking.offset(latest), asking.offset(latest_plain)) == (end, 3 * n)


def test_nothing_behind_an_unanswered_batch_that_cannot_be_compressed_again_is_stored(wire: Wire) -> None:
    """The client hears of the refusal by the end of its connection, and takes what was behind it for lost."""
    topic, plain = wire.new_topic(compression_type="gzip"), wire.new_topic()
    for _ in range(TIMES):
        other = wire.another()
        refused, behind = asking.produce_rubbish(topic, acks=0), asking.produce(plain, b"behind")
        other._socket.sendall(other._framed(*asking.produce(plain, b"before")))
        other.receive()
        other._socket.sendall(asking.encode_request(*refused) + other._framed(*behind))
        with pytest.raises(ConnectionClosed):
            other.receive()
    api, version, fields = asking.list_offsets(plain, LATEST)
    assert asking.offset(wire.ask(api, version, **fields)) == TIMES


def test_settings_partitions_and_trimming_are_seen_behind_their_change(wire: Wire) -> None:
    topic = wire.new_topic()
    wire.produce(topic, *[b"row"] * TIMES * 2)
    for n in range(1, TIMES + 1):
        _, told, _, cut, _, grown = together(
            wire,
            asking.alter_config(topic, "retention.ms", str(10**9 + n)),
            asking.describe_config(topic, "retention.ms"),
            asking.delete_records(topic, n),
            asking.list_offsets(topic, EARLIEST),
            asking.add_partitions(topic, n + 1),
            asking.metadata(topic),
        )
        assert told.results[0].configs[0].value == str(10**9 + n)
        assert asking.offset(cut) == n
        assert len(grown.topics[0].partitions) == n + 1


def test_a_commit_is_seen_behind_it(wire: Wire) -> None:
    topic = wire.new_topic()
    for n in range(TIMES):
        _, told = together(wire, asking.commit("order", topic, n), asking.committed("order", topic))
        assert told.groups[0].topics[0].partitions[0].committed_offset == n


def test_a_fetch_that_waits_holds_nobody_up(wire: Wire) -> None:
    topic, other_topic = wire.new_topic(), wire.new_topic()
    wire.send_together(asking.fetch(topic, 0, wait_ms=60_000), asking.produce(other_topic, b"row"))
    wire.send_together(asking.list_offsets(other_topic, LATEST), asking.produce(topic, b"row"))
    fetched, _, listed, _ = (wire.receive() for _ in range(4))
    assert b"row" in bytes(fetched.responses[0].partitions[0].records)
    assert asking.offset(listed) == 1


def test_produce_requests_in_one_send_still_share_their_syncs(start_server: Any) -> None:
    metrics = free_address()
    server = start_server(f"--metrics={metrics}", f"-Xbroker.id={NODE_ID}")
    with Wire(server.bootstrap, "order") as wire:
        topic = wire.new_topic()
        before = metrics_of(metrics)["semel_fsync_seconds_count"]
        together(wire, *[asking.produce(topic, b"row")] * 64)
        assert metrics_of(metrics)["semel_fsync_seconds_count"] - before <= 8


def test_who_leaves_in_between_leaves_nothing_waiting(start_server: Any) -> None:
    metrics = free_address()
    server = start_server(f"--metrics={metrics}", f"-Xbroker.id={NODE_ID}")
    with Wire(server.bootstrap, "order") as wire:
        topic = wire.new_topic()
        open_files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        for n in range(TIMES * 2):
            leaving = Wire(server.bootstrap, "leaving")
            asking.send_unanswered(leaving, asking.produce(topic, b"row", acks=0))
            leaving.send_together(
                asking.create(topic),  # refused, in its turn
                asking.produce(topic, b"x" * 400_000),
                asking.list_offsets(topic, LATEST),
                asking.fetch(topic, 10**6, wait_ms=60_000),
            )
            if n % 2:  # reset, rather than closed in good order
                asking.reset(leaving)
            leaving.__exit__()
        give_up_s = time.monotonic() + 30
        while (
            metrics_of(metrics)["semel_connections"] > 1
            or metrics_of(metrics)["semel_held_bytes"] > 0
            or len(os.listdir(f"/proc/{server.process.pid}/fd")) > open_files + 2
        ):
            assert time.monotonic() < give_up_s, server.log
            time.sleep(0.05)
        assert wire.produce(topic, b"row").error_code.name == "none"
    assert "Traceback" not in server.log


def test_a_server_that_stops_answers_what_has_begun_and_ends(start_server: Any) -> None:
    server = start_server(f"-Xbroker.id={NODE_ID}", "-Xmax.shutdown.ms=60000")
    with Wire(server.bootstrap, "order") as wire:
        topic = wire.new_topic()
        wire.send_together(*[asking.produce(topic, b"row"), asking.list_offsets(topic, LATEST)] * 1000)
        wire.receive()
        assert server.stop() == 0  # within 30 s: not for want of what had not begun
        ends = [0]
        with pytest.raises(ConnectionClosed):
            while True:
                ends.append(asking.offset(wire.receive()))
                wire.receive()
        assert ends == list(range(len(ends)))
    assert "Traceback" not in server.log


def test_an_answer_that_fails_costs_its_connection_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Answer:
        raise ZeroDivisionError("a defect in a handler")

    monkeypatch.setattr("semel.server.router.handle", lambda broker, call, body: AfterSync((), fail))

    async def scenario() -> bytes:
        storage = Storage.open(tmp_path / "data", now_ms=0)
        settings = ServerSettings(listen=Address("127.0.0.1", 0), data_dir=tmp_path / "data")
        listener = Listener(settings, Broker(settings, storage), asyncio.get_running_loop())
        address = await listener.start()
        reader, writer = await asyncio.open_connection(address.host, address.port)
        question = asking.encode_request(*asking.list_offsets("t", LATEST))
        writer.write(question * 2)
        received = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await listener.stop()
        storage.close(now_ms=0)
        return received

    assert asyncio.run(scenario()) == b""


def test_what_may_begin() -> None:
    in_order = InOrder()
    assert in_order.admits(is_produce=True) and in_order.admits(is_produce=False)
    in_order.begin(is_produce=True)
    in_order.begin(is_produce=True)
    assert in_order.admits(is_produce=True) and not in_order.admits(is_produce=False)
    in_order.end(is_produce=True)
    assert not in_order.admits(is_produce=False)
    in_order.end(is_produce=True)
    in_order.begin(is_produce=False)
    assert not in_order.admits(is_produce=True) and not in_order.admits(is_produce=False)
    in_order.end(is_produce=False)
    assert in_order.admits(is_produce=False)
