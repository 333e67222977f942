"""``semel consume`` as a person at a terminal meets it: a server that goes away, and offsets that are not there."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import IO

import pytest
from tests.cli.conftest import Command

from semel.local import LocalLog

Start = Callable[..., subprocess.Popen[bytes]]
WHY = r"\((broker {}: .*|it is silent)\)"  # on a busy machine nothing may have failed within the 3 seconds


@pytest.fixture
def start(semel_server: LocalLog) -> Iterator[Start]:
    """``start("consume", "t")``: the command as a process of its own."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "semel.cli", *arguments, "-b", semel_server.bootstrap]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def lines_of(stream: IO[bytes] | None) -> Queue[str]:
    """The lines as they come, so that a test waits for one and no longer than it may."""
    assert stream is not None
    lines: Queue[str] = Queue()
    threading.Thread(target=lambda: [lines.put(line.decode()) for line in stream], daemon=True).start()
    return lines


@pytest.mark.thorough
def test_who_follows_is_told_that_the_server_is_away_and_goes_on(
    semel: Command, semel_server: LocalLog, start: Start
) -> None:
    semel("produce", "t", stdin=b"before\n")
    consumer = start("consume", "t")
    rows, notes = lines_of(consumer.stdout), lines_of(consumer.stderr)
    assert rows.get(timeout=30) == "before\n"
    semel_server.crash()
    said = notes.get(timeout=30)
    assert re.fullmatch(
        f"semel: no answer for 3 s {WHY.format(semel_server.bootstrap)}; still trying\n", said
    )
    semel_server.start()
    assert notes.get(timeout=30) == "semel: it answers again\n"
    semel("produce", "t", stdin=b"after\n")
    assert rows.get(timeout=30) == "after\n"
    assert (consumer.poll(), notes.empty()) == (None, True)


@pytest.mark.thorough
def test_who_wants_a_part_is_told_and_fails_when_the_server_stays_away(
    semel: Command, semel_server: LocalLog, start: Start
) -> None:
    semel("produce", "t", stdin=b"x" * 600_000 + b"\n" + b"y" * 600_000 + b"\n")
    settings = ("-X", "partition.max.bytes=100000", "-X", "max.bytes=100000", "-X", "request.timeout.ms=4000")
    consumer = start("consume", "t", "-e", *settings)
    assert consumer.stdout is not None
    assert consumer.stdout.read(1) == b"x"  # the pipe is full: it waits for us, with the second row to come
    semel_server.crash()
    out, err = consumer.communicate(timeout=60)
    assert (consumer.returncode, out.rstrip().strip(b"x")) == (1, b"")
    *_, told, failed = err.decode().splitlines()  # a busy machine may have kept it waiting before
    assert told.startswith("semel: no answer for 3 s (")
    assert failed.startswith(f"semel: broker {semel_server.bootstrap}: ")
    assert "is it running?" in failed


@pytest.mark.thorough
def test_an_offset_that_is_not_there_is_told(semel: Command) -> None:
    semel("produce", "t", stdin=b"a\nb\nc\n")
    beyond = semel("consume", "t", "-o", "99999", "-e")
    assert (beyond.code, beyond.out) == (0, "")
    assert beyond.err == "t-0: offset 99999 is not written yet; it ends at 3, and is read from there\n"
    semel("topic", "trim-prefix", "t", "-o", "2")
    trimmed = semel("consume", "t", "-o", "0", "-e")
    assert (trimmed.code, trimmed.out) == (0, "c\n")
    assert trimmed.err == "t-0: offset 0 is gone, trimmed or by retention; it begins at 2\n"
    for there in ("start", "2", "3", "+0", "-1", "@-1h"):
        assert semel("consume", "t", "-o", there, "-e").err == ""
