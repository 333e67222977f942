"""The command tree: exit codes, one-line errors, and what it must not import."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from semel import __version__
from semel.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["audit"], "semel audit: Missing option '--output'. Try: semel audit --help"),
        (["nonsense"], "semel: No such command 'nonsense'. Try: semel --help"),
        (
            ["consume", "t", "-o", "x"],
            "semel: 'x' is not an offset: write start, end, n, +n, -n, @time, @-10m or a:b",
        ),
        (["consume", "t", "-f", "%q"], "semel: %q is not a field of a record template: use"),
        (
            ["produce", "t", "-k", "a", "-K", ":"],
            "semel: -k gives every record one key, -K takes it from the line",
        ),
        (["audit", "--output", "a", "--input", "a"], "semel: input and output are both 'a'"),
        (["audit", "--output", "a", "--key-from", "value-json"], "semel: fields go with value-json"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith(line)


@pytest.mark.parametrize(("arguments", "command"), [([], "serve"), (["topic"], "create")])
def test_a_group_without_a_command_shows_its_help(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"\n  {command} " in printed.err


def test_a_wrong_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list", "-b", "nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["topic", "list"], ["produce", "t"], ["sink", "list"]])
def test_no_server_is_one_line_that_says_what_to_do(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert run([*arguments, "-b", address]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"semel: broker {address}: Connection refused; "
        "is it running? (semel serve; or name another with -b H:P)\n"
    )


def test_version_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--format", "json"]) == 0
    assert f'"semel": "{__version__}"' in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["serve", "--help"], ["audit", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from semel.cli.main import run\n"
        f"assert run({arguments!r}) == 0\n"
        "heavy = {'pyarrow', 'numpy', 'pyspark', 'kio', 'semel.client', 'semel.server'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "semel.cli", "version"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
