"""What goes wrong on the way, with real parts: every row is stored once, or its error says where it is."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import semel
from semel import aio
from semel.errors import CannotKnow, ConfigError, CorruptRecordBatch, DeliveryError, NotStored
from semel.types import TopicPartition

if TYPE_CHECKING:
    from tests.peers.cable import Cable


def values_of(bootstrap: str, topic: str) -> list[bytes | None]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        while records := consumer.poll(0.3, max_records=100_000):
            values += [record.value for record in records]
        return values


def store(producer: semel.Producer, value: str, *, within_s: float = 60) -> None:
    """Send until it is stored, however short the producer's time-outs are for a busy machine.

    "Not stored" says that it is safe to send again: the values tell whether that was true.
    """
    give_up_s = time.monotonic() + within_s
    while True:
        try:
            producer.send("out", value).result(within_s)
            return
        except NotStored:
            assert time.monotonic() < give_up_s


def test_a_reset_after_the_append_gives_the_offset_of_the_first_append(cable: Cable) -> None:
    with semel.Producer(cable.address, linger_ms=0) as producer:
        assert producer.send("out", "a").result(10).offset == 0
        cable.swallow_answers(1)
        assert producer.send("out", "b").result(10).offset == 1
        assert producer.send("out", "c").result(10).offset == 2
    assert cable.answers_swallowed == 1
    assert values_of(cable.address, "out") == [b"a", b"b", b"c"]


def test_order_holds_with_five_in_flight_while_answers_are_lost(cable: Cable) -> None:
    with semel.Producer(cable.address, linger_ms=0, batch_bytes=300) as producer:
        deliveries = []
        for row in range(2_000):
            if row % 200 == 100:
                cable.swallow_answers(1)
            deliveries.append(producer.send("out", str(row)))
        producer.flush(30)
        offsets = [delivery.result(0).offset for delivery in deliveries]
    assert cable.answers_swallowed > 0
    assert all(offset in (None, row) for row, offset in enumerate(offsets))
    assert [int(value or b"") for value in values_of(cable.address, "out")] == list(range(2_000))


def test_a_batch_in_the_middle_that_fails_leaves_its_neighbours_stored_in_order(
    semel_server: semel.LocalLog,
) -> None:
    """One row is too large for the topic: it alone is refused, also out of the batch that it shares."""
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("out", 1, {"max.message.bytes": "2000"})
    producer = semel.Producer(semel_server.bootstrap, batch_bytes=8_000, linger_ms=20)
    rows = [producer.send("out", f"{row}" * (5_000 if row == 5 else 1)) for row in range(10)]
    for row, delivery in enumerate(rows):
        if row == 5:
            with pytest.raises(NotStored, match="MESSAGE_TOO_LARGE"):
                delivery.result(20)
        else:
            delivery.result(20)
    producer.close()  # the error was told
    assert values_of(semel_server.bootstrap, "out") == [b"%d" % row for row in range(10) if row != 5]


def test_rows_that_failed_unseen_are_told_by_flush_and_close(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("out", 1, {"max.message.bytes": "2000"})
    producer = semel.Producer(semel_server.bootstrap)
    producer.send("out", "x" * 5_000)
    with pytest.raises(NotStored, match=r"first row that failed, of 1, .* out-0"):
        producer.flush(20)
    producer.flush(20)
    producer.send("out", "y" * 5_000)
    with pytest.raises(NotStored, match="MESSAGE_TOO_LARGE"):
        producer.close()
    producer.close()
    assert values_of(semel_server.bootstrap, "out") == []


def test_rows_never_sent_expire_in_the_queue_as_not_stored(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap, delivery_timeout_ms=500, linger_ms=0) as producer:
        store(producer, "0")
        semel_server.crash()
        with pytest.raises(DeliveryError):  # its bytes may still go into the dying socket
            producer.send("out", "1").result(60)
        with pytest.raises(NotStored, match="not acknowledged within 500 ms"):
            producer.send("out", "2").result(60)
        semel_server.restart()
        store(producer, "3")
    assert values_of(semel_server.bootstrap, "out") == [b"0", b"3"]


def test_rows_whose_answer_stays_away_are_in_doubt(cable: Cable) -> None:
    """The server has it: saying "not stored" would be a lie, and so would "stored"."""
    producer = semel.Producer(cable.address, delivery_timeout_ms=1_500, request_timeout_ms=1_500, linger_ms=0)
    store(producer, "0")
    cable.hold()
    with pytest.raises(CannotKnow, match="may or may not be stored"):
        producer.send("out", "1").result(60)
    cable.release()
    producer.close()
    assert values_of(cable.address, "out") == [b"0", b"1"]


def test_a_table_is_waited_for_as_long_as_was_said_in_all(cable: Cable) -> None:
    with semel.Producer(cable.address, linger_ms=0) as producer:
        producer.send("out", "0").result(10)
        cable.hold()
        delivery = producer.send_table("out", pa.table({"value": ["1", "2"]}))
        with pytest.raises(TimeoutError, match=r"still on their way after 0\.1 s"):
            delivery.result(0.1)
        cable.release()
        assert sum(stored.row_count for stored in delivery.result(20)) == 2


def test_flush_gives_up_in_time_and_the_rows_stay_on_their_way(cable: Cable) -> None:
    with semel.Producer(cable.address, linger_ms=0) as producer:
        producer.send("out", "0").result(10)
        cable.hold()
        delivery = producer.send("out", "1")
        with pytest.raises(TimeoutError, match=r"1 batch unacknowledged after 0\.2 s"):
            producer.flush(0.2)
        with pytest.raises(TimeoutError, match=r"still on their way after 0\.1 s"):
            delivery.result(0.1)
        assert not delivery.done()
        cable.release()
        producer.flush(20)
        assert delivery.result(0).offset == 1


def test_close_twice_and_after_it_nothing_is_taken(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap)
    producer.send("out", "0")
    producer.close()
    producer.close()
    with pytest.raises(NotStored, match="closed"):
        producer.send("out", "1")
    producer.flush()

    async def work() -> None:
        async_producer = aio.Producer(semel_server.bootstrap)
        with pytest.raises(ConfigError, match="start"):
            await async_producer.send("out", "1")
        await async_producer.start()
        await async_producer.close()
        await async_producer.close()
        with pytest.raises(NotStored, match="closed"):
            await async_producer.send("out", "1")

    asyncio.run(work())
    assert values_of(semel_server.bootstrap, "out") == [b"0"]


@pytest.mark.parametrize("name", ["", "..", "a b", "ü", "x" * 250])
def test_a_name_that_no_topic_can_have_is_not_stored_at_once(name: str) -> None:
    """Even without a log: nobody has to be asked."""
    with semel.Producer("127.0.0.1:1") as producer, pytest.raises(NotStored, match="nothing was sent: "):
        producer.send(name, "1")


def test_a_topic_that_the_log_refuses_is_not_stored_and_says_why(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        with pytest.raises(NotStored, match="is the server's own"):
            producer.send("__semel_metadata", "1").result(10)
        assert producer.send("out", "1").result(10).offset == 0


@pytest.mark.slow
@pytest.mark.parametrize("says", ["Connection refused", "no connection within 5000 ms"])
def test_a_program_whose_log_is_not_there_ends_soon_and_knows_why(says: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if says != "Connection refused":
            listener.listen()  # and never answers
        bootstrap = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            pytest.raises(NotStored, match=rf"nothing was sent to topic 'out': broker {bootstrap}: {says}"),
            semel.Producer(bootstrap) as producer,
        ):
            producer.send("out", "1").result(5)


@pytest.mark.timeout(60)  # delivery_timeout_ms is 120 s
def test_an_error_ends_the_with_block_without_a_long_wait_for_rows(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap)
    producer.send("out", "0").result(10)
    semel_server.crash()
    with pytest.raises(TimeoutError), producer:
        producer.send("out", "1").result(0.2)
    with pytest.raises(NotStored, match="closed"):
        producer.send("out", "2")


def test_memory_is_bounded_while_the_log_is_away(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap, buffer_bytes=50_000, max_block_ms=100)
    producer.send("out", "0").result(10)
    semel_server.crash()
    taken = 0
    with pytest.raises(NotStored, match="buffer stayed full"):
        while True:
            producer.send("out", "x" * 100)
            taken += 1
    assert 50_000 / 200 < taken <= 50_000 / 100
    semel_server.restart()
    producer.close()
    assert len(values_of(semel_server.bootstrap, "out")) == 1 + taken


@pytest.mark.parametrize(
    "row",
    [
        {"headers": [("a", 3)]},
        {"headers": [(b"a", b"")]},
        {"headers": {"id": b"two letters are no pair"}},
        {"value": 7},
        {"key": ["k"]},
        {"timestamp_ms": -1},
        {"timestamp_ms": 2**63},
        {"partition": 1},
    ],
)
def test_what_no_log_could_hold_is_refused_before_it_is_buffered(
    semel_server: semel.LocalLog, row: dict[str, object]
) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        with pytest.raises(ConfigError):
            producer.send("out", **row)  # type: ignore[arg-type]
        assert producer.send("out", "good", headers=[("a", None), ("b", "text")]).result(10).offset == 0


def test_a_topic_deleted_under_the_producer_is_not_made_again(semel_server: semel.LocalLog) -> None:
    with semel.Admin(semel_server.bootstrap) as admin:
        producer = semel.Producer(semel_server.bootstrap, delivery_timeout_ms=500)
        store(producer, "0")
        admin.delete_topic("out")
        with pytest.raises(NotStored):
            producer.send("out", "1").result(60)
        producer.close()
        assert admin.list_topics() == []


INTERRUPTED = """
import sys, threading, time, semel
bootstrap, call = sys.argv[1:]
producer = semel.Producer(bootstrap, linger_ms=0, buffer_bytes=20_000)
consumer = semel.Consumer(bootstrap)
producer.send("out", "0").result(10)
consumer.assign([("out", 0)])
print("ready", flush=True)
sys.stdin.readline()  # the cable is held now
delivery = producer.send("out", "1")
def fill():
    while True:
        producer.send("out", "x" * 1_000)
