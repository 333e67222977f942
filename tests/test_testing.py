"""The pytest plugin, in a test run of somebody else's project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def run_tests(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_project.py").write_text(tests)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_project.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


PROJECT = """
import semel

seen = []

def stored(log, topic):
    with semel.Producer(log.bootstrap) as producer:
        producer.send(topic, value=b"row").result()
    with semel.Consumer(log.bootstrap) as consumer:
        consumer.assign([semel.TopicPartition(topic, 0)])
        return len(consumer.poll(10))

def test_first(semel_server_session):
    seen.append(semel_server_session)
    assert stored(semel_server_session, "first") == 1
    assert [row.value for row in semel_server_session.records("first")] == [b"row"]

def test_second(semel_server_session, semel_server):
    assert [semel_server_session] == seen, "the same server as in the test before"
    assert stored(semel_server_session, "second") == 1
    assert stored(semel_server, "second") == 1, "and the one of the test's own is another"

def test_first_topic_is_still_there(semel_server_session):
    assert stored(semel_server_session, "first") == 2
"""


def test_a_server_of_the_session_is_shared_by_its_tests(tmp_path: Path) -> None:
    done = run_tests(tmp_path, PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


FAILING = """
import contextlib
import socket
import semel

def test_no_protocol(semel_server):
    host, port = semel_server.bootstrap.split(":")
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("orders", value=b"row").result()
    with semel.Admin(semel_server.bootstrap) as admin, contextlib.suppress(semel.errors.BrokerError):
        admin.delete_topic("nowhere")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(bytes([255]) * 8)
        assert connection.recv(1) == b""
    semel_server.crash()
    semel_server.restart()
    assert [row.value for row in semel_server.records("orders")] == [b"other"]
"""


def test_who_fails_is_told_what_the_server_lived_through(tmp_path: Path) -> None:
    done = run_tests(tmp_path, FAILING)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "assert [b'row'] == [b'other']" in done.stdout
    told = done.stdout.split("- semel_server 127.0.0.1:", 1)[1]
    lived = ["ready on 127.0.0.1", "closed the connection from 127.0.0.1", "killed (SIGKILL)", "recovered"]
    places = [told.find(words) for words in lived]
    assert -1 < places[0] < places[1] < places[2] < places[3], told
    refused = told.split("the last requests that it refused:\n", 1)[1].splitlines()
    assert refused[0].endswith("DELETE_TOPICS of 'nowhere': UNKNOWN_TOPIC_OR_PARTITION")
    assert "topic orders: 1 in 0" in told


FAILING_ON_A_SHARED_ONE = """
import semel
from semel.testing import assert_once

def test_of_the_session(semel_server_session, semel_topic):
    with semel.Producer(semel_server_session.bootstrap) as producer:
        for value in (b"a", b"b"):
            producer.send(semel_topic, value=value).result()
        producer.send("copy", value=b"a").result()
    assert_once(semel_server_session, output=semel_topic)
    assert_once(semel_server_session.bootstrap, input=semel_topic, output="copy")

def test_no_topic_stays(semel_server_session):
    with semel.Admin(semel_server_session.bootstrap) as admin:
        assert admin.list_topics() == ["copy"]

def test_while_it_is_down(semel_server):
    semel_server.crash()
    assert not semel_server.bootstrap
"""


@pytest.mark.thorough
def test_who_fails_is_told_of_the_shared_server_and_of_one_that_is_down(tmp_path: Path) -> None:
    done = run_tests(tmp_path, FAILING_ON_A_SHARED_ONE)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    shared, down = done.stdout.split("- semel_server")[1:]
    assert "VIOLATED missing: 1 input rows that are not in the output" in done.stdout
    assert "topic test_of_the_session-" in shared
    assert "killed (SIGKILL)" in down
    assert "it is not running" in down


FLOWS = """
import pytest
from semel.errors import StepFailed
from semel.flow import source

counts = source("words", json="word string").key_by("word").count().to("counts")

def test_counts(semel_flow):
    rows = semel_flow(counts, {"words": [{"word": "a"}, {"word": "a"}, "no JSON"]})
    assert rows["counts"] == [{"word": "a", "count": 2}]
    assert len(rows.bad) == 1 and not rows.late

def test_another_run_knows_nothing_of_it(semel_flow):
    assert semel_flow(counts, {"words": [{"word": "a"}]})["counts"] == [{"word": "a", "count": 1}]

def test_a_step_that_fails(semel_flow):
    failing = source("words", json="word string").map(lambda row: 1 / 0, schema="n bigint").to("out")
    with pytest.raises(StepFailed, match="topic 'words', partition 0, offset 0"):
        semel_flow(failing, {"words": [{"word": "a"}]})
"""


@pytest.mark.thorough
def test_flows_run_in_a_project_s_tests(tmp_path: Path) -> None:
    done = run_tests(tmp_path, FLOWS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
