"""``semel copy`` on the command line; what it does is in tests/copy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from semel.local import LocalLog


def ends(log: LocalLog) -> tuple[str, ...]:
    return "--from", log.bootstrap, "--to", log.bootstrap, "--prefix", "eu."


def test_it_copies_to_the_end_and_goes_on(semel, semel_server) -> None:
    semel("produce", "rows", stdin=b"a\nb\nc\n")
    first = semel("copy", "rows", *ends(semel_server), "--until-end")
    assert first.code == 0 and "copied 3 rows" in first.err
    semel("produce", "rows", stdin=b"d\n")
    again = semel(
        "copy", "rows", *ends(semel_server), "--until-end", "--rate", "10M", "--metrics", "127.0.0.1:0"
    )
    assert again.code == 0 and "copied 1 row " in again.err
    assert semel("consume", "eu.rows", "-o", ":end").out == "a\nb\nc\nd\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rows",), "name both ends"),
        (("rows", "--from", "a:1", "--to", "b:1", "--rate", "fast"), "no number of bytes"),
        (("rows", "--from", "a:1", "--to", "b:1", "--on-data-loss", "ignore"), "is stop or continue"),
        (("--from", "a:1", "--to", "b:1"), "name the topics to copy"),
        (("rows", "--from", "a:1", "--to", "b:1", "--where", "valu = 1"), "no such column"),
    ],
)
def test_what_it_does_not_begin(semel, arguments, says) -> None:
    refused = semel("copy", *arguments)
    assert refused.code == 2 and says in refused.err and "Nothing was copied" in refused.err


def test_metrics_need_an_address(semel, semel_server) -> None:
    refused = semel("copy", "rows", *ends(semel_server), "--metrics", "here")
    assert refused.code == 2 and "is not HOST:PORT" in refused.err


def test_only_rows_that_a_condition_holds_for(semel, semel_server) -> None:
    semel("produce", "rows", stdin=b"a\nb\nab\n")
    assert semel("copy", "rows", *ends(semel_server), "--until-end", "--where", "value LIKE 'a%'").code == 0
    assert semel("consume", "eu.rows", "-o", ":end").out == "a\nab\n"
    proven = semel("audit", "--input", "rows", "--output", "eu.rows", "--where", "value LIKE 'a%'")
    assert proven.code == 0 and "PROVEN" in proven.out


@pytest.mark.thorough
def test_a_signal_ends_it_well(semel, semel_server) -> None:
    semel("produce", "rows", stdin=b"a\n")
    command = [sys.executable, "-m", "semel.cli", "copy", "rows", *ends(semel_server)]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline_s = time.monotonic() + 30
        while (
            "eu.rows" not in semel("topic", "list").out or not semel("consume", "eu.rows", "-o", ":end").out
        ):
            assert time.monotonic() < deadline_s
        os.kill(child.pid, signal.SIGTERM)
        _, said = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 0 and "copied 1 row " in said


@pytest.mark.thorough
def test_a_server_that_is_away_at_the_start_is_waited_for(semel, semel_server) -> None:
    semel("produce", "rows", stdin=b"a\n")
    command = [sys.executable, "-m", "semel.cli", "copy", "rows", *ends(semel_server), "--until-end"]
    semel_server.stop()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        assert "waiting for it, for 60 s at most" in child.stderr.readline()
        semel_server.restart()
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0 and "copied 1 row " in said


def test_one_that_stays_away_ends_it(semel, semel_server, monkeypatch) -> None:
    monkeypatch.setattr("semel.copy.run.AWAY_MS_MAX", 0)
    semel_server.stop()
    failed = semel("copy", "rows", *ends(semel_server))
    assert failed.code == 1 and "is it running?" in failed.err


def test_an_address_of_no_host_is_not_waited_for(semel, semel_server) -> None:
    failed = semel("copy", "rows", "--from", "no.such.host.invalid:9092", "--to", semel_server.bootstrap)
    assert failed.code == 1 and "waiting" not in failed.err
