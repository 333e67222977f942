"""Whatever part of the settled records compaction has taken: what is left of the log says the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.sink import run
from semel.core.sink.digest import NO_ROWS
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import (
    Attempt,
    Begin,
    Cut,
    Decision,
    Entry,
    Fence,
    OutputClaim,
    OutputTopic,
    Stored,
    WriterClaim,
    decode,
    encode,
)
from semel.core.sink.litter import SWEPT_AT, Litter
from semel.core.sink.ranges import SourceRange, Verdict
from semel.types import TopicPartition

SINK = "orders"
SOURCE, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
OUT = OutputTopic("out", "id", 1)


def answers(history: SinkHistory) -> dict[str, object]:
    """All that planner, task and commit ask of it."""
    return {
        "fence": history.fence,
        "other fence": history.other_fence,
        "former identity": history.former_id,
        "begin": history.begin,
        "decision": history.decision,
        "writers": history.writers,
        "outputs": history.outputs,
        "starts": history.starts,
        "attempts": {} if history.begin is None else history.twins_of(history.begin.sink_epoch),
        "cuts": set(history.cuts),
        "ends to resume at": history.resume_ends(),
    }


def entry_of(record) -> Entry:
    return Entry(encode(record)[0], record.sink_id, record)


def read(*records, litter: bool = False) -> SinkHistory:
    history = SinkHistory(SINK, litter=Litter() if litter else None)
    for record in records:
        history.take(entry_of(record))
    return history


def begin(history: SinkHistory, epoch: int) -> Begin:
    begun = Begin(SINK, epoch, (OUT,), {TopicPartition("out", 0): 0})
    return replace(begun, carried=history.carried(begun, 10_000))


def fence(epoch: int, producer_id: int = 7) -> Fence:
    return Fence(SINK, epoch, f"driver {epoch}", "q", producer_id)


def decision(epoch: int, sequence: int, end: int, **more) -> Decision:
    return Decision(SINK, epoch, "q", sequence, {SOURCE: end}, 1, 1, {}, {}, sequence=sequence, **more)


# -- any schedule ---------------------------------------------------------------------------------------------

LIFE = st.tuples(
    st.integers(0, 7),  # rows that its attempts send before it dies
    st.booleans(),  # whether a twin helps
    st.sampled_from(["before", "after", "lives"]),  # when it dies, by the decision
    st.booleans(),  # whether the range is in two splits, so that there are CUTs
)
EVENTS = st.lists(
    st.sampled_from(
        [
            "compact",
            "compact",
            "copy",
            "late sweep",
            "late records",
            "late task",
            "late rows",
            "forgotten",
            "read on",
        ]
    ),
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 2)
@given(
    lives=st.lists(LIFE, max_size=6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    data=st.data(),
)
def test_what_is_left_says_what_all_said(make_world, make_driver, the_stop, lives, sizes, data):
    """Drivers, tasks and what is left of them live on what is left of the log, and so do readers who come and go."""
    world, drivers, readers = make_world(), [], []

    def happen() -> None:
        begun = [one for one in drivers if one.ticket is not None]
        for event in data.draw(EVENTS):
            try:
                if event == "compact":
                    swept = world.sweepable()
                    world.swept |= set(data.draw(st.lists(st.sampled_from(swept)) if swept else st.just([])))
                elif event == "copy":
                    copies = [one for one in map(decode, records(world)) if isinstance(one, (Cut, Attempt))]
                    if copies:
                        world.append_as_task(data.draw(st.sampled_from(copies)))
                elif event == "late sweep" and begun:
                    data.draw(st.sampled_from(begun)).sweep()
                elif event == "late records" and begun:
                    append_late(data.draw(st.sampled_from(begun)))
                elif event == "late task" and begun:
                    late = data.draw(st.sampled_from(begun))
                    if late is not driver:
                        begin_late(late)
                elif event == "late rows" and zombies:
                    data.draw(st.sampled_from(zombies)).send(1)
                elif event == "forgotten":
                    world.forget_names()
                    world.newest_driver_epochs.clear()
                elif event == "read on":
                    readers.append([SinkHistory(SINK), 0])
            except the_stop:
                pass
        for reader in readers:
            if data.draw(st.booleans()):
                for entry in world.entries(reader[1]):
                    reader[0].take(entry)
                reader[1] = len(world.journal)
                assert answers(reader[0]) == answers(world.history(whole=True))
        assert answers(world.history()) == answers(world.history(whole=True))

    def begin_late(driver) -> None:
        """A task of an older run begins only now, with the range that was planned for it."""
        if id(driver) not in cuts:
            return
        first, last, pieces = cuts[id(driver)]
        rows = [bytes([row]) for row in range(first, last) if row % pieces == 0]
        attempt = driver.task(SourceRange(SOURCE, first, last, 0, pieces), rows)
        if attempt.open() is Verdict.WRITE:
            zombies.append(attempt.send(1))

    def append_late(driver) -> None:
        """What a driver sends that has lost the sink: the log has forgotten it, or refuses it."""
        if world.history().fence.sink_epoch != driver.sink_epoch:
            late = decision(driver.sink_epoch, driver.ticket.journal_sequence + 100, 99)
            world.append_as_driver(late, driver.granted.producer_id)

    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    planned = list(zip([0, *ends], ends, strict=False))
    zombies, done, is_split, cuts = [], 0, False, {}
    driver = None
    for sent, twin, end, split in [*lives, *[(10, False, "lives", False)] * len(planned)]:
        if done == len(planned):
            break
        first, last = planned[done]
        try:
            if driver is None:
                driver = make_driver(world)
                drivers.append(driver)
                is_split = is_split or split
            if driver.ticket is None:
                for step in (driver.take, driver.fence, driver.fence_writers, driver.begin):
                    step()
                    happen()
            else:
                driver.plan()
                happen()
            driver.sweep(data.draw(st.integers(1, 3)))
            reports, pieces = [], 2 if is_split and last - first > 1 else 1
            cuts[id(driver)] = first, last, pieces
            for index in range(pieces):
                piece = SourceRange(SOURCE, first, last, index, pieces)
                rows = [bytes([row]) for row in range(first, last) if row % pieces == index]
                for number in range(2 if twin else 1):
                    attempt = driver.task(piece, rows, number)
                    if attempt.open() is not Verdict.WRITE:
                        continue
                    happen()
                    attempt.send(sent if end != "lives" else 10**6)
                    zombies.append(attempt)
                    if not attempt.todo and number == 0:
                        reports.append(attempt.report())
            happen()
            if end == "before" or len(reports) < pieces:
                driver = None
                continue
            driver.decide(reports, done)
            if end == "lives":
                done += 1
            else:
                driver = None
        except the_stop as stopped:
            if stopped.reason == "ReplayDiffers":  # the splits changed in the middle of a micro-batch
                return
            driver = None
    for zombie in zombies:
        try:
            zombie.send()
        except the_stop:
            pass
    visible = world.visible()
    assert len(visible) == len(set(visible))
    decided = world.history().decision
    if decided is not None:
        assert {bytes([row]) for row in range(decided.source_ends[SOURCE])} <= set(visible)


def records(world) -> list[bytes]:
    return [value for value in world.journal if type(value) is bytes]


# -- one rule at a time ---------------------------------------------------------------------------------------


def test_what_stands_in_front_of_a_begin_is_settled_and_no_more():
    """Never the newest FENCE, BEGIN or DECISION, nor what a task of the run has claimed."""
    first = [fence(0), begin(read(fence(0)), 0), WriterClaim(SINK, "w", 8, 0), decision(0, 2, 5)]
    history = read(*first, fence(1), litter=True)
    assert run.to_sweep(history, 1, 1) == []
    history.take(entry_of(begin(history, 1)))
    assert sorted(run.to_sweep(history, 1, 1)) == sorted(encode(record)[0] for record in first)
    claims = [
        WriterClaim(SINK, "v", 9, 1),
        OutputClaim(SINK, 1, OutputTopic("b", "id", 1), {TopicPartition("b", 0): 3}, 4),
        Attempt(SINK, "v", 1, 1),
        decision(1, 2, 7),
    ]
    for record in claims:
        history.take(entry_of(record))
    assert len(run.to_sweep(history, 1, 1)) == len(first)


@pytest.mark.parametrize("newer", [1, 2])
def test_who_has_lost_the_sink_sweeps_nothing(newer):
    history = read(fence(0), litter=True)
    for record in (begin(history, 0), decision(0, 2, 5), decision(0, 3, 6), decision(0, 4, 7)):
        history.take(entry_of(record))
    assert len(run.to_sweep(history, 0, 1)) == 2
    history.take(entry_of(fence(newer)))
    assert run.to_sweep(history, 0, 1) == run.to_sweep(history, newer, 1) == []


def test_tombstones_go_so_many_at_a_time_and_once():
    history = read(fence(0), litter=True)
    history.take(entry_of(begin(history, 0)))
    for number in range(SWEPT_AT + 1):
        assert run.to_sweep(history, 0, SWEPT_AT) == []
        history.take(entry_of(decision(0, 2 + number, number)))
    keys = run.to_sweep(history, 0, SWEPT_AT)
    assert len(keys) == SWEPT_AT
    for key in keys:
        history.take(Entry(key, SINK, None))
    assert run.to_sweep(history, 0, 1) == []


def test_a_cut_is_settled_once_its_range_is_decided():
    cut, other = Cut(SINK, 0, SOURCE, 0, 5, 2), Cut(SINK, 0, OTHER, 0, 5, 2)
    history = read(fence(0), litter=True)
    for record in (begin(history, 0), cut, other):
        history.take(entry_of(record))
    assert run.to_sweep(history, 0, 1) == []
    history.take(entry_of(decision(0, 2, 5)))
    assert run.to_sweep(history, 0, 1) == [encode(cut)[0]]
    history.take(Entry(encode(cut)[0], SINK, None))
    history.take(entry_of(cut))  # a late attempt's
    assert run.to_sweep(history, 0, 1) == [encode(cut)[0]]


def test_a_decision_of_a_topic_that_was_made_anew_does_not_cover_the_one_before():
    """What that one settled would be open again: its offsets are another topic's."""
    history = read(fence(0), litter=True)
    of_first, of_second = ({"source_ids": {"in": name}} for name in ("a", "b"))
    for record in (begin(history, 0), decision(0, 2, 5, **of_first), decision(0, 3, 1, **of_second)):
        history.take(entry_of(record))
    assert run.to_sweep(history, 0, 1) == []