calls = {
    "result": lambda: delivery.result(),
    "flush": producer.flush,
    "close": producer.close,
    "send": fill,
    "poll": lambda: consumer.poll(60),
    "list_topics": lambda: semel.Admin(bootstrap).list_topics(),
}
print("blocked", flush=True)
try:
    calls[call]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
producer.close(timeout=0.1) if call == "close" else None
print([thread.name for thread in threading.enumerate() if not thread.daemon], flush=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "call",
    [
        "result",
        *(
            pytest.param(call, marks=pytest.mark.slow)
            for call in ("flush", "close", "send", "poll", "list_topics")
        ),
    ],
)
def test_ctrl_c_ends_a_blocking_call_and_the_program_after_it(cable: Cable, call: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, cable.address, call],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        cable.hold()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "blocked\n"
        time.sleep(0.3)  # nothing tells that the main thread waits by now
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.stdout.readline() == "['MainThread']\n"
        cable.release()
        child.wait(30)


@pytest.mark.thorough
def test_rows_that_nobody_flushed_are_sent_at_the_end_of_the_program(semel_server: semel.LocalLog) -> None:
    program = (
        "import sys, semel\n"
        "producer = semel.Producer(sys.argv[1], linger_ms=60_000)\n"
        "for row in range(10): producer.send('out', str(row))\n"
    )
    subprocess.run([sys.executable, "-c", program, semel_server.bootstrap], check=True, timeout=60)
    assert values_of(semel_server.bootstrap, "out") == [b"%d" % row for row in range(10)]


