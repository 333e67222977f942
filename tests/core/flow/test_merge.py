"""What counts in a merge log, whoever appends to it, how often, and when."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.merge_samples import (
    CLICKS,
    FIRST,
    SECOND,
    USERS,
    C,
    U,
    counting,
    entry,
    head,
    history_of,
    of,
    read,
)

from semel.core.flow.merge import INPUTS_MAX, MergeHistory, entries_between
from semel.core.flow.merge_plan import next_head, plan_entries
from semel.core.flow.merge_records import Head, InputTopic, MergeInput

# -- what counts ---------------------------------------------------------------------------------------------


def test_entries_count_that_go_on_where_the_inputs_ended():
    assert counting([head(1), FIRST, SECOND]) == [0, 1, 2]
    assert history_of([head(1), FIRST, SECOND]).ends == {C: 5, U: 3}
    assert history_of([head(1), FIRST, SECOND]).planned_end == 3


def test_a_record_appended_twice_counts_once():
    tick = entry(1, 2, SECOND.ends, tick_ms=7)
    log = [head(1), head(1), FIRST, FIRST, SECOND, FIRST, SECOND, tick, tick]
    assert counting(log) == [0, 2, 4, 7]


def test_entries_of_an_overtaken_planner_are_void_for_ever():
    late = entry(2, 1, FIRST.ends, of(C, 5, 9))
    assert counting([head(1), FIRST, head(2), SECOND, late, SECOND]) == [0, 1, 2, 4]


def test_an_older_driver_never_takes_over_from_a_newer_one():
    assert counting([head(2), head(1), FIRST, head(3), head(3), head(2)]) == [0, 3]


@pytest.mark.parametrize(
    "void",
    [
        dataclasses.replace(SECOND, epoch=0),
        dataclasses.replace(SECOND, epoch=2),
        dataclasses.replace(SECOND, number=0),
        dataclasses.replace(SECOND, number=2),
        entry(1, 1, FIRST.ends, of(U, 1, 3)),
        entry(1, 1, FIRST.ends, of(U, 3, 4)),
        entry(1, 1, FIRST.ends, of(U, 2, 2)),
        entry(1, 1, FIRST.ends, of(U, 2, 1)),
        entry(1, 1, FIRST.ends, of(U, 2, 3), of(U, 3, 4)),
        entry(1, 1, FIRST.ends, of(U, 2, 3), of(U, 2, 3)),
        entry(1, 1, FIRST.ends, of(InputTopic("users", "other"), 0, 3)),
        dataclasses.replace(SECOND, ends={C: 5, U: 4}),
        dataclasses.replace(SECOND, ends={U: 3}),
        dataclasses.replace(SECOND, ends={C: 5, U: 3, InputTopic("more", "id-m"): 0}),
        dataclasses.replace(SECOND, tick_ms=7),
        entry(1, 1, FIRST.ends),
        entry(1, 1, FIRST.ends | {C: 6}, tick_ms=7),
    ],
)
def test_an_entry_that_does_not_go_on_is_void(void):
    log = [head(1), FIRST, void, SECOND]
    assert counting(log) == [0, 1, 3]
    assert [placed.offset for placed in read(log)] == [1, 3]


def test_nothing_counts_before_a_head():
    assert counting([dataclasses.replace(FIRST, epoch=-1), FIRST, head(1), FIRST]) == [2, 3]


def test_an_input_begins_where_the_first_head_that_counts_says():
    log = [head(1, c=10, u=20), head(2, c=11, u=3)]
    assert history_of(log).ends == {C: 10, U: 20}


def test_an_input_that_was_left_out_for_a_while_goes_on_where_it_was():
    without = Head(2, "someone", (CLICKS,), {})
    log = [head(1), FIRST, without, entry(2, 1, FIRST.ends, of(C, 5, 6)), head(3, c=0, u=9)]
    assert counting(log) == [0, 1, 2, 3, 4]
    assert history_of(log).ends == {C: 6, U: 2}


@pytest.mark.parametrize(
    "void",
    [
        Head(2, "", (MergeInput("users", "anew", 2),), {InputTopic("users", "anew"): 0}),
        Head(2, "", (MergeInput("more", "id-m", 2),), {}),
        Head(2, "", (MergeInput("more", "1", 2), MergeInput("more", "2", 2)), {InputTopic("more", "1"): 0}),
        Head(
            2,
            "",
            tuple(MergeInput(f"{n}", f"{n}", 2) for n in range(INPUTS_MAX)),
            {InputTopic(f"{n}", f"{n}"): 0 for n in range(INPUTS_MAX)},
        ),
    ],
)
def test_a_head_of_inputs_that_cannot_be_is_void(void):
    assert counting([head(1), void, FIRST]) == [0, 2]


# -- reading from a planned end --------------------------------------------------------------------------------


def test_reading_begins_behind_an_entry_and_at_nothing_else():
    log = list(enumerate([head(1), FIRST, head(2), entry(2, 1, FIRST.ends, of(U, 2, 3))]))
    assert [placed.offset for placed in entries_between(log[1:], 2, 4)] == [3]
    assert [placed.offset for placed in entries_between(log, 0, 2)] == [1]
    assert entries_between(log[1:], 2, 2) == []
    assert entries_between(log[2:], 3, 4) is None  # a HEAD
    assert entries_between(log[3:], 3, 4) is None  # not there
    assert entries_between([], 3, 4) is None


# -- any interleaving ------------------------------------------------------------------------------------------


class Planner:
    """One driver's: what it knows is what it has read, and what it sends may arrive when it likes."""

    def __init__(self, epoch: int) -> None:
        self.epoch, self.history, self.read_to = epoch, MergeHistory(), 0

    def read(self, log: list) -> None:
        for offset in range(self.read_to, len(log)):
            self.history.apply(offset, log[offset])
        self.read_to = len(log)


