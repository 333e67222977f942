"""What counts in a merge log, whoever appends to it, how often, and when."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.flow.merge import (
    INPUTS_MAX,
    Entry,
    EntryRange,
    Head,
    InputLoss,
    InputTopic,
    Lost,
    MergeHistory,
    MergeInput,
    PlacedEntry,
    behind_end,
    encode,
    entries_between,
    made_anew,
    next_head,
    overtaken,
    pairs,
    plan_entries,
    read_record,
    shares,
    trimmed,
    whole,
)
from semel.core.sink.refusal import Reason, Refusal

CLICKS, USERS = MergeInput("clicks", "id-c", 2), MergeInput("users", "id-u", 2)
C, U = CLICKS.key, USERS.key


def read(records, from_offset: int = 0) -> list[PlacedEntry]:
    """What counts, read from a planned end on."""
    first = max(0, from_offset - 1)
    placed = list(enumerate(records))[first:]
    found = entries_between(placed, from_offset, len(records))
    assert found is not None
    return found


def history_of(records) -> MergeHistory:
    history = MergeHistory()
    for offset, record in enumerate(records):
        history.apply(offset, record)
    return history


def counting(records) -> list[int]:
    """The offsets of the records that count."""
    history = MergeHistory()
    return [offset for offset, record in enumerate(records) if history.apply(offset, record)]


def head(epoch: int, **starts: int) -> Head:
    return Head(epoch, "someone", (CLICKS, USERS), {C: starts.get("c", 0), U: starts.get("u", 0)})


def entry(epoch: int, number: int, before: dict, *ranges: EntryRange, tick_ms: int | None = None) -> Entry:
    return Entry(epoch, number, ranges, before | {each.key: each.end_offset for each in ranges}, tick_ms)


def of(key: InputTopic, from_offset: int, end_offset: int) -> EntryRange:
    return EntryRange(*key, from_offset, end_offset)


FIRST = entry(1, 0, {C: 0, U: 0}, of(C, 0, 5), of(U, 0, 2))
SECOND = entry(1, 1, FIRST.ends, of(U, 2, 3))


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


# -- planning --------------------------------------------------------------------------------------------------

KEYS = [InputTopic(f"t{number}", f"id{number}") for number in range(5)]


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 10**12), min_size=1), st.integers(5, 70_000))
def test_shares_are_whole_proportional_and_never_nothing(backlog, rows_max):
    found = shares(backlog, rows_max)
    total = sum(backlog.values())
    assert sum(found.values()) == min(total, rows_max)
    for key, share in found.items():
        assert 1 <= share <= backlog[key]
        if total > rows_max:
            exact = backlog[key] * rows_max / total
            assert abs(share - exact) <= len(backlog) + 1


def test_shares_of_fewer_rows_than_inputs_are_a_mistake():
    with pytest.raises(ValueError, match="1 row cannot be shared by 2 inputs"):
        shares({C: 5, U: 5}, 1)


@given(
    st.fixed_dictionaries({key: st.integers(0, 50) for key in KEYS}),
    st.fixed_dictionaries({key: st.integers(0, 300) for key in KEYS}),
    st.integers(5, 100),
    st.integers(0, 6),
    st.sampled_from([None, 77]),
)
def test_a_plan_is_bounded_and_leaves_nothing_that_fits(starts, backlog, rows_max, entries_max, tick_ms):
    latest = {key: starts[key] + backlog[key] for key in KEYS}
    history = MergeHistory(3, "", 8, dict(starts), 20)
    plan = plan_entries(history, KEYS, latest, 3, rows_max=rows_max, entries_max=entries_max, tick_ms=tick_ms)
    assert len(plan) <= entries_max
    for offset, each in enumerate(plan, 30):
        assert history.apply(offset, each)
        assert sum(one.end_offset - one.from_offset for one in each.ranges) <= rows_max
        assert [one.key for one in each.ranges] == [
            key for key in KEYS if key in {one.key for one in each.ranges}
        ]
        assert each.tick_ms is None or (each is plan[-1] and history.ends == latest)
    has_tick = bool(plan) and plan[-1].tick_ms is not None
    if len(plan) < entries_max:
        assert history.ends == latest
        assert has_tick == (tick_ms is not None)
    rows = sum(backlog.values())
    assert len(plan) - has_tick == min(entries_max, -(-rows // rows_max))


def test_what_waits_in_a_slow_input_is_in_the_next_entry():
    history = MergeHistory(1, "", 0, {C: 0, U: 0})
    first = plan_entries(history, [U, C], {C: 10_000_000, U: 1}, 1)[0]
    assert first.ranges == (of(U, 0, 1), of(C, 0, 65_535))


# -- what stops it ---------------------------------------------------------------------------------------------


def test_a_planner_takes_over_with_the_epoch_of_its_driver():
    history = history_of([head(1), FIRST])
    assert next_head(history, 5, "me", (CLICKS, USERS), {C: 0, U: 0}) == Head(5, "me", (CLICKS, USERS), {})
    assert next_head(history, 1, "me", (CLICKS, USERS), {C: 0, U: 0}) is None
    refusal = next_head(history, 0, "me", (CLICKS, USERS), {C: 0, U: 0})
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.SINK_FENCED
    assert (
        "another driver (someone) took the merge log over, with epoch 1; this one has 0" in refusal.evidence
    )


def test_who_holds_is_not_overtaken():
    assert overtaken(history_of([head(1)]), 1) is None
    assert overtaken(MergeHistory(), 0) is None
    assert "another driver took" in overtaken(MergeHistory.at(PlacedEntry(1, FIRST)), 0).evidence


def test_a_new_input_begins_at_its_log_start():
    more = MergeInput("more", "id-m", 2)
    starts = {C: 4, U: 1, more.key: 30}
    found = next_head(history_of([head(1), FIRST]), 2, "me", (CLICKS, USERS, more), starts)
    assert found.starts == {more.key: 30}
    assert history_of([head(1), FIRST, found]).ends == {C: 5, U: 2, more.key: 30}


def test_one_driver_has_one_set_of_inputs():
    more = MergeInput("more", "id-m", 2)
    refusal = next_head(history_of([head(1)]), 1, "me", (more,), {more.key: 30})
    assert "took the merge log over with other inputs" in refusal.evidence


def test_an_input_made_anew_is_a_loss_whatever_it_holds():
    anew = MergeInput("clicks", "id-c2", 2)
    found = next_head(history_of([head(1), FIRST]), 2, "me", (anew, USERS), {anew.key: 0, U: 0})
    assert found == InputLoss("clicks", 5, 6, Lost.MADE_ANEW)
    assert made_anew(history_of([head(1)]), (CLICKS, USERS)) is None


def test_an_input_trimmed_beyond_what_was_planned_is_a_loss():
    history = history_of([head(1), FIRST])
    assert next_head(history, 2, "me", (CLICKS, USERS), {C: 7, U: 2}) == InputLoss(
        "clicks", 5, 7, Lost.TRIMMED
    )
    assert trimmed(history, {C: 5, U: 2}) is None


def test_an_input_that_ends_before_what_was_planned_is_a_loss():
    history = history_of([head(1), FIRST])
    assert behind_end(history, {C: 5, U: 1}) == InputLoss("users", 1, 2, Lost.BEHIND_END)
    assert behind_end(history, {C: 5, U: 2}) is None


def test_too_many_inputs_are_refused():
    many = tuple(MergeInput(f"t{n}", f"i{n}", 2) for n in range(INPUTS_MAX - 1))
    starts = {each.key: 0 for each in (*many, CLICKS, USERS)}
    assert "at most 64 topics" in next_head(history_of([head(1)]), 2, "", many, starts).evidence
    assert isinstance(next_head(history_of([head(1)]), 2, "", many[1:], starts), Head)


def test_inputs_have_the_stages_number_of_partitions():
    assert pairs("m", 2, (CLICKS, USERS)) is None
    refusal = pairs("m", 2, (CLICKS, MergeInput("grown", "g", 3)))
    assert refusal.reason is Reason.PLAN_NOT_SUPPORTED
    assert "of 2 partitions, and of its inputs 'grown' has 3 partitions." in refusal.evidence


def test_what_is_recorded_is_kept_and_not_compacted():
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    usual = {"cleanup.policy": "delete", "retention.ms": "604800000"}
    assert whole({"m": kept, "in": usual}, "m") is None
    assert (
        "'in': cleanup.policy=compact"
        in whole({"m": kept, "in": {"cleanup.policy": "compact"}}, "m").evidence
    )
    assert (
        "'m': cleanup" in whole({"m": kept | {"cleanup.policy": "compact,delete"}, "in": usual}, "m").evidence
    )
    assert "-c retention.ms=-1`" in whole({"m": usual, "in": usual}, "m").evidence


# -- bytes -----------------------------------------------------------------------------------------------------

offsets = st.integers(0, 2**62)
keys = st.builds(InputTopic, st.text(max_size=5), st.text(max_size=5))
heads = st.builds(
    Head,
    offsets,
    st.text(max_size=9),
    st.lists(st.builds(MergeInput, st.text(), st.text(), st.integers(1, 99)), max_size=3).map(tuple),
    st.dictionaries(keys, offsets, max_size=3),
)
entries = st.builds(
    Entry,
    offsets,
    offsets,
    st.lists(st.builds(EntryRange, st.text(), st.text(), offsets, offsets), max_size=3).map(tuple),
    st.dictionaries(keys, offsets, max_size=3),
    st.none() | offsets,
)


@given(heads | entries)
def test_bytes_and_back(record):
    key, value = encode(record)
    assert read_record(value) == record
    assert json.loads(key)[:2] == ["head" if isinstance(record, Head) else "entry", record.epoch]


def test_an_entry_in_bytes():
    assert encode(SECOND) == (
        b'["entry",1,1]',
        b'{"ends":[["clicks","id-c",5],["users","id-u",3]],"epoch":1,"kind":"entry","number":1,'
        b'"ranges":[["users","id-u",2,3]],"tick_ms":null,"v":1}',
    )


@pytest.mark.parametrize(
    "value", [None, b"", b"hello", b"[1]", b"{}", b'{"kind":"entry"}', b"\xff", b"[" * 9999]
)
def test_what_nobody_plans_with_is_passed_over(value):
    assert read_record(value) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"v": 2}, "of format 2, and this semel knows 1"),
        ({"kind": "gap"}, "kind 'gap' is not known"),
        ({"epoch": "1"}, "not those of format 1"),
        ({"epoch": True}, "not those of format 1"),
        ({"number": None}, "not those of format 1"),
        ({"ranges": [["users", "id-u", 2]]}, "not those of format 1"),
        ({"ranges": [["users", "id-u", 2, 2.5]]}, "not those of format 1"),
        ({"ends": 7}, "not those of format 1"),
        ({"tick_ms": "x"}, "not those of format 1"),
    ],
)
def test_what_may_be_an_entry_and_cannot_be_read_is_never_passed_over(change, why):
    body = json.loads(encode(SECOND)[1]) | change
    with pytest.raises(ValueError, match=why):
        read_record(json.dumps(body).encode())
