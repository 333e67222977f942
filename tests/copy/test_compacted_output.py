"""What the last holder of a job stored in an output that was compacted since: counted, or not to be known."""

from __future__ import annotations

from typing import Any

import pytest
from tests.copy.copying import plan_of

from semel.copy import takeover
from semel.core.copy.history import CopyHistory
from semel.core.copy.journal import Place
from semel.errors import ReplayUnprovable
from semel.record.batch import BatchHeader, Record, decode_header, encode_batch
from semel.record.filtering import hole
from semel.types import ProducerGrant, TopicPartition

WRITER, OUTPUT_END, SURE = ProducerGrant(7, 1), 10, 4
TP = TopicPartition("t", 0)


def rows(offset: int, count: int, grant: ProducerGrant = WRITER, sequence: int = 0) -> BatchHeader:
    batch = encode_batch(
        [Record(n, 0, b"key", b"row") for n in range(count)],
        producer_id=grant.producer_id,
        producer_epoch=grant.producer_epoch,
        base_sequence=sequence,
    )
    return decode_header(batch)._replace(base_offset=offset)


def gone(offset: int, end_offset: int) -> BatchHeader:
    return decode_header(hole(offset, end_offset - 1, 0))


def stored(
    monkeypatch: pytest.MonkeyPatch, *found: BatchHeader, known: int | None = None, is_under_way: bool = True
) -> int:
    """As a new holder counts them that finds these behind the place of the last BEGUN."""
    monkeypatch.setattr(takeover, "headers_in", lambda *_, **how: iter(found))
    place = Place(TP, None, 0, "t", None, OUTPUT_END, 0, 0, SURE)
    under_way: dict[TopicPartition, list[Any]] = {TP: []} if is_under_way else {}
    history = CopyHistory(writer=WRITER, under_way=under_way, held_epochs={WRITER.producer_id: 2})
    plan, no_cluster = plan_of("localhost:1", "localhost:2", "t", name="job", prefix="eu."), None
    end = found[-1].last_offset + 1
    return takeover._stored(no_cluster, plan, history, place, SURE, known, 0, end, True)[0]  # type: ignore[arg-type]


def test_what_is_gone_in_front_of_rows_that_are_left_is_counted_with_them(monkeypatch: Any) -> None:
    assert stored(monkeypatch, rows(10, 2, sequence=4), rows(12, 1, sequence=6)) == 7
    assert stored(monkeypatch, gone(10, 12), rows(12, 1, sequence=6)) == 7
    assert stored(monkeypatch, gone(10, 12), gone(12, 13), rows(13, 2, ProducerGrant(9, 0)), known=7) == 7


@pytest.mark.parametrize(
    "found",
    [
        pytest.param([gone(10, 13)], id="all of it may be gone"),
        pytest.param([rows(10, 2, sequence=4), gone(12, 13)], id="the last of it may be gone"),
        pytest.param(
            [rows(12, 1, sequence=6), rows(14, 1, ProducerGrant(9, 0))], id="a gap, as Kafka leaves it"
        ),
    ],
)
def test_what_may_have_gone_behind_them_is_not_taken_for_never_stored(
    monkeypatch: Any, found: list[BatchHeader]
) -> None:
    with pytest.raises(ReplayUnprovable, match="it was compacted, and rows of its last holder may have been"):
        stored(monkeypatch, *found)
    stored(monkeypatch, *found, known=7)
    stored(monkeypatch, *found, is_under_way=False)
