"""A server of one's own: its ports, its folder, its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import semel
from semel.errors import ConfigError, StorageError
from semel.types import TopicPartition


def is_running(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(happened: Callable[[], bool]) -> bool:
    give_up_s = time.monotonic() + 20
    while not happened() and time.monotonic() < give_up_s:
        time.sleep(0.02)
    return happened()


def count(bootstrap: str, topic: str) -> int:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return len(consumer.poll(10, max_records=100_000))


def test_a_crash_keeps_port_folder_and_what_was_acknowledged(semel_server: semel.LocalLog) -> None:
    bootstrap, first_process = semel_server.bootstrap, semel_server.process_id
    with semel.Producer(bootstrap) as producer:
        for row in range(100):
            producer.send("out", str(row))
    semel_server.crash()
    assert semel_server.process_id is None
    assert first_process is not None and not is_running(first_process)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(bootstrap.rsplit(":", 1)[1])))
    semel_server.restart()
    assert semel_server.bootstrap == bootstrap
    assert semel_server.process_id != first_process
    assert count(bootstrap, "out") == 100


def test_calls_in_any_order_do_no_harm(semel_server: semel.LocalLog) -> None:
    process_id = semel_server.process_id
    semel_server.start()
    assert semel_server.process_id == process_id
    semel_server.crash()
    semel_server.crash()
    semel_server.stop()
    semel_server.start()
    semel_server.close()
    semel_server.close()
    assert semel_server.process_id is None


def test_each_server_of_the_factory_is_its_own(semel_server_factory: Callable[..., semel.LocalLog]) -> None:
    one, other = semel_server_factory(), semel_server_factory(num_partitions=3)
    assert one.bootstrap != other.bootstrap and one.data_dir != other.data_dir
    with semel.Producer(one.bootstrap) as producer:
        producer.send("out", "only here").result(10)
    with semel.Admin(other.bootstrap) as admin:
        assert admin.list_topics() == []
        with semel.Producer(other.bootstrap) as producer:
            producer.send("out", "x").result(10)
        assert len(admin.describe_topic("out").partitions) == 3


def test_a_temporary_folder_goes_with_the_server() -> None:
    with semel.LocalLog() as log:
        folder, process_id = log.data_dir, log.process_id
        assert folder.is_dir() and process_id is not None
    assert not folder.exists()
    assert not is_running(process_id)


@pytest.mark.thorough
def test_a_second_server_on_the_same_folder_is_refused_and_leaves_nothing(
    semel_server: semel.LocalLog,
) -> None:
    with pytest.raises(StorageError, match=r"(?s)did not start .* in use by another process"):
        semel.LocalLog(semel_server.data_dir)
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("out", "still here").result(10)


def test_an_unknown_setting_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^LocalLog: unknown setting 'num_partition'; did you mean 'num_partitions'"
    ):
        semel.LocalLog(tmp_path / "data", num_partition=3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"durability": "never"}, "LocalLog: durability: 'never' is none of fsync, page-cache"),
        ({"log_segment_bytes": "x"}, "LocalLog: log_segment_bytes: 'x' is not a whole number"),
        ({"listen": "x:y"}, "LocalLog: listen: 'x:y' is not HOST:PORT"),
    ],
)
def test_a_wrong_setting_is_told_in_the_callers_terms(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        semel.LocalLog(tmp_path / "data", **settings)
    assert str(caught.value) == said


def test_a_port_that_is_taken_is_an_error_that_says_so(semel_server: semel.LocalLog, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"in use|EADDRINUSE|Errno 98"):
        semel.LocalLog(tmp_path / "data", listen=semel_server.bootstrap)


def started(program: str, data_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


PARENT = """
import os, sys, semel
log = semel.LocalLog(sys.argv[1])
print(log.process_id, flush=True)
sys.stdin.readline()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_the_process_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    with started(PARENT, tmp_path / "data") as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        assert is_running(server)
        parent.send_signal(how)
        parent.wait(20)
        assert wait_until(lambda: not is_running(server))
    with semel.LocalLog(tmp_path / "data"):  # and it let go of the folder
        pass


FORKING_PARENT = """
import os, sys, time, semel
log = semel.LocalLog(sys.argv[1])
child = os.fork()
if child == 0:
    time.sleep(600)
print(log.process_id, child, flush=True)
sys.stdin.readline()
"""


def test_a_forked_child_that_lives_on_does_not_keep_the_server(tmp_path: Path) -> None:
    with started(FORKING_PARENT, tmp_path / "data") as parent:
        assert parent.stdout is not None
        server, child = map(int, parent.stdout.readline().split())
        try:
            parent.kill()
            parent.wait(20)
            assert wait_until(lambda: not is_running(server))
            assert is_running(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_ends_does_not_end_the_server(semel_server: semel.LocalLog) -> None:
    child = os.fork()
    if child == 0:
        semel_server.close()
        os._exit(0)
    os.waitpid(child, 0)
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("out", "x").result(10)
