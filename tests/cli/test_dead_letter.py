"""``--dead-letter``: commands go past a batch that nobody can read, and keep it; without, they say the way."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests import poison
from tests.cli.conftest import Command

import semel
from semel.types import TopicPartition

NUMBERS = itertools.count()


@pytest.fixture
def topic(semel_server: semel.LocalLog) -> str:
    """a and b, two offsets that nobody can read, c; and that once more."""
    kinds = list(poison.UNREADABLE.values())
    batches = [poison.good(b"a", b"b"), kinds[1], poison.good(b"c"), kinds[3], poison.good(b"d")]
    poison.produce(semel_server.bootstrap, TopicPartition("t", 0), *batches)
    return "t"


def letters(bootstrap: str) -> list[semel.ConsumerRecord]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition("dead", 0)])
        return consumer.poll(10)


def check_letters(bootstrap: str) -> None:
    """Both, each once."""
    kinds = list(poison.UNREADABLE.values())
    found = letters(bootstrap)
    assert [row.value[17:] for row in found if row.value] == [kinds[1][17:], kinds[3][17:]]
    headers = [dict(row.headers) for row in found]
    assert [header["semel-at"] for header in headers] == [b"t/0/2", b"t/0/5"]
    assert [header["semel-next"] for header in headers] == [b"4", b"7"]
    assert b"gzip" in (headers[1]["semel-why"] or b"")


@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
def test_consume_says_the_way_on_and_goes_it(
    semel: Command, semel_server: semel.LocalLog, topic: str, group: bool
) -> None:
    of_group = ("-g", "g") if group else ()
    done = semel("consume", topic, "-e", *of_group)
    assert (done.code, done.out) == (1, "a\nb\n")
    assert "topic 't', partition 0: the batch at offset 2 cannot be read" in done.err
    assert "its producer wrote it so" in done.err
    assert ("semel group seek g -t t -p 0 --to 4" if group else "semel consume t -p 0 -o 4") in done.err
    done = semel("consume", topic, "-e", "--dead-letter", "dead", *of_group)
    assert (done.code, done.out) == (0, "c\nd\n" if group else "a\nb\nc\nd\n")
    assert "dead has it, and it goes on at offset 4" in done.err
    if not group:
        semel("consume", topic, "-e", "--dead-letter", "dead")
    check_letters(semel_server.bootstrap)


def test_land_commits_what_is_in_front_and_goes_on_behind_it(
    semel: Command, semel_server: semel.LocalLog, topic: str, tmp_path: Path
) -> None:
    from tests.land.landed import PARQUET, read

    land = ("land", topic, "--to", tmp_path / "table", "--format", "parquet", "--until-end", "-q")
    for _ in range(2):
        done = semel(*land)
        assert done.code == 1
        assert "topic 't', partition 0: the batch at offset 2 cannot be read" in done.err
        assert "--dead-letter TOPIC" in done.err
        assert read(tmp_path / "table", PARQUET)["_value"].to_pylist() == [b"a", b"b"]
    for _ in range(2):
        assert semel(*land, "--dead-letter", "dead").code == 0
        assert read(tmp_path / "table", PARQUET)["_value"].to_pylist() == [b"a", b"b", b"c", b"d"]
    check_letters(semel_server.bootstrap)


def test_the_letters_go_to_another_topic(semel: Command, topic: str) -> None:
    done = semel("consume", topic, "-e", "--dead-letter", topic)
    assert "cannot go to t itself" in done.err
