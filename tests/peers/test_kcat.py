"""kcat: list, produce, consume, query, as an operator types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.kcat


def run(kcat: Path, bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(kcat), "-b", bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_with_keys_headers_and_offsets(
    kcat: Path, bootstrap: str, topic: str, codec: str
) -> None:
    lines = "".join(f"key{number}:value {number}\n" for number in range(200))
    run(kcat, bootstrap, *("-P", "-t", topic, "-p", "0", "-K:", "-H", "who=me", "-z", codec), stdin=lines)
    read = run(
        kcat,
        bootstrap,
        *("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", r"%k:%s %h %o\n"),
    )
    assert read.splitlines() == [f"key{number}:value {number} who=me {number}" for number in range(200)]


def test_the_tail_is_read_by_a_relative_offset(kcat: Path, bootstrap: str, topic: str) -> None:
    run(kcat, bootstrap, *("-P", "-t", topic, "-p", "0"), stdin="a\nb\nc\n")
    assert run(kcat, bootstrap, *("-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q")) == "b\nc\n"


def test_metadata_and_offsets_are_listed(kcat: Path, bootstrap: str, topic: str) -> None:
    run(kcat, bootstrap, *("-P", "-t", topic, "-p", "0"), stdin="a\nb\n")
    listing = json.loads(run(kcat, bootstrap, "-L", "-J", "-t", topic))
    assert [each["topic"] for each in listing["topics"]] == [topic]
    assert [each["name"] for each in listing["brokers"]] == [bootstrap]
    assert run(kcat, bootstrap, "-Q", "-t", f"{topic}:0:-1") == f"{topic} [0] offset 2\n"
    assert run(kcat, bootstrap, "-Q", "-t", f"{topic}:0:-2") == f"{topic} [0] offset 0\n"
