"""Limits, splits and losses, as Spark's connector computes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.core.sink.ranges import SourceRange
from semel.spark.planning import Loss, RangeTopic, limit, losses, lost_ends, split
from semel.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))
OFFSETS = st.fixed_dictionaries({tp: st.integers(0, 1000) for tp in (A, B, C)})


def test_a_limit_is_shared_in_proportion_to_the_backlog():
    assert limit({A: 0, B: 0}, {A: 900, B: 100}, 100) == {A: 90, B: 10}


def test_a_small_backlog_is_not_starved():
    assert limit({A: 0, B: 0}, {A: 10_000, B: 1}, 10) == {A: 9, B: 1}


def test_no_limit_takes_all():
    assert limit({A: 5}, {A: 9, B: 3}, None) == {A: 9, B: 3}


@given(OFFSETS, OFFSETS, st.integers(1, 500))
def test_a_limit_never_goes_back_nor_beyond_and_always_moves(start, more, offsets_max):
    latest = {tp: start[tp] + more[tp] for tp in start}
    ends = limit(start, latest, offsets_max)
    assert all(start[tp] <= ends[tp] <= latest[tp] for tp in start)
    taken = sum(ends.values()) - sum(start.values())
    assert taken <= offsets_max + sum(1 for tp in more if more[tp])  # each share is at least one
    assert taken or not sum(more.values())


@given(OFFSETS, OFFSETS, st.none() | st.integers(1, 20))
def test_a_split_covers_every_offset_once(start, more, partitions_min):
    end = {tp: start[tp] + more[tp] for tp in start}
    pieces = split(start, end, partitions_min)
    read = [
        (piece.source_range.source, offset)
        for piece in pieces
        for offset in range(piece.read_from, piece.read_end)
    ]
    assert len(read) == len(set(read))
    assert set(read) == {(tp, offset) for tp in start for offset in range(start[tp], end[tp])}
    assert len({piece.source_range.writer for piece in pieces}) == len(pieces)


@given(OFFSETS, OFFSETS)
def test_every_source_partitions_end_is_told_once(start, more):
    end = {tp: start[tp] + more[tp] for tp in start}
    told = {}
    for piece in split(start, end, 7):
        told[piece.source_range.source] = piece.source_range.batch_end
        told.update(piece.source_range.idle_ends)
    assert told == end or not any(more.values())


def test_min_partitions_splits_the_larger_ones():
    pieces = split({A: 0, B: 0}, {A: 90, B: 10}, 5)
    assert [piece.source_range.split_count for piece in pieces] == [4, 4, 4, 4, 1]


def test_max_records_splits_what_is_larger():
    pieces = split({A: 0, B: 0}, {A: 25, B: 10}, None, 10)
    assert [(piece.read_from, piece.read_end) for piece in pieces] == [(0, 8), (8, 16), (16, 25), (0, 10)]


def test_after_an_accepted_loss_the_sink_still_sees_the_planned_ranges():
    lost_some, lost_all, anew = split({A: 3, B: 0, C: 90}, {A: 9, B: 5, C: 4}, left_from={A: 7, B: 8, C: 0})
    assert (lost_some.source_range, lost_some.read_from, lost_some.read_end) == (SourceRange(A, 3, 9), 7, 9)
    assert lost_all.source_range == SourceRange(B, 0, 5)
    assert lost_all.read_from == lost_all.read_end
    assert (anew.source_range, anew.read_from, anew.read_end) == (SourceRange(C, 90, 4), 0, 4)


def test_losses_name_what_is_gone():
    found = losses({A: 3, B: 10, C: 0}, {A: 5, B: 0}, {A: 9, B: 4})
    assert found == [Loss(A, 3, 5), Loss(B, 4, 10, is_behind_end=True), Loss(C, 0, 1)]


def test_an_end_that_the_log_does_not_have_is_a_loss():
    assert lost_ends({A: 9, B: 4, C: 7}, {A: 5, B: 4}) == [Loss(A, 5, 9, is_behind_end=True)]


def test_an_accepted_end_is_read_up_to_the_logs_own():
    pieces = split({A: 3, B: 8}, {A: 100, B: 100}, records_max=3, left_until={A: 8, B: 2})
    assert [(piece.read_from, piece.read_end) for piece in pieces] == [(3, 5), (5, 8), (2, 2)]
    assert [piece.source_range.batch_end for piece in pieces] == [100, 100, 100]


def test_every_partition_of_a_topic_made_anew_has_a_range():
    anew = {"t": RangeTopic("new", "old")}
    as_long, longer = split({A: 9, B: 4}, {A: 9, B: 6}, left_from={A: 0, B: 0}, topics=anew)
    assert (as_long.read_from, as_long.read_end, longer.read_end) == (0, 9, 6)
    assert as_long.source_range == SourceRange(A, 9, 9, topic_id="new", from_topic_id="old")
    assert as_long.source_range.writer == "t/0/new/0of1"


def test_the_first_range_tells_the_ids_of_those_without_rows():
    other = TopicPartition("other", 0)
    topics = {"t": RangeTopic("id", "id"), "other": RangeTopic("its", "its")}
    first, second = split({A: 0, B: 0, other: 5}, {A: 1, B: 1, other: 5}, topics=topics)
    assert (first.source_range.idle_ends, first.source_range.idle_topic_ids) == (
        ((other, 5),),
        (("other", "its"),),
    )
    assert second.source_range.idle_topic_ids == ()


def test_the_first_piece_of_a_range_that_goes_on_is_held_against_the_epoch_of_its_start():
    start, end = {A: 3, B: 4, C: 7}, {A: 9, B: 8, C: 7}
    then, now = {A: 5, B: 6, C: 7}, {A: 15, B: 16, C: 17}
    pieces = split(start, end, 4, start_epochs=then, end_epochs=now)
    assert [(p.source_range.source, p.read_from, p.last_leader_epoch) for p in pieces] == [
        (A, 3, 5),
        (A, 6, -1),
        (B, 4, 6),
        (B, 6, -1),
    ]
    assert {p.source_range.end_leader_epoch for p in pieces} == {15, 16}
    assert pieces[0].source_range.idle_leader_epochs == ((C, 17),)
    (left,) = split({A: 3}, {A: 9}, left_from={A: 7}, start_epochs=then, end_epochs=now)
    assert left.last_leader_epoch == -1, "it begins elsewhere"
