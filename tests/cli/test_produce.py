"""``produce`` when it does not come to its end: which lines are stored, and what may be sent again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import semel as semel_api
from semel.local import LocalLog
from semel.types import TopicPartition

TOO_LARGE = b"x" * 3_000_000


def values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The first ``count`` rows of its only partition."""
    rows: list[bytes | None] = []
    with semel_api.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        give_up_s = time.monotonic() + 20
        while len(rows) < count and time.monotonic() < give_up_s:
            rows += [record.value for record in consumer.poll(0.3)]
    return rows


@contextmanager
def started(bootstrap: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has stored the lines a and b of topic t, and waits for more."""
    command = [sys.executable, "-m", "semel.cli", "produce", "t", "-b", bootstrap, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        assert values(bootstrap, "t", 2) == [b"a", b"b"]
        yield process


def test_a_line_that_fails_is_named_with_what_is_stored_beside_it(semel) -> None:
    semel("topic", "create", "big")
    done = semel("produce", "big", stdin=b"ok1\nok2\n" + TOO_LARGE + b"\nok4\n")
    assert done.code == 1
    assert done.err.startswith("semel: line 3 is not stored: ")
    assert "[MESSAGE_TOO_LARGE]" in done.err
    assert done.err.endswith(
        "; 3 records of this input are stored in topic big, and nothing behind line 4 was sent: mend line 3, and send "
        "it alone, with what is behind line 4 if there is more; all of it again would store those 3 twice\n"
    )
    assert semel("consume", "big", "-e").out == "ok1\nok2\nok4\n"


def test_it_reads_no_further_than_the_first_failure(semel) -> None:
    semel("topic", "create", "big")
    done = semel("produce", "big", stdin=TOO_LARGE + b"\n" + b"row\n" * 50_000)
    assert done.code == 1
    found = re.search(r"; ([\d,]+) records? of this input .* nothing behind line ([\d,]+) was sent", done.err)
    assert found is not None, done.err
    stored, last = (int(number.replace(",", "")) for number in found.groups())
    assert last == stored + 1 < 50_000
    assert semel("consume", "big", "-e").out == "row\n" * stored


@pytest.mark.thorough
def test_lines_in_doubt_are_told_from_those_that_are_stored(semel, semel_server: LocalLog) -> None:
    semel("topic", "create", "t")
    server = semel_server.process_id
    assert server is not None
    quick = ("-X", "delivery.timeout.ms=600", "-X", "request.timeout.ms=500")
    with started(semel_server.bootstrap, *quick) as process:
        assert process.stdin is not None
        os.kill(server, signal.SIGSTOP)
        try:
            _, said = process.communicate(b"c\n", timeout=30)
        finally:
            os.kill(server, signal.SIGCONT)
    text = said.decode()
    assert process.returncode == 1
    assert text.startswith("semel: line 3 may or may not be stored: not acknowledged within 600 ms")
    assert text.endswith(
        "; 2 records of this input are stored in topic t, and nothing behind line 3 was sent; look for line 3 in the "
        "topic before you send it again; all of it again would store those 2 twice\n"
    )


def test_with_an_identity_a_failed_line_is_mended_and_the_same_run_again(semel, tmp_path: Path) -> None:
    semel("topic", "create", "big")
    identity = str(tmp_path / "id")
    done = semel("produce", "big", "--identity", identity, stdin=b"ok1\n" + TOO_LARGE + b"\nok3\n")
    assert done.code == 1
    assert done.err.startswith("semel: line 2 is not stored: ")
    assert done.err.endswith(
        "; mend it, and run the same again with this --identity: what is stored is skipped\n"
    )
    again = semel("produce", "big", "--identity", identity, stdin=b"ok1\nok2\nok3\n")
    assert again.code == 0, again.err
    assert semel("consume", "big", "-e").out == "ok1\nok2\nok3\n"


def interrupted(bootstrap: str, *options: str) -> tuple[int, str]:
    """Exit code and stderr of a run that had stored two lines and waited for more, when Ctrl-C came."""
    with started(bootstrap, *options) as process:
        assert process.stdin is not None and process.stderr is not None
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read().decode()
        process.stdin.close()
        return process.wait(30), said


@pytest.mark.thorough
def test_ctrl_c_tells_how_many_records_are_stored(semel, semel_server: LocalLog) -> None:
    semel("topic", "create", "t")
    assert interrupted(semel_server.bootstrap) == (
        130,
        "semel: interrupted: 2 records of this input are stored in topic t, and nothing behind line 2 was sent; all of "
        "it again would store those 2 twice: send the rest alone (a run that was begun with --identity goes on by "
        "itself)\n",
    )


@pytest.mark.thorough
def test_ctrl_c_with_an_identity_says_that_the_same_goes_on(
    semel, semel_server: LocalLog, tmp_path: Path
) -> None:
    semel("topic", "create", "t")
    identity = str(tmp_path / "id")
    assert interrupted(semel_server.bootstrap, "--identity", identity) == (
        130,
        "semel: interrupted: 2 records of this input are stored in topic t; run the same again with this --identity, "
        "and it goes on behind them\n",
    )
    done = semel("produce", "t", "--identity", identity, stdin=b"a\nb\nc\n")
    assert done.err.endswith("delivered 1 record to topic t; skipped 2 that are stored\n")


def test_going_by_number_is_offered_only_for_lines_that_may_be_the_same(semel, tmp_path: Path) -> None:
    semel("topic", "create", "days")
    identity = str(tmp_path / "id")
    semel("produce", "days", "--identity", identity, stdin=b"a\nb\nc\n")
    other = semel("produce", "days", "--identity", identity, stdin=b"x\ny\nz\n")
    assert other.err.startswith("semel: line 1 of the input is not the one that is stored")
    assert "only where they are made anew with other contents each time" in other.err
    assert "-X compare.rows=false" in other.err
    elsewhere = semel("produce", "nights", "--identity", identity, stdin=b"a\nb\nc\n")
    shorter = semel("produce", "days", "--identity", identity, stdin=b"a\nb\n")
    for refused in (elsewhere, shorter):
        assert refused.code == 1
        assert "compare" not in refused.err and "an --identity file of their own" in refused.err


def test_lines_that_are_told_by_number_are_said_to_be(semel, tmp_path: Path) -> None:
    semel("topic", "create", "days")
    identity = str(tmp_path / "id")
    semel("produce", "days", "--identity", identity, stdin=b"a1\nb1\nc1\n")
    by_number = ("--identity", identity, "-X", "compare.rows=false")
    done = semel("produce", "days", *by_number, stdin=b"a2\nb2\nc2\nd2\n")
    assert done.err == "delivered 1 record to topic days; skipped 3 by number, not compared\n"
    elsewhere = semel("produce", "nights", *by_number, stdin=b"a\nb\nc\nd\ne\n")
    assert elsewhere.code == 1
    assert "went to topic 'days', and comes for topic 'nights'" in elsewhere.err
    assert "nights" not in semel("topic", "list").out


def test_an_identity_that_cannot_be_saved_is_named_and_nothing_was_sent(semel, tmp_path: Path) -> None:
    semel("topic", "create", "t")
    identity = tmp_path / "missing" / "id"
    done = semel("produce", "t", "--identity", str(identity), stdin=b"a\n")
    assert (done.code, done.err) == (
        1,
        f"semel: cannot save the identity in {identity}: No such file or directory; nothing was sent\n",
    )
    assert semel("consume", "t", "-e").out == ""
