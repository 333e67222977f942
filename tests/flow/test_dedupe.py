"""Topics whose writers doubled rows, and flows that take each once: on a real server, in this process."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import uuid
from collections import Counter

import pyarrow as pa
import pytest
from tests.flow.flowing import end_offsets, records, rows, run, wait_for_growth

import semel
from semel.core.flow.lineage import LINEAGE_HEADER, Lineage
from semel.core.flow.pieces import HEADERS_TYPE
from semel.flow import source
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts

ID = uuid.UUID("7d9f3bb0-31ab-4b8e-9d7c-6f1f6f0a2b11")
COLUMNS = "user string, n bigint"


def clean():
    return source("dirty", dedupe="lineage").to("clean")


def made_of(partition: int, offset: int) -> list[tuple[bytes, bytes]]:
    """The rows that a writer makes of one row of its source: the first none, the third two."""
    return [
        (f"u{(offset + number) % 7}".encode(), f'{{"user":"u{(offset + number) % 7}","n":1}}'.encode())
        for number in range(offset % 3)
    ]


def write(bootstrap: str, topic: str, partition: int, begin: int, end: int, topic_id=ID) -> None:
    """What a writer at least once sends of a range of its source, in one go."""
    sent = [
        (
            key,
            value,
            [
                dict(
                    zip(
                        ("key", "value"),
                        Lineage("clicks", partition, offset, number, topic_id).header(),
                        strict=True,
                    )
                )
            ],
        )
        for offset in range(begin, end)
        for number, (key, value) in enumerate(made_of(partition, offset))
    ]
    keys, values, headers = zip(*sent, strict=True)
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, HEADERS_TYPE),
    }
    with semel.Producer(bootstrap) as producer:
        producer.send_table(topic, pa.table(columns))


def write_and_write_again(bootstrap: str, topic: str, seed: int, rows_each: int = 300) -> None:
    """Two source partitions, whose writers die and begin again at an older offset, with copies that go on meanwhile."""
    dice = random.Random(seed)
    done = [0, 0]
    while min(done) < rows_each:
        partition = dice.randrange(2)
        begin = max(0, done[partition] - dice.randrange(60))
        end = min(rows_each, done[partition] + dice.randrange(1, 50))
        if end - begin < 3:
            continue
        write(bootstrap, topic, partition, begin, end)
        done[partition] = max(end, done[partition])


def expected(rows_each: int = 300) -> Counter:
    return Counter(
        (partition, offset, number)
        for partition, offset in itertools.product(range(2), range(rows_each))
        for number in range(offset % 3)
    )


def lineages(found) -> Counter:
    of = [Lineage.read(record["headers"][0]["value"]) for record in found]
    return Counter((each.partition, each.offset, each.index) for each in of)


@pytest.fixture
def bootstrap(semel_server):
    with semel.Admin(semel_server.bootstrap) as admin:
        admin.create_topic("dirty", 3)
        admin.create_topic("clean", 2)
    return semel_server.bootstrap


def test_a_cleaned_topic_has_each_row_once_as_it_was(bootstrap, tmp_path):
    for turn in range(3):
        write_and_write_again(bootstrap, "dirty", turn)
        run(clean(), bootstrap, tmp_path, Cuts(entries_max=1 + turn))
    dirty, cleaned = records(bootstrap, "dirty"), records(bootstrap, "clean")
    assert max(lineages(dirty).values()) > 3
    assert lineages(cleaned) == expected()
    whole = {(record["key"], record["value"], str(record["headers"])) for record in dirty}
    assert {(record["key"], record["value"], str(record["headers"])) for record in cleaned} == whole
    assert records(bootstrap, "clean.bad") == []
    again = replay(clean().plan(), bootstrap)
    assert again.holds and again.is_complete, again.text()


@pytest.mark.thorough
def test_what_is_counted_is_counted_once_behind_a_key_of_its_own_or_the_one_that_it_has(bootstrap, tmp_path):
    write_and_write_again(bootstrap, "dirty", 7)
    behind = source("dirty", json=COLUMNS, dedupe="lineage").key_by("user").sum("n").to("behind")
    at_once = source("dirty", json=COLUMNS, key="user", dedupe="lineage").sum("n").to("at-once")
    assert [len(flow.plan().stages) for flow in (behind, at_once)] == [2, 1]
    wanted = Counter()
    for _, offset, number in expected():
        wanted[f"u{(offset + number) % 7}"] += 1
    for flow in (behind, at_once):
        run(flow, bootstrap, tmp_path / flow.name)
        assert {row["user"]: row["sum_n"] for row in rows(bootstrap, flow.name)} == wanted
        assert replay(flow.plan(), bootstrap).holds


def test_a_source_that_was_made_anew_is_another_and_a_row_without_a_header_is_bad(bootstrap, tmp_path):
    write(bootstrap, "dirty", 0, 0, 5)
    write(bootstrap, "dirty", 0, 0, 5, topic_id=uuid.uuid4())
    write(bootstrap, "dirty", 0, 0, 5)
    with semel.Producer(bootstrap) as producer:
        producer.send("dirty", b"a stranger's", key=b"u1")
    run(clean(), bootstrap, tmp_path)
    assert sum(lineages(records(bootstrap, "clean")).values()) == 2 * sum(n % 3 for n in range(5))
    (bad,) = records(bootstrap, "clean.bad")
    assert bad["value"] == b"a stranger's"
    why = {pair["key"]: pair["value"].decode() for pair in bad["headers"]}
    assert LINEAGE_HEADER in why["semel-why"]


def test_headers_go_with_rows_as_they_were_and_not_with_what_a_step_makes_of_them(bootstrap, tmp_path):
    write(bootstrap, "dirty", 0, 0, 9)
    deduped = source("dirty", json=COLUMNS, dedupe="lineage")
    run(deduped.filter(lambda row: row.user != "u1").to("kept"), bootstrap, tmp_path)
    run(deduped.map(lambda row: row).to("made"), bootstrap, tmp_path)
    assert all(record["headers"] for record in records(bootstrap, "kept"))
    assert not any(record["headers"] for record in records(bootstrap, "made"))


CHILD = """
import sys
from pathlib import Path
from semel.flow.here import run_here
from semel.flow.stage_ranges import Cuts
from tests.flow.test_dedupe import clean
run_here(clean().plan(), sys.argv[1], store=Path(sys.argv[2]), cuts=Cuts(entries_max=int(sys.argv[3])))
"""


@pytest.mark.thorough
def test_a_clean_up_job_that_is_killed_takes_each_row_once(bootstrap, tmp_path):
    for turn in range(4):
        before = end_offsets(bootstrap, "clean")
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, bootstrap, str(tmp_path), str(1 + turn)], stderr=subprocess.DEVNULL
        )
        write_and_write_again(bootstrap, "dirty", turn, 200 + 50 * turn)
        wait_for_growth(bootstrap, "clean", child, 1 + 10 * turn, before)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    run(clean(), bootstrap, tmp_path)
    assert lineages(records(bootstrap, "clean")) == expected(350)
    again = replay(clean().plan(), bootstrap)
    assert again.holds and again.is_complete, again.text()
