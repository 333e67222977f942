"""A changelog on a server: only this stage's writers count, and what is gone is told."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.core.flow.stage import Entry, Stage, model

import semel
from semel.client.blocking import Cluster
from semel.core.flow.changelog import ChangelogRows, joined
from semel.core.flow.state import MemoryBase
from semel.errors import DataLoss
from semel.flow.changelog import read_changelog
from semel.flow.store import ReadChangelog, Store
from semel.record.columnar import encode_columns
from semel.spark.sink_log import create_topic
from semel.types import ProducerGrant, TopicPartition

TP = TopicPartition("flow.stage.changelog", 0)


def entries(count: int, first: int = 0) -> list[Entry]:
    return [
        tuple((b"%d" % (number * 7 % 50 + step), b"%d" % number) for step in range(5))
        for number in range(first, first + count)
    ]


class Changelog:
    """What writers have stored in a real one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rows: Counter[ProducerGrant] = Counter()

    def write(self, writer: ProducerGrant, rows: ChangelogRows) -> None:
        for batch in encode_columns(
            rows.keys,
            rows.values,
            1_000,
            batch_rows_max=3,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            base_sequence=self.rows[writer],
        ):
            assert not self.cluster.produce({TP: bytes(batch)})[TP].error_code
        self.rows[writer] += len(rows)

    def end(self) -> int:
        return int(self.cluster.list_offsets({TP: -1})[TP].offset)

    def reading(self, *writers: ProducerGrant) -> ReadChangelog:
        ids = {writer.producer_id for writer in writers}

        def read(from_offset: int, end_offset: int) -> Iterator[tuple[pa.Array, pa.Array]]:
            return read_changelog(self.cluster, TP, ids, from_offset, end_offset)

        return read


@pytest.fixture
def changelog(semel_server: semel.LocalLog) -> Iterator[Changelog]:
    with Cluster(semel_server.bootstrap) as cluster:
        create_topic(cluster, TP.topic, 1)
        yield Changelog(cluster)


def test_each_decided_state_comes_back_from_among_others_rows(changelog: Changelog, tmp_path: Path) -> None:
    ours, of_the_next_generation, stranger = (changelog.cluster.init_producer_id() for _ in range(3))
    stage, other = Stage(0, 5), Stage(0, 5)
    decided: dict[int, int] = {}
    for number, end in enumerate([3, 4, 9, 20, 21]):
        writer = ours if number < 3 else of_the_next_generation
        start = stage.decided_end
        other.decide(*other.attempt(other.base(), entries(2, 90 + number)), 2)
        changelog.write(stranger, joined(other.log[-1:]))
        begun_at = changelog.end()
        state, written = stage.attempt(stage.base(), entries(end - start, start))
        state._changelog_end = begun_at
        changelog.write(writer, joined(written[:1]))
        changelog.write(stranger, joined(other.log[-1:]))
        changelog.write(writer, joined(written[1:]))
        changelog.write(stranger, joined(other.log[-1:]))
        stage.decide(state, written, end - start)
        decided[end] = changelog.end()
    read = changelog.reading(ours, of_the_next_generation)
    with Store.open(tmp_path, "flow/stage", str(uuid.uuid4()), 0) as store:
        for end, changelog_end in decided.items():
            committed, _ = stage.decisions[end]
            assert committed is not None
            base = store.as_of(end, committed, changelog_end, read)
            assert dict(base.scan(b"", None)) == model(entries(end))
            # What stands behind it is not decided, as far as this ticket knows.
            messages = [ChangelogRows(*columns) for columns in read(0, changelog.end())]
            again = MemoryBase.restored(messages, end, committed)
            assert isinstance(again, MemoryBase)
            assert dict(again.scan(b"", None)) == model(entries(end))


@pytest.fixture
def one_state(changelog: Changelog) -> tuple[Stage, ProducerGrant]:
    writer = changelog.cluster.init_producer_id()
    stage = Stage(0, 10_000).run(entries(6), [6])
    changelog.write(writer, joined(stage.log))
    return stage, writer


def test_a_changelog_that_was_trimmed_is_told(
    changelog: Changelog, one_state: tuple[Stage, ProducerGrant], tmp_path: Path
) -> None:
    stage, writer = one_state
    changelog.cluster.delete_records({TP: 2})
    with Store.open(tmp_path, "flow/stage", "id", 0) as store:
        with pytest.raises(DataLoss, match=r"flow\.stage\.changelog.*another name") as told:
            store.as_of(6, stage.decided, changelog.end(), changelog.reading(writer))
        assert (told.value.lost_from, told.value.lost_to_end) == (0, 2)


def test_a_changelog_that_was_made_anew_is_told(
    changelog: Changelog, one_state: tuple[Stage, ProducerGrant]
) -> None:
    stage, _ = one_state
    before = str(changelog.cluster.topic(TP.topic).topic_id)
    changelog.cluster.delete_topics([TP.topic])
    create_topic(changelog.cluster, TP.topic, 1)
    writer = changelog.cluster.init_producer_id()
    changelog.write(writer, joined(stage.log))
    with pytest.raises(DataLoss, match="another name"):
        list(read_changelog(changelog.cluster, TP, {writer.producer_id}, 0, 6, topic_id=before))
    now = str(changelog.cluster.topic(TP.topic).topic_id)
    assert list(read_changelog(changelog.cluster, TP, {writer.producer_id}, 0, 6, topic_id=now))


def test_a_server_that_was_killed_has_the_state(
    semel_server: semel.LocalLog, changelog: Changelog, one_state: tuple[Stage, ProducerGrant], tmp_path: Path
) -> None:
    stage, writer = one_state
    end = changelog.end()
    semel_server.crash()
    semel_server.restart()
    with Cluster(semel_server.bootstrap) as cluster, Store.open(tmp_path, "flow/stage", "id", 0) as store:
        base = store.as_of(6, stage.decided, end, Changelog(cluster).reading(writer))
        assert dict(base.scan(b"", None)) == model(entries(6))