def test_a_run_that_carries_no_decision_sweeps_nothing():
    """It is too large to be written twice, or a flow's: whoever looks into one reads all of them."""
    before = [fence(0), begin(read(fence(0)), 0), decision(0, 2, 5), fence(1)]
    history = read(*before, litter=True)
    begun = Begin(SINK, 1, (OUT,), {})
    history.take(entry_of(replace(begun, carried=history.carried(begun, 10))))
    assert history.decision == before[2]
    assert run.to_sweep(history, 1, 1) == []
    stage = SinkHistory("flow/stage", fence=Fence("flow/stage", 0, "d"))
    assert not stage.carried(Begin("flow/stage", 0, (), {}), 10_000).has_decision


def test_a_cut_that_a_begin_has_kept_stays_where_a_late_copy_takes_its_first_ones_place():
    """The copy does not count any more, and the first one is gone."""
    cut = Cut(SINK, 0, SOURCE, 0, 5, 2)
    before = read(fence(0), Begin(SINK, 0, (OUT,), {}), cut, fence(1))
    begun = replace(begin(before, 1), have={("in/0/0of2", TopicPartition("out", 0)): Stored(NO_ROWS, 1)})
    begun = replace(begun, carried=before.carried(begun, 10_000))
    left = read(fence(0), Begin(SINK, 0, (OUT,), {}), fence(1), begun, cut)
    assert left.cuts == [cut]


