"""A consumer, alone or in a group, at a batch that it cannot read: what is in front is given, and it can go on."""

from __future__ import annotations

import itertools

import pytest
from tests import poison

import semel
from semel.errors import UnreadableBatch
from semel.types import TopicPartition

TIMEOUT_S = 20
_NUMBERS = itertools.count()


@pytest.fixture
def tp() -> TopicPartition:
    return TopicPartition(f"poison-{next(_NUMBERS)}", 0)


def read(consumer: semel.Consumer, count: int) -> list[semel.ConsumerRecord]:
    rows: list[semel.ConsumerRecord] = []
    while len(rows) < count:
        some = consumer.poll(TIMEOUT_S)
        assert some, rows
        rows += some
    return rows


def test_a_clock_that_no_calendar_holds_stops_nobody(
    semel_server_session: semel.LocalLog, tp: TopicPartition
) -> None:
    batches = poison.good(b"a"), poison.timeless(), poison.odd_header_key(), poison.good(b"z")
    poison.produce(semel_server_session.bootstrap, tp, *batches)
    with semel.Consumer(semel_server_session.bootstrap, group_id=tp.topic) as consumer:
        consumer.assign({tp: "earliest"})
        rows = read(consumer, 5)
        assert [row.value for row in rows] == [b"a", b"old", b"older", b"odd", b"z"]
        assert [row.timestamp_ms for row in rows] == [1_000, -(2**62), -(2**62) + 2**61, 1, 1_000]
        assert rows[3].headers == (("h\ufffd\ufffd", b"1"),)
        consumer.seek(tp, 0)
        table = consumer.fetch_table(TIMEOUT_S, include_headers=True)
        assert table["value"].to_pylist() == [b"a", b"old", b"older", b"odd", b"z"]
        assert [time is None for time in table["timestamp"].to_pylist()] == [False, True, True, False, False]


@pytest.mark.parametrize("kind", poison.UNREADABLE)
def test_a_group_goes_past_a_batch_that_was_produced_so(
    semel_server_session: semel.LocalLog, tp: TopicPartition, kind: str
) -> None:
    bootstrap, group = semel_server_session.bootstrap, tp.topic
    poison.produce(bootstrap, tp, poison.good(b"a", b"b"), poison.UNREADABLE[kind], poison.good(b"c"))
    with semel.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([tp.topic])
        assert [row.value for row in read(consumer, 2)] == [b"a", b"b"]
        for _ in range(2):
            with pytest.raises(UnreadableBatch, match="its producer wrote it so") as caught:
                consumer.poll(TIMEOUT_S)
            found = caught.value
            assert (found.partition, found.offset, found.next_offset) == (tp, 2, 4)
            assert not found.is_damaged
        with pytest.raises(UnreadableBatch):
            consumer.fetch_table(TIMEOUT_S)
        consumer.seek(tp, 4)
        assert [row.value for row in read(consumer, 1)] == [b"c"]
        consumer.commit()
        assert consumer.committed() == {tp: 5}
