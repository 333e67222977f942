"""``semel txn`` at semel's coordinator and at Kafka's: what is open, who waits for it, and an end to it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.cli.conftest import Told

import semel
from semel.errors import BrokerError, ProducerFenced
from semel.types import TopicPartition


@pytest.fixture
def name(bootstrap: str) -> str:
    """Of a topic with two partitions, and of a transactional id."""
    topic = f"txn-{uuid.uuid4().hex[:8]}"
    with semel.Admin(bootstrap) as admin, semel.Producer(bootstrap) as plain:
        admin.create_topic(topic, 2)
        plain.send(topic, b"before", partition=0).result(30)
    return topic


@pytest.fixture
def holder(bootstrap: str, name: str) -> Iterator[semel.Producer]:
    """A producer that never comes to the end of its transaction; behind its row, another one's."""
    producer = semel.Producer(bootstrap, transactional_id=name)
    producer.transaction().__enter__()
    producer.send(name, b"open", partition=0).result(30)
    with semel.Producer(bootstrap) as plain:
        for _ in range(3):
            plain.send(name, b"behind", partition=0)
    yield producer
    try:
        producer.close()
    except ProducerFenced:
        pass


def test_what_is_open_and_who_waits_for_it(
    ask: Callable[..., Told], bootstrap: str, name: str, holder: semel.Producer
) -> None:
    code, out, _ = ask("txn", "list", "--format", "json")
    (listed,) = [item for item in json.loads(out) if item["transactional_id"] == name]
    assert (code, listed["state"], listed["timeout_ms"], listed["partitions"]) == (0, "Ongoing", 60_000, 1)
    assert 0 <= listed["open_ms"] < 60_000

    code, out, _ = ask("txn", "describe", name, "--format", "json")
    document = json.loads(out)
    (held,) = document["partitions"]
    assert (document["state"], held["topic"], held["partition"]) == ("Ongoing", name, 0)
    assert (held["open_from_offset"], held["last_stable_offset"], held["end_offset"]) == (1, 1, 5)
    assert (held["waiting_offsets"], held["is_held"]) == (4, True)

    code, out, _ = ask("txn", "describe", name)
    assert "open-for" in out
    assert "OPEN-FROM-OFFSET" in out
    with semel.Admin(bootstrap) as admin:
        assert name in [item.transactional_id for item in admin.transactions() if item.state == "Ongoing"]
        assert admin.describe_transactions([name])[name].partitions == (TopicPartition(name, 0),)
        assert admin.partitions_held_by(name)[0].is_held


def test_only_those_that_are_open_for_long(
    ask: Callable[..., Told], name: str, holder: semel.Producer
) -> None:
    _, out, _ = ask("txn", "list", "--open-for", "1h", "--format", "json")
    assert json.loads(out) == []
    time.sleep(0.2)
    _, out, _ = ask("txn", "list", "--open-for", "100ms", "--state", "Ongoing")
    assert name in out
    assert ask("txn", "list", "--open-for", "soon")[0] == 2


def test_an_abort_lets_readers_go_on_and_shuts_the_holder_out(
    ask: Callable[..., Told], bootstrap: str, name: str, holder: semel.Producer
) -> None:
    code, _, err = ask("txn", "abort", name, "--dry-run")
    assert code == 0
    assert f"would abort {name}: open for " in err
    assert "4 offsets wait for it in 1" in err
    with semel.Admin(bootstrap) as admin:
        assert admin.describe_transactions([name])[name].state == "Ongoing"
        code, _, err = ask("txn", "abort", name)
        assert (code, f"aborted {name}" in err) == (0, True)
        assert admin.describe_transactions([name])[name].state == "Empty"
        assert admin.partitions_held_by(name) == []
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        seen: list[bytes | None] = []
        while len(seen) < 4:
            seen += [row.value for row in consumer.poll(5.0)]
    assert seen == [b"before", b"behind", b"behind", b"behind"]
    with pytest.raises(ProducerFenced, match="semel txn abort"):
        holder.transaction().__exit__(None, None, None)


def test_a_holder_with_nothing_open_is_left_alone(
    ask: Callable[..., Told], bootstrap: str, name: str, holder: semel.Producer
) -> None:
    with semel.Producer(bootstrap, transactional_id=f"{name}-idle") as idle:
        for end in ([], ["--dry-run"]):
            code, _, err = ask("txn", "abort", f"{name}-idle", *end)
            assert (code, err) == (
                0,
                f"nothing is open under {name}-idle (Empty): its holder is left alone\n",
            )
        code, _, err = ask("txn", "abort", f"{name}-idle", name, "--dry-run")
        assert (code, "its holder would be shut out" in err) == (0, True)
        code, _, err = ask("txn", "abort", f"{name}-idle", name)
        assert (code, err.count("is left alone"), err.count("is shut out by epoch")) == (0, 1, 1)
        with idle.transaction():
            idle.send(name, b"goes on")


def test_a_name_that_is_not_there_is_told_and_not_made(ask: Callable[..., Told], bootstrap: str) -> None:
    for verb in ("describe", "abort"):
        code, out, err = ask("txn", verb, "nobody")
        assert (code, out) == (1, "")
        assert "there is no transactional id 'nobody'" in err
    with semel.Admin(bootstrap) as admin:
        with pytest.raises(BrokerError, match="nobody"):
            admin.abort_transaction("nobody")
        assert "nobody" not in [item.transactional_id for item in admin.transactions()]