@st.composite
def schedules(draw):
    """A log as planners leave it that come, are overtaken, go on, and whose appends come late, twice, or never."""
    log: list = []
    sent: list[list] = []
    planners: list[Planner] = []
    latest = {C: draw(st.integers(0, 4)), U: draw(st.integers(0, 4))}
    starts = {C: draw(st.integers(0, latest[C])), U: 0}
    ticks = 0

    def send(records: list) -> None:
        """Once, more often, or not until later."""
        sent.append(records)
        for _ in range(draw(st.sampled_from([1, 1, 0, 2]))):
            log.extend(records)

    for _ in range(draw(st.integers(2, 25))):
        match draw(st.sampled_from(["come", "plan", "plan", "plan", "late"])):
            case "come":
                planners.append(Planner(len(planners)))
                planners[-1].read(log)
                found = next_head(planners[-1].history, planners[-1].epoch, "", (CLICKS, USERS), starts)
                if isinstance(found, Head):
                    send([found])
            case "plan" if planners:
                planner = draw(st.sampled_from(planners[-3:]))
                if draw(st.booleans()):
                    planner.read(log)
                latest[draw(st.sampled_from([C, U]))] += draw(st.integers(0, 4))
                if planner.history.ends:
                    ticks += 1
                    plan = plan_entries(
                        planner.history,
                        draw(st.permutations([C, U])),
                        latest,
                        planner.epoch,
                        rows_max=draw(st.integers(2, 5)),
                        entries_max=draw(st.integers(1, 3)),
                        tick_ms=draw(st.sampled_from([None, ticks])),
                    )
                    send(plan)
            case "late" if sent:
                log.extend(draw(st.sampled_from(sent[-6:])))
    return log, starts, latest, planners


@given(schedules())
def test_each_offset_is_in_exactly_one_entry_that_counts(scheduled):
    log, starts, latest, _ = scheduled
    ends = dict(starts)
    for number, placed in enumerate(read(log)):
        assert placed.entry.number == number
        for each in placed.entry.ranges:
            assert ends[each.key] == each.from_offset < each.end_offset <= latest[each.key]
            ends[each.key] = each.end_offset
        assert placed.entry.ends == ends
    ticks = [placed.entry.tick_ms for placed in read(log) if placed.entry.tick_ms is not None]
    assert len(ticks) == len(set(ticks))
    for placed in read(log):
        before = [record.epoch for record in log[: placed.offset] if isinstance(record, Head)]
        assert placed.entry.epoch == max(before)


@given(schedules())
def test_reading_from_any_planned_end_gives_the_rest_of_what_reading_from_the_start_gives(scheduled):
    log = scheduled[0]
    whole_log = read(log)
    for index, placed in enumerate(whole_log):
        planned_end = placed.offset + 1
        assert read(log, planned_end) == whole_log[index + 1 :]
        begun = MergeHistory.at(placed)
        for offset in range(planned_end, len(log)):
            begun.apply(offset, log[offset])
        known = history_of(log)
        owner = begun.owner or known.owner  # all that is lost is a name
        assert dataclasses.replace(begun, owner=owner) == known


@given(schedules(), st.data())
def test_what_counts_does_not_change_when_the_log_grows(scheduled, data):
    log = scheduled[0]
    end = data.draw(st.integers(0, len(log)))
    assert read(log[:end]) == [placed for placed in read(log) if placed.offset < end]


@given(schedules())
def test_a_newer_driver_always_takes_over_and_goes_on(scheduled):
    log, starts, latest, planners = scheduled
    planner = Planner(len(planners))
    planner.read(log)
    found = next_head(planner.history, planner.epoch, "", (CLICKS, USERS), starts)
    log = [*log, found]
    planner.read(log)
    assert planner.history.epoch == planner.epoch
    log += plan_entries(planner.history, [C, U], latest, planner.epoch)
    assert history_of(log).ends == latest


@given(schedules())
def test_who_finds_what_it_appended_void_is_overtaken_or_finds_its_own_there_already(scheduled):
    """So that a planner never appends again and again to no avail."""
    log, _, latest, planners = scheduled
    for planner in planners:
        planner.read(log)
        if planner.history.epoch != planner.epoch:
            continue
        before = planner.history.entry_count
        copy = plan_entries(planner.history, [C, U], latest, planner.epoch)
        for arrived in (copy, copy[:1] + copy):
            history = history_of(log + arrived)
            assert history.ends == latest
            assert history.entry_count == before + len(copy)