def test_a_forked_child_is_told_so_by_every_call(semel_server: semel.LocalLog) -> None:
    producer = semel.Producer(semel_server.bootstrap)
    consumer = semel.Consumer(semel_server.bootstrap)
    producer.send("out", "0").result(10)
    consumer.assign([TopicPartition("out", 0)])
    calls = [
        lambda: producer.send("out", "1"),
        producer.flush,
        lambda: consumer.poll(1),
        lambda: consumer.commit("g"),
    ]
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        told = 0
        try:
            for call in calls:
                try:
                    call()
                except ConfigError as error:
                    told += "fork" in str(error)
            with semel.Producer(semel_server.bootstrap) as own:
                own.send("out", "from the child").result(10)
            os.write(write_end, b"%d" % told)
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    assert os.read(read_end, 10) == b"%d" % len(calls)
    os.close(read_end)
    producer.close()
    consumer.close()
    assert values_of(semel_server.bootstrap, "out") == [b"0", b"from the child"]


def test_threads_share_a_producer(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:

        def send(name: str) -> None:
            for row in range(500):
                producer.send("out", f"{name}{row}")

        threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = values_of(semel_server.bootstrap, "out")
    for name in b"abcd":
        assert [value for value in values if value and value[0] == name] == [
            b"%c%d" % (name, row) for row in range(500)
        ]


def test_a_fault_of_our_own_ends_what_waits_for_it(
    semel_server: semel.LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("planted")

    producer = semel.Producer(semel_server.bootstrap)
    producer.send("out", "0").result(10)
    monkeypatch.setattr(producer._shared.engine.pipeline, "handle", fails)
    delivery = producer.send("out", "1")
    with pytest.raises((NotStored, CannotKnow), match="planted"):
        delivery.result(10)
    with pytest.raises(RuntimeError, match="fault of its own"):
        producer.send("out", "2")
    producer.close()


def test_a_damaged_batch_is_an_error_that_nothing_is_skipped_behind(semel_server: semel.LocalLog) -> None:
    with semel.Producer(semel_server.bootstrap) as producer:
        for row in range(3):
            producer.send("out", f"row {row}").result(10)
    (segment,) = (semel_server.data_dir).rglob("out-0/*.log")
    whole = segment.read_bytes()
    at = whole.index(b"row 1")
    partition = TopicPartition("out", 0)
    with semel.Consumer(semel_server.bootstrap) as consumer, segment.open("r+b") as file:
        consumer.assign([partition])
        file.seek(at)
        file.write(b"RAW")
        file.flush()
        assert [record.value for record in consumer.poll(5)] == [b"row 0"]
        for _ in range(2):
            with pytest.raises(CorruptRecordBatch):
                consumer.poll(5)
            with pytest.raises(CorruptRecordBatch):
                consumer.fetch_table(5)
            assert consumer.position(partition) == 1
        file.seek(at)
        file.write(b"row")
        file.flush()
        assert [record.value for record in consumer.poll(5)] == [b"row 1", b"row 2"]
