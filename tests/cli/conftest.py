"""Commands run in this process against a real server."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from semel.cli.main import run
from semel.local import LocalLog


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Ran]
Told = tuple[int, str, str]


@pytest.fixture
def semel(
    semel_server: LocalLog, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Command:
    """``semel("topic", "list")`` with the server's address in the environment and ``stdin`` as given."""
    monkeypatch.setenv("SEMEL_BOOTSTRAP", semel_server.bootstrap)

    def command(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(arguments)
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return command


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of a running log."""
    name = "semel_server" if request.param == "semel" else "apache_kafka"
    return str(request.getfixturevalue(name).bootstrap)


@pytest.fixture
def ask(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Told]:
    """Run a command: exit code, stdout, stderr."""
    monkeypatch.setenv("SEMEL_BOOTSTRAP", bootstrap)

    def told(*arguments: str) -> Told:
        code = run(arguments)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return told
