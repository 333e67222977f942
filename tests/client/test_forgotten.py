"""What an identity was saved with is held against logs that have forgotten it, or are others of the same name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.apache_kafka import ApacheKafka, JavaTool

import semel
from semel.client.consumer import ConsumerRecord
from semel.client.identity import IdentityFile
from semel.core.client.saved import SavedIdentity
from semel.errors import CannotKnow, InputDiffers, ProducerFenced
from semel.types import TopicPartition

EXPIRY_MS = 1_500
FORGETFUL = {
    "transactional.id.expiration.ms": str(EXPIRY_MS),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    "producer.id.expiration.ms": str(EXPIRY_MS),
    "producer.id.expiration.check.interval.ms": "100",
}


@pytest.fixture(scope="module")
def forgetful_kafka(java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Apache Kafka that forgets names and producer ids after moments instead of days."""
    folder = tmp_path_factory.mktemp("forgetful")
    with ApacheKafka(java_tool.java, java_tool.jars, folder, settings=FORGETFUL) as node:
        yield node


@pytest.fixture(params=["semel", pytest.param("apache-kafka", marks=[pytest.mark.kafka])])
def bootstrap(request: pytest.FixtureRequest) -> str:
    name = "semel_server" if request.param == "semel" else "apache_kafka"
    return str(request.getfixturevalue(name).bootstrap)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return request.node.name.replace("[", "-").rstrip("]")[-100:]


def load(bootstrap: str, topic: str, identity: Path, rows: list[str], **settings) -> tuple[int, int]:
    """Rows skipped, and dropped."""
    with semel.Producer(bootstrap, identity_store=identity, **settings) as producer:
        for position, row in producer.resume(rows):
            producer.send(topic, row, position=position)
        producer.flush()
        return producer.rows_skipped, producer.rows_dropped


