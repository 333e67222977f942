"""Where a start goes on: by marks of the table and what the log has."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.land.marks import offset_mark
from semel.core.land.starting import LogTopic, Starting, starting
from semel.types import TopicPartition

ONE, OTHER = (str(UUID(int=number)) for number in (1, 2))
TP = TopicPartition("t", 0)


def start(held: Starting | None, log: LogTopic, *, from_latest: bool = False) -> Starting:
    marks = held.marks if held else {}
    return starting(marks.get, "j", {"t": log}, from_latest=from_latest)


def held(position: int, topic_id: str | None = ONE) -> Starting:
    return start(None, LogTopic(topic_id, {0: position}, {0: position}))


@pytest.mark.parametrize(("from_latest", "position"), [(False, 3), (True, 9)])
def test_an_unknown_topic_begins_where_it_is_told_to(from_latest: bool, position: int) -> None:
    found = start(None, LogTopic(ONE, {0: 3}, {0: 9}), from_latest=from_latest)
    assert (found.positions, found.losses) == ({TP: position}, [])
    assert found.marks[offset_mark("j", TP, ONE)] == position


def test_a_known_partition_goes_on_at_its_mark_whatever_it_is_told() -> None:
    found = start(held(5), LogTopic(ONE, {0: 3}, {0: 9}), from_latest=True)
    assert (found.positions, found.losses) == ({TP: 5}, [])


@pytest.mark.parametrize(
    ("first", "end", "lost", "position", "why"),
    [
        (7, 9, (5, 7), 7, "retention or a trim"),
        (0, 4, (4, 5), 4, "it has lost its end"),  # what is left of it is landed
        (6, 6, (5, 6), 6, "retention"),
    ],
)
def test_what_is_gone_is_told_and_the_rest_begins_behind_it(
    first: int, end: int, lost: tuple[int, int], position: int, why: str
) -> None:
    found = start(held(5), LogTopic(ONE, {0: first}, {0: end}))
    (loss,) = found.losses
    assert (loss.lost_from, loss.lost_to_end) == lost
    assert why in str(loss) and "--accept-loss" in str(loss)
    assert found.positions == {TP: position}


def test_a_shorter_log_without_an_id_may_be_another_and_is_read_from_its_beginning() -> None:
    assert start(held(5, None), LogTopic(None, {0: 1}, {0: 4})).positions == {TP: 1}


def test_a_topic_made_anew_is_told_though_its_offsets_would_fit() -> None:
    found = start(held(5), LogTopic(OTHER, {0: 0}, {0: 9}))
    (loss,) = found.losses
    assert (loss.lost_from, loss.lost_to_end) == (5, 5)  # whether it had more is not known
    assert str(loss).startswith(
        "all offsets from 5 on of topic 't', partition 0 are gone: the topic was deleted"
    )
    assert found.positions == {TP: 0}
    again = start(found, LogTopic(OTHER, {0: 0}, {0: 9}))
    assert (again.positions, again.losses) == ({TP: 0}, [])


def test_an_id_that_brokers_got_since_is_no_other_topic() -> None:
    found = start(held(5, None), LogTopic(ONE, {0: 0}, {0: 9}))
    assert (found.positions, found.losses) == ({TP: 5}, [])
    again = start(found, LogTopic(ONE, {0: 0}, {0: 9}))
    assert (again.positions, again.losses) == ({TP: 5}, [])


@pytest.mark.parametrize(("first", "losses"), [(0, 0), (4, 1)])
def test_a_new_partition_begins_at_its_very_beginning(first: int, losses: int) -> None:
    found = start(held(5), LogTopic(ONE, {0: 5, 1: first}, {0: 5, 1: 9}), from_latest=True)
    assert found.positions == {TP: 5, TopicPartition("t", 1): first}
    assert len(found.losses) == losses


@given(position=st.integers(0, 50), first=st.integers(0, 50), size=st.integers(0, 50))
def test_a_position_lies_in_the_log_and_is_the_held_one_or_a_loss_is_told(
    position: int, first: int, size: int
) -> None:
    found = start(held(position), LogTopic(ONE, {0: first}, {0: first + size}))
    assert first <= found.positions[TP] <= first + size
    assert bool(found.losses) == (found.positions[TP] != position)
