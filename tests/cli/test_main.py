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
    assert run(["topic", "list", "-b", "localhost:port"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_host_that_there_is_not_is_not_said_to_be_down(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list", "-b", "no-such-host.invalid"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("semel: broker no-such-host.invalid:9092: ")
    assert line.endswith("; look at the name after -b, or in SEMEL_BOOTSTRAP")


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


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_as_an_option(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([option]) == 0
    assert capsys.readouterr().out == f"semel {__version__}\n"


@pytest.mark.thorough
def test_a_shell_completes_commands_and_options() -> None:
    def complete(words: str) -> list[str]:
        count = str(len(words.split(" ")) - 1)
        environment = {
            **os.environ,
            "_SEMEL_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": count,
        }
        done = subprocess.run(
            [sys.executable, "-c", "from semel.cli.main import main; main()"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    assert complete("semel pro") == ["produce", "producer"]
    assert complete("semel topic d") == ["describe", "delete"]
    assert complete("semel audit --wh") == ["--where"]


def test_completion_says_what_a_shell_wants() -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'"{sys.executable}" -c "from semel.cli.main import main; main()" --show-completion; exit $?',
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F _semel_completion semel" in done.stdout


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
