"""A running flow: its handle, its end, and what signals do to ``semel flow run``."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.flow.flowing import put, rows

from semel.errors import ConfigError, StepFailed
from semel.flow import run as run_module
from semel.flow import source
from semel.flow.replay import replay
from semel.flow.run import runs_here, start_flow

COUNTS = """
import time
from pathlib import Path
from semel.flow import source

def slow(row):
    Path({marker!r}).touch()
    time.sleep({pause_s})
    return {{"word": row.word}}

counts = source("words", json="word string").map(slow, schema="word string").key_by("word").count().to("counts")
"""


@pytest.fixture
def bootstrap(semel_server):
    return semel_server.bootstrap


def counting():
    return source("words", json="word string").key_by("word").count().to("counts")


def eventually(holds, timeout_s=60.0):
    give_up_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.05)


def test_a_handle_shows_what_it_does_and_stops_behind_a_micro_batch(bootstrap, tmp_path, capfd):
    put(bootstrap, "words", *({"word": f"w{n % 3}"} for n in range(30)))
    running = counting().start(bootstrap, here=True, show=False, metrics="127.0.0.1:0", store=tmp_path)
    eventually(lambda: running.progress().stages[-1].state_keys == 3 and not running.progress().lag)
    assert not running.wait(0.01)
    running.stop()
    assert running.wait(0)
    look = running.progress()
    assert look.stages[0].row_count == 30
    assert replay(counting().plan(), bootstrap).is_at_rest
    assert capfd.readouterr().err == ""


ON_SPARK = """
import sys
from semel.errors import ConfigError
from semel.flow import source

try:
    flow = source({topic!r}, json="word string").where("word <> 'b'").to({output!r})
    flow.start({bootstrap!r})
except ConfigError as error:
    print(error)
print("pyspark" in sys.modules)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("topic", "output", "words"),
    [
        ("nothing", "new", "reads topic 'nothing', and there is none"),
        ("words", "out", "has read others so far"),
    ],
)
def test_what_the_log_refuses_is_told_before_spark_is_started(bootstrap, tmp_path, topic, output, words):
    for each in ("words", "others"):
        put(bootstrap, each, {"word": "a"})
    others = source("others", json="word string").filter(bool).to("out")
    others.run(bootstrap, here=True, once=True, show=False, store=tmp_path)
    program = ON_SPARK.format(topic=topic, output=output, bootstrap=bootstrap)
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert words in told and told.endswith("\nFalse\n")


