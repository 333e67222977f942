"""Looks at rows, and when there is none."""

from __future__ import annotations

import pytest
from tests.flow.merging import Merging, WatchedCluster

from semel.core.flow.merge_records import InputTopic
from semel.flow.row_sizes import UNKNOWN_ROW_BYTES, RowSizes, _mean_bytes
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

_MIB = 2**20


@pytest.fixture
def cluster(semel_server_session):
    cluster = WatchedCluster(semel_server_session.bootstrap)
    yield cluster
    cluster.close()


@pytest.fixture
def of(cluster):
    merging = Merging(cluster.bootstrap, cluster, 2)
    yield merging
    merging.close()


def key_of(cluster, topic: str) -> InputTopic:
    return InputTopic(topic, str(cluster.topic(topic).topic_id))


def test_a_look_is_one_fetch_where_most_waits(cluster, of):
    clicks, users = key_of(cluster, of.clicks), key_of(cluster, of.users)
    of.append(TopicPartition(of.clicks, 1), *[bytes(40_000)] * 20)
    of.append(TopicPartition(of.users, 0), *[bytes(100)] * 30)
    cluster.forget()
    sizes = RowSizes()
    waiting = {(clicks, 0): (0, 7), (clicks, 1): (10, 20), (users, 0): (0, 30)}
    assert sizes.rows_max(cluster, waiting) == pytest.approx(16 * _MIB / 40_000, rel=0.01)
    assert cluster.asked == [("fetch", {TopicPartition(of.clicks, 1): 10, TopicPartition(of.users, 0): 0})]
    cluster.forget()
    assert sizes.rows_max(cluster, {(users, 0): (20, 30)}) > 65_000
    assert sizes.rows_max(cluster, {(clicks, 1): (20, 22)}) < 500
    assert cluster.asked == []


def test_much_is_looked_at_again(cluster, of):
    users = key_of(cluster, of.users)
    of.append(TopicPartition(of.users, 0), *[bytes(100)] * 30)
    of.append(TopicPartition(of.users, 0), *[bytes(50_000)] * 20)
    sizes = RowSizes()
    assert sizes.rows_max(cluster, {(users, 0): (0, 20)}) == 65_536
    assert sizes.rows_max(cluster, {(users, 0): (30, 50)}) == 65_536  # few: no look
    assert sizes.rows_max(cluster, {(users, 0): (30, 60_000)}) == pytest.approx(16 * _MIB / 50_000, rel=0.01)


def test_rows_that_grow_are_looked_at_where_the_entry_would_end(cluster, of):
    users = key_of(cluster, of.users)
    of.append(TopicPartition(of.users, 0), *[bytes(100)] * 30)
    of.append(TopicPartition(of.users, 0), *[bytes(50_000)] * 20)
    cluster.forget()
    assert RowSizes().rows_max(cluster, {(users, 0): (0, 50)}) == pytest.approx(16 * _MIB / 50_000, rel=0.01)
    assert [list(asked.values()) for _, asked in cluster.asked] == [[0], [49]]


@pytest.mark.parametrize("topic_id", [None, "00000000-0000-4000-8000-000000000001"])
def test_what_cannot_be_seen_is_guessed(cluster, of, topic_id):
    """Nothing there, or a topic that was made anew: whoever records it next finds that out."""
    key = key_of(cluster, of.users)._replace(topic_id=topic_id or key_of(cluster, of.users).topic_id)
    assert RowSizes().rows_max(cluster, {(key, 0): (0, 100_000)}) == 16 * _MIB // UNKNOWN_ROW_BYTES


def test_what_is_cut_off_says_so_much():
    batch = bytes(encode_batch([Record(0, 1, None, bytes(1000))] * 9))
    assert _mean_bytes(batch) == (pytest.approx(1000, rel=0.02), 8)
    assert _mean_bytes(batch[:200]) == (pytest.approx(1000, rel=0.02), 8)
    assert _mean_bytes(batch + batch[:200]) == _mean_bytes(batch)
    assert _mean_bytes(batch[:20]) == (None, -1)
