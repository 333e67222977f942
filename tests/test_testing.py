"""The pytest plugin, in a test run of somebody else's project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

def test_second(semel_server_session, semel_server):
    assert [semel_server_session] == seen, "the same server as in the test before"
    assert stored(semel_server_session, "second") == 1
    assert stored(semel_server, "second") == 1, "and the one of the test's own is another"

def test_first_topic_is_still_there(semel_server_session):
    assert stored(semel_server_session, "first") == 2
"""


def test_a_server_of_the_session_is_shared_by_its_tests(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_project.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
