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