def test_what_is_left_of_a_fence_that_never_counted_does_not_keep_a_begin_from_counting():
    """Another identity's of the same name, whose epochs were higher: the FENCE that it came behind is gone."""
    never = fence(9, producer_id=99)
    all_said = read(fence(4), never)
    assert all_said.fence == fence(4)
    all_said.take(entry_of(fence(5)))
    begun = begin(all_said, 5)
    assert answers(read(fence(4), never, fence(5), begun)) == answers(read(never, fence(5), begun))


def test_a_begin_behind_a_newer_fence_does_not_count_whatever_it_carries():
    late = begin(read(fence(0)), 0)
    assert read(fence(0), fence(1), late).begin is None
    assert read(fence(1), late).begin is None


def test_an_older_run_or_decision_never_comes_back():
    """A log that has forgotten the identity takes a copy of what it had long ago."""
    begun = begin(read(fence(0)), 0)
    history = read(fence(0), begun, WriterClaim(SINK, "w", 8, 0), decision(0, 2, 5), decision(0, 3, 9))
    before = answers(history)
    for copy in (begun, decision(0, 2, 5)):
        assert history.take(entry_of(copy)) is False
    assert answers(history) == before


def test_a_late_first_attempt_of_a_decided_version_is_late_behind_the_next_begin_too():
    """The DECISION that says so was swept, and BEGIN carries it."""
    decided = decision(0, 2, 5, txn_version=3)
    before = read(
        fence(0), begin(read(fence(0)), 0), WriterClaim(SINK, "batch:3~/0", 8, 0), decided, fence(1)
    )
    left = read(fence(1), begin(before, 1), WriterClaim(SINK, "batch:3~/0", 9, 0))
    assert left.writers == {}


def test_a_sink_rests_on_format_1_until_a_begin_carries_what_it_said():
    history = SinkHistory(SINK)
    for record in (fence(0), Begin(SINK, 0, (OUT,), {}), decision(0, -1, 5)):
        history.take(entry_of(record)._replace(format_version=1))
    assert history.rests_on_format_1
    history.take(entry_of(fence(1)))
    assert history.rests_on_format_1
    history.take(entry_of(begin(history, 1)))
    assert not history.rests_on_format_1
    assert history.decision == decision(0, -1, 5)
