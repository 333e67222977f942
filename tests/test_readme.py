"""Every program and every command of the README, run as it stands there, does what is said beside it.

But for those that set up a machine: `make demo`, `make test` and `pip install`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

import semel
from semel.demo.verdicts import free_address

pytestmark = pytest.mark.slow

README = Path(__file__).parents[1] / "README.md"
SCRIPTS = Path(sys.executable).parent


def python_block(word: str) -> str:
    (found,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
        if word in block
    )
    return str(found)


def shell_commands() -> list[str]:
    """The lines of "On the command line": the server, and what is said in a second terminal."""
    text = README.read_text().partition("## On the command line")[2].partition("\n## ")[0]
    return [line.strip() for line in text.splitlines() if line.startswith("    ") and "semel " in line]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The commands as they stand there, on a port that is free; in one of its own is what they leave behind."""
    address = free_address()
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SEMEL_LISTEN": address, "SEMEL_BOOTSTRAP": address}


@pytest.fixture
def second_terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[list[str]]:
    """The server of the first line runs; the lines for the second terminal."""
    serve, *rest = shell_commands()
    with subprocess.Popen(
        f"exec {serve}", shell=True, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert "ready on " in server.stdout.readline()
            yield rest
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def check_commands(commands: list[str], folder: Path, environment: dict[str, str]) -> None:
    produce, consume, land, audit, audit_of_program = commands
    for _ in range(2):  # whoever tries it once more is right, too
        assert run(produce, folder, environment) == ""
    assert run(consume, folder, environment) == "hello\n"
    for _ in range(2):
        assert run(land, folder, environment) == ""
        assert (
            DeltaTable(folder / "greetings").to_pyarrow_table().column("_value").to_pylist() == [b"hello"] * 2
        )
    assert run(audit, folder, environment).splitlines()[-1].startswith("PROVEN: greetings holds ")
    assert run(audit_of_program, folder, environment).splitlines()[-1] == (
        "PROVEN: delays holds every row of flights where value = 'late' exactly once, in order"
    )


@pytest.mark.everyday
@pytest.mark.spark
@pytest.mark.slow
def test_the_program_prints_what_its_comment_says_and_can_be_audited(
    tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    program = subprocess.run(
        [sys.executable, "-c", python_block("LocalLog")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (program.returncode, program.stdout) == (0, "[b'AA1141']\n"), program.stderr
    check_commands(request.getfixturevalue("second_terminal"), tmp_path, environment)


def test_the_commands_say_what_is_promised(
    tmp_path: Path, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    with semel.LocalLog(tmp_path / "data") as log, semel.Producer(log.bootstrap) as producer:
        for topic, rows in {
            "flights": [(b"UA1545", b"on time"), (b"AA1141", b"late"), (b"B6725", b"on time")],
            "delays": [(b"AA1141", b"late")],
        }.items():  # as the program leaves them, without its Spark
            for key, value in rows:
                producer.send(topic, key=key, value=value)
    check_commands(request.getfixturevalue("second_terminal"), tmp_path, environment)


def test_what_became_of_a_row_is_a_type(tmp_path: Path, semel_server: semel.LocalLog) -> None:
    block = python_block("except semel.errors.NotStored")
    names = {"semel": semel, "key": b"UA1", "value": b"late", "position": 1}
    with semel.Producer(semel_server.bootstrap, identity_store=tmp_path / "id") as producer:
        exec(compile(block, "README.md", "exec"), {**names, "producer": producer})
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([semel.TopicPartition("flights", 0)])
        assert [record.key for record in consumer.poll(10)] == [b"UA1"]


@pytest.mark.thorough
def test_the_fixture_gives_a_server(tmp_path: Path) -> None:
    loader = """
import semel

def load(bootstrap):
    with semel.Producer(bootstrap) as producer:
        producer.send("t", value=b"row").result()

"""
    (tmp_path / "test_my_loader.py").write_text(loader + python_block("def test_my_loader"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_loader.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.spark
@pytest.mark.slow
def test_the_flow_counts_each_users_visits(semel_server: semel.LocalLog) -> None:
    names: dict[str, object] = {}
    exec(compile(python_block("def visit_of"), "README.md", "exec"), names)
    with semel.Producer(semel_server.bootstrap) as producer:
        producer.send("users", value=b'{"user": "ann", "country": "AT"}')
        for url in ('"/"', "null", '"/shop"'):
            producer.send("clicks", value=b'{"user": "ann", "url": %s}' % url.encode())
    names["visits"].run(semel_server.bootstrap, once=True)  # type: ignore[attr-defined]
    with semel.Consumer(semel_server.bootstrap) as consumer:
        consumer.assign([semel.TopicPartition("visits", number) for number in range(4)])
        visits = [json.loads(record.value or b"") for record in consumer.poll(10)]
    assert visits == [{"user": "ann", "country": "AT", "visit": number} for number in (1, 2)]
