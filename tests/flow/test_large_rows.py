"""Rows of any size: what the source takes goes through, and what fits nowhere is a bad row, cut."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from tests.flow.flowing import records, rows, run

import semel
from semel.flow import source
from semel.flow.plan import record_bytes_max
from semel.flow.replay import replay


def put_large(bootstrap: str, topic: str, *given: object, bytes_max: int = 1_048_588) -> None:
    """Into a topic that takes batches of so much."""
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, 1, configs={"max.message.bytes": str(bytes_max)})
    values = pa.array([json.dumps(row).encode() for row in given], pa.binary())
    with semel.Producer(bootstrap, batch_bytes=min(bytes_max, 1_000_000)) as producer:
        producer.send_table(topic, pa.table({"value": values}))


def bad(bootstrap: str, topic: str) -> list[dict[str, str]]:
    """The headers of the rows, and how long key and value are."""
    return [
        {header["key"]: header["value"].decode() for header in each["headers"]}
        | {"size": len(each["key"] or b"") + len(each["value"] or b"")}
        for each in records(bootstrap, topic)
    ]


def test_a_key_that_doubles_a_row_goes_through_and_a_state_does_not_take_it(semel_server, tmp_path):
    bootstrap, large = semel_server.bootstrap, "x" * 600_000
    put_large(bootstrap, "w", {"k": "a"}, {"k": large}, {"k": "a"})
    words = source("w", json="k string").key_by("k")
    flow, plain = words.count().to("c"), words.filter(bool).to("plain")
    run(flow, bootstrap, tmp_path)
    run(plain, bootstrap, tmp_path)
    assert rows(bootstrap, "c") == [{"k": "a", "count": 2}]
    assert sorted(len(row["k"]) for row in rows(bootstrap, "plain")) == [1, 1, 600_000]
    (told,) = bad(bootstrap, "c.bad")
    assert told["semel-why"] == "its key is of 600000 bytes, and a step with state takes keys of up to 65472"
    assert "semel-cut" in told and told["size"] < 1_000_000
    for each in (flow, plain):
        assert replay(each.plan(), bootstrap).holds


@pytest.mark.thorough
def test_what_the_source_takes_the_topics_of_the_flow_take(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put_large(
        bootstrap, "w", {"k": "a", "text": "x" * 3_000_000}, {"k": "b", "text": "y"}, bytes_max=4_000_000
    )
    flow = source("w", json="k string, text string").key_by("k").filter(lambda row: True).to("out")
    run(flow, bootstrap, tmp_path)
    assert sorted(len(row["text"]) for row in rows(bootstrap, "out")) == [1, 3_000_000]
    assert replay(flow.plan(), bootstrap).holds


def test_what_an_output_does_not_take_is_bad(semel_server, tmp_path):
    """However small: batches are cut to what it takes, too."""
    bootstrap = semel_server.bootstrap
    put_large(bootstrap, "w", *({"k": "x" * size} for size in [5_000] * 9 + [30_000]))
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 1, configs={"max.message.bytes": "20000"})
    flow = source("w", json="k string").map(lambda row: {"k": row.k + "!"}, schema="k string").to("out")
    run(flow, bootstrap, tmp_path)
    assert [len(row["k"]) for row in rows(bootstrap, "out")] == [5_001] * 9
    (told,) = bad(bootstrap, "out.bad")
    assert "a record of 30009 bytes, and topic 'out' takes up to 13976" in told["semel-why"]
    assert told["semel-at"] == "w/0/9"
    assert replay(flow.plan(), bootstrap).holds


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["table", "min", "window"])
def test_a_row_that_a_state_cannot_keep_is_bad(semel_server, tmp_path, step):
    bootstrap, large = semel_server.bootstrap, "x" * 800_000
    put_large(bootstrap, "w", {"k": "a", "text": large, "at": 0}, {"k": "a", "text": "y", "at": 1})
    given = source("w", json="k string, text string, at timestamp")
    flow = {
        "table": source("v", json="k string").join(given.as_table("k")),
        "min": given.key_by("k").min("text"),
        "window": given.key_by("k").tumbling("1 minute", on="at").last(),
    }[step].to("out")
    put_large(bootstrap, "v", {"k": "a"})
    run(flow, bootstrap, tmp_path)
    (told,) = bad(bootstrap, "out.bad")
    assert "of 8000" in told["semel-why"] and "up to 716800" in told["semel-why"]
    assert replay(flow.plan(), bootstrap).holds


def test_what_a_topic_takes():
    assert [record_bytes_max(size) for size in (1_048_588, 20_000, 10_000_000)] == [
        1_000_000,
        15_000,
        9_951_412,
    ]