@pytest.mark.thorough
def test_its_progress_is_served_for_prometheus(bootstrap, tmp_path):
    put(bootstrap, "words", {"word": "a"}, {"word": "b"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot serve metrics on"):
            start_flow(counting().plan(), bootstrap, here=True, metrics=f"127.0.0.1:{port}", store=tmp_path)
    with pytest.raises(ConfigError, match="is not HOST:PORT"):
        start_flow(counting().plan(), bootstrap, here=True, metrics="here", store=tmp_path)
    address = f"127.0.0.1:{port}"
    running = start_flow(counting().plan(), bootstrap, here=True, metrics=address, store=tmp_path)

    def page():
        return urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()

    told = 'semel_flow_state_keys{flow="counts",stage="words-by-word-count"} 2.0'
    eventually(lambda: told in page())
    assert 'semel_flow_lag{flow="counts",stage="words-by-word"} 0.0' in page()
    running.stop()
    with pytest.raises(OSError):
        page()


def test_a_stage_that_fails_ends_it_with_its_error(bootstrap, tmp_path):
    def broken(row):
        raise ValueError("no")

    put(bootstrap, "words", {"word": "a"})
    flow = source("words", json="word string").map(broken, schema="word string").to("out")
    running = flow.start(bootstrap, here=True, show=False, store=tmp_path)
    with pytest.raises(StepFailed, match="ValueError: no"):
        running.wait(60)
    assert running.wait(0)


def test_once_ends_by_itself_and_tells_a_line_for_each_stage(bootstrap, tmp_path, capsys):
    put(bootstrap, "words", {"word": "a"}, {"word": "b"})
    counting().run(bootstrap, here=True, once=True, store=tmp_path)
    first, last = capsys.readouterr().err.splitlines()[-2:]
    assert re.fullmatch(r"counts/words-by-word: \S+ rows/s, lag 0, 2 rows in 1 micro-batch", first)
    assert re.fullmatch(
        r"counts/words-by-word-count: \S+ rows/s, lag 0, 2 rows in \d micro-batch(es)?, 2 keys, \d+ bytes in the "
        r"decisions",
        last,
    )


@pytest.fixture
def started(bootstrap, tmp_path):
    """``started(pause_s, *options)``: ``semel flow run`` of a flow whose first step sleeps for each row."""
    children = []

    def start(pause_s, *options):
        path = tmp_path / "counts.py"
        path.write_text(COUNTS.format(pause_s=pause_s, marker=str(tmp_path / "at work")))
        command = [sys.executable, "-m", "semel.cli", "flow", "run", str(path), "--here", "-b", bootstrap]
        child = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def ended(child):
    _, told = child.communicate(timeout=60)
    return child.returncode, told


@pytest.fixture
def at_work(tmp_path):
    """Whether the first step has begun."""
    return (tmp_path / "at work").exists


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_behind_its_micro_batch(bootstrap, at_work, started, number):
    put(bootstrap, "words", *({"word": "a"} for _ in range(20)))
    child = started(0.1)
    eventually(at_work)
    child.send_signal(number)
    code, told = ended(child)
    assert (code, told.splitlines()[-1]) == (
        0,
        "semel: stopped behind a micro-batch: what was begun is decided, and the next run goes on there",
    ), told
    held = replay_of(bootstrap)
    assert held.holds
    assert not any(stage.undecided for stage in held.stages)
    assert held.stages[0].rows_read == 20


def replay_of(bootstrap):
    namespace: dict = {"__name__": "replayed"}
    exec(COUNTS.format(pause_s=0, marker=os.devnull), namespace)
    return replay(namespace["counts"].plan(), bootstrap)


@pytest.mark.thorough
def test_a_second_signal_does_not_wait(bootstrap, at_work, started):
    put(bootstrap, "words", {"word": "a"})
    child = started(50)
    eventually(at_work)
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    code, told = ended(child)
    assert code == 130, told
    assert told.splitlines()[-1].startswith("semel: interrupted; what was begun may stand there undecided"), (
        told
    )


@pytest.mark.thorough
def test_once_that_was_cut_short_says_so(bootstrap, at_work, started):
    put(bootstrap, "words", *({"word": "a"} for _ in range(10)))
    child = started(0.3, "--once", "-q")
    eventually(at_work)
    child.send_signal(signal.SIGTERM)
    code, told = ended(child)
    assert code == 130
    assert told.startswith("semel: stopped behind a micro-batch")
    assert rows(bootstrap, "counts") == [], json.dumps(told)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_on_spark_it_stops_behind_its_micro_batches(bootstrap, at_work, tmp_path):
    path = tmp_path / "counts.py"
    path.write_text(COUNTS.format(pause_s=0.05, marker=str(tmp_path / "at work")))
    put(bootstrap, "words", *({"word": f"w{n % 3}"} for n in range(60)))
    child = subprocess.Popen(
        [sys.executable, "-m", "semel.cli", "flow", "run", str(path), "-b", bootstrap],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: at_work() or child.poll() is not None, 400)
        child.send_signal(signal.SIGTERM)
        _, told = child.communicate(timeout=300)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 0, told
    assert "semel: stopped behind a micro-batch" in told
    held = replay_of(bootstrap)
    assert held.holds
    assert not any(stage.undecided for stage in held.stages), held.text()


def test_a_flow_without_steps_of_sparks_needs_none_to_be_installed(monkeypatch):
    """As in a wheel that was installed alone."""
    monkeypatch.setattr(
        run_module, "unsupported", lambda: "there is no PySpark here: `pip install 'semel[spark]'`"
    )
    people = source("people", json="name string")
    assert runs_here(people.filter(bool).to("out").plan())
    with pytest.raises(
        ConfigError, match=r"steps of Spark's .* in out, and there is no PySpark here: `pip install"
    ):
        runs_here(people.where("name = 'a'").to("out").plan())
    monkeypatch.setattr(run_module, "unsupported", lambda: None)
    assert not runs_here(people.where("name = 'a'").to("out").plan())