def stored_rows(bootstrap: str, topic: str) -> list[str]:
    with semel.Consumer(bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        rows: list[str] = []
        while records := consumer.poll(0.5, max_records=100_000):
            rows += [(record.value or b"").decode() for record in records]
        return rows


def saved_in(identity: Path) -> SavedIdentity:
    saved = IdentityFile(identity).read()
    assert saved is not None
    return saved


def wait_until_forgotten(bootstrap: str, topic: str, producer_id: int) -> None:
    """Until no partition knows the id; the name is forgotten as fast."""
    time.sleep(2 * EXPIRY_MS / 1000)
    with semel.Admin(bootstrap) as admin:
        give_up_s = time.monotonic() + 30
        while any(
            item.producer_id == producer_id
            for item in admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        ):
            assert time.monotonic() < give_up_s
            time.sleep(0.1)


# -- names and producer ids ------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_name_that_was_forgotten_goes_on_under_another_id(
    forgetful_kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    bootstrap, identity = forgetful_kafka.bootstrap, tmp_path / "id"
    load(bootstrap, topic, identity, ["0", "1"])
    first = saved_in(identity)
    wait_until_forgotten(bootstrap, topic, first.producer_id)
    assert load(bootstrap, topic, identity, ["0", "1", "2"]) == (2, 0)
    second = saved_in(identity)
    assert second.producer_id != first.producer_id
    assert second.earlier_ids == ()  # nothing of it is still to be dropped
    wait_until_forgotten(bootstrap, topic, second.producer_id)
    with pytest.raises(InputDiffers):
        load(bootstrap, topic, identity, ["a", "b", "c", "d"])
    assert load(bootstrap, topic, identity, ["0", "1", "2"]) == (3, 0)
    assert stored_rows(bootstrap, topic) == ["0", "1", "2"]


@pytest.mark.kafka
def test_rows_that_ids_of_old_stored_behind_the_position_are_counted_and_compared(
    forgetful_kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    """Two crashes before a save, and each time the brokers forget who wrote."""
    bootstrap, identity = forgetful_kafka.bootstrap, tmp_path / "id"
    rows = [str(number) for number in range(8)]
    for end in (3, 6):
        with semel.Producer(bootstrap, identity_store=identity, save_interval_ms=10**9) as producer:
            kept = identity.read_bytes()
            for position, row in producer.resume(rows[:end]):
                producer.send(topic, row, position=position).result(10)
                if end == 3 and not position:
                    kept = identity.read_bytes()
        identity.write_bytes(kept)
        wait_until_forgotten(bootstrap, topic, saved_in(identity).producer_id)
    assert len(saved_in(identity).earlier_ids) == 1
    with pytest.raises(InputDiffers, match="row 4 of the 6"):
        load(bootstrap, topic, identity, [*rows[:4], "another", *rows[5:]])
    assert load(bootstrap, topic, identity, rows) == (6, 6)
    assert stored_rows(bootstrap, topic) == rows


@pytest.mark.kafka
def test_a_file_from_before_the_name_was_forgotten_claims_nothing_of_what_came_since(
    forgetful_kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    """A copy that went on under another id stored rows that the file put back knows nothing of."""
    bootstrap, identity = forgetful_kafka.bootstrap, tmp_path / "id"
    load(bootstrap, topic, identity, ["0", "1"])
    earlier = identity.read_bytes()
    wait_until_forgotten(bootstrap, topic, saved_in(identity).producer_id)
    load(bootstrap, topic, identity, ["0", "1", "2"])
    newest = identity.read_bytes()
    identity.write_bytes(earlier)
    for _ in range(2):
        with pytest.raises(CannotKnow, match="under producer id"):
            load(bootstrap, topic, identity, ["0", "1", "2", "3"])
    assert stored_rows(bootstrap, topic) == ["0", "1", "2"]
    identity.write_bytes(newest)
    load(bootstrap, topic, identity, ["0", "1", "2", "3"])
    assert stored_rows(bootstrap, topic) == ["0", "1", "2", "3"]


@pytest.mark.kafka
def test_a_copy_that_died_as_it_was_granted_another_id_leaves_the_file_usable(
    forgetful_kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    bootstrap, identity = forgetful_kafka.bootstrap, tmp_path / "id"
    load(bootstrap, topic, identity, ["0", "1"])
    saved = saved_in(identity)
    wait_until_forgotten(bootstrap, topic, saved.producer_id)
    with semel.Admin(bootstrap) as admin:
        assert admin.cluster.init_producer_id(saved.name).producer_id != saved.producer_id
    load(bootstrap, topic, identity, ["0", "1", "2"])
    assert stored_rows(bootstrap, topic) == ["0", "1", "2"]


@pytest.mark.kafka
def test_an_older_copy_is_shut_out_though_its_name_was_forgotten(
    forgetful_kafka: ApacheKafka, topic: str, tmp_path: Path
) -> None:
    bootstrap, identity = forgetful_kafka.bootstrap, tmp_path / "id"
    with semel.Producer(bootstrap, identity_store=identity) as older:
        older.send(topic, "0", position=0).result(10)
        older.flush()
        wait_until_forgotten(bootstrap, topic, saved_in(identity).producer_id)
        load(bootstrap, topic, identity, ["0", "1"])
        with pytest.raises(ProducerFenced):
            older.send(topic, "1", position=1).result(10)
    assert stored_rows(bootstrap, topic) == ["0", "1"]


def test_a_cluster_that_grants_an_epoch_twice_is_not_believed(
    semel_server: semel.LocalLog, topic: str, tmp_path: Path
) -> None:
    """Its data was put back to an earlier state, in which the name had a lower epoch."""
    identity = tmp_path / "id"
    load(semel_server.bootstrap, topic, identity, ["0"])
    saved = saved_in(identity)
    with semel.Producer(semel_server.bootstrap, identity_store=identity):
        pass
    IdentityFile(identity).write(SavedIdentity(saved.name, saved.producer_id, saved.producer_epoch + 5))
    with pytest.raises(CannotKnow, match="lost what it knew of this name"):
        load(semel_server.bootstrap, topic, identity, ["0", "1"])
    assert stored_rows(semel_server.bootstrap, topic) == ["0"]


# -- topics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row_count", [0, 2, 5], ids=["shorter", "as-long", "longer"])
def test_a_topic_that_was_made_anew_is_refused_however_long_it_is(
    bootstrap: str, topic: str, tmp_path: Path, row_count: int
) -> None:
    identity = tmp_path / "id"
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic)
        load(bootstrap, topic, identity, ["0", "1"])
        before = identity.read_bytes()
        admin.delete_topic(topic)
        admin.create_topic(topic)
    with semel.Producer(bootstrap) as other:
        for number in range(row_count):
            other.send(topic, f"other-{number}").result(10)
    for _ in range(2):
        with pytest.raises(CannotKnow, match="made anew"):
            load(bootstrap, topic, identity, ["0", "1", "2"])
    assert stored_rows(bootstrap, topic) == [f"other-{number}" for number in range(row_count)]
    assert identity.read_bytes() == before


def test_a_topic_that_is_gone_is_named(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """And is not made anew by asking for it."""
    identity = tmp_path / "id"
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic)
        load(bootstrap, topic, identity, ["0", "1"])
        admin.delete_topic(topic)
        with pytest.raises(CannotKnow, match="is gone"):
            load(bootstrap, topic, identity, ["0", "1", "2"], request_timeout_ms=3_000)
        assert topic not in admin.list_topics()


# -- an identity in an offset commit ---------------------------------------------------------------------


def copy(bootstrap: str, source: TopicPartition, out: str) -> int:
    """From one topic into another; how many rows were dropped as stored."""
    store = semel.CommittedIdentity(f"loader-{out}", source)
    with (
        semel.Consumer(bootstrap) as consumer,
        semel.Producer(bootstrap, identity_store=store) as producer,
    ):

        def records_from(position: int | None) -> Iterator[tuple[int, ConsumerRecord]]:
            consumer.assign({source: position or 0})
            while records := consumer.poll(0.5):
                yield from ((record.offset, record) for record in records)

        for position, record in producer.resume(records_from):
            producer.send(out, record.value, position=position)
        producer.flush()
        return producer.rows_dropped


@pytest.fixture
def source(bootstrap: str, topic: str) -> TopicPartition:
    fill(bootstrap, topic, 5)
    return TopicPartition(topic, 0)


def fill(bootstrap: str, topic: str, row_count: int, prefix: str = "") -> None:
    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic)
    with semel.Producer(bootstrap) as producer:
        for number in range(row_count):
            producer.send(topic, f"{prefix}{number}")


def test_an_input_topic_that_was_made_anew_is_refused(bootstrap: str, source: TopicPartition) -> None:
    """The committed offset would pass over its first rows."""
    out = f"{source.topic}-out"
    copy(bootstrap, source, out)
    copy(bootstrap, source, out)
    with semel.Admin(bootstrap) as admin:
        committed = admin.cluster.committed_offsets(f"loader-{out}", [source])[source]
        admin.delete_topic(source.topic)
        fill(bootstrap, source.topic, 8, "anew-")
        # Apache Kafka forgets the commit with the topic; a copy of it may be put back.
        admin.cluster.commit_offsets(f"loader-{out}", {source: (committed.offset, committed.metadata)})
    with pytest.raises(InputDiffers, match="made anew"):
        copy(bootstrap, source, out)
    assert stored_rows(bootstrap, out) == [str(number) for number in range(5)]


@pytest.mark.kafka
def test_a_commit_that_was_forgotten_is_made_up_for_by_what_the_log_holds(
    apache_kafka: ApacheKafka, java_tool: JavaTool, topic: str
) -> None:
    """As after offsets.retention.minutes: the name, and with it the id, is the same again."""
    bootstrap, source, out = apache_kafka.bootstrap, TopicPartition(topic, 0), f"{topic}-out"
    fill(bootstrap, topic, 5)
    assert copy(bootstrap, source, out) == 0
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    java_tool.output(groups, "--bootstrap-server", bootstrap, "--delete", "--group", f"loader-{out}")
    assert copy(bootstrap, source, out) == 5
    assert stored_rows(bootstrap, out) == [str(number) for number in range(5)]
