"""A broker that forgets the sink's name, or who wrote: epochs go back, and the log takes anything from old drivers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.sink import run
from semel.core.sink.epochs import GENERATION_EPOCHS, RETIRED_WRITER_EPOCH
from semel.core.sink.grant import fence_of, generation_to_ask, stands
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Begin, Fence, WriterClaim, decode, encode
from semel.core.sink.ranges import SourceRange, Verdict
from semel.types import ProducerGrant, TopicPartition

SOURCE = TopicPartition("in", 0)


def test_a_forgotten_name_begins_a_generation_with_writers_of_its_own(world, driver, source, rows):
    """Else epoch 0 comes again, and with it the sequences of rows that are stored."""
    driver().batch((source(0, 5), rows(0, 5)))
    world.forget_names()
    new = driver()
    new.batch((source(5, 10), rows(5, 10)), batch_id=1)
    assert new.sink_epoch == GENERATION_EPOCHS
    assert world.visible() == rows(0, 10)
    ids = world.history().writers[source(0, 5).writer]
    assert len(set(ids.values())) == 2


def test_a_name_that_was_forgotten_and_has_higher_epochs_since_is_another_one(world, driver, source, rows):
    """Drivers that died before their FENCE have raised it; the epoch alone would pass for the next one."""
    driver().batch((source(0, 5), rows(0, 5)))
    world.forget_names()
    for _ in range(3):
        driver().take()
    world.forget_names()
    world.grant(0), world.grant(0)
    new = driver()
    new.batch((source(5, 7), rows(5, 7)), batch_id=1)
    assert new.sink_epoch >= GENERATION_EPOCHS
    assert world.visible() == rows(0, 7)


def test_undecided_rows_of_the_generation_before_are_met_again(world, driver, source, rows):
    killed = driver().plan().task(source(0, 5), rows(0, 5))
    killed.open()
    killed.send(3)
    world.forget_names()
    driver().batch((source(0, 5), rows(0, 5)))
    world.forget_names()
    driver().batch((source(5, 6), rows(5, 6)), batch_id=1)
    assert world.visible() == rows(0, 6)


def test_a_zombie_task_of_the_generation_before_is_fenced(world, driver, source, rows, stopped):
    zombie = driver().plan().task(source(0, 4), rows(0, 4))
    zombie.open()
    zombie.send(1)
    world.forget_names()
    driver().batch((source(0, 4), rows(0, 4)))
    with stopped("SinkFenced"):
        zombie.send(1)


@pytest.mark.parametrize("forgets_names", [False, True])
def test_what_an_old_driver_decides_behind_a_newer_fence_is_void(
    world, driver, source, rows, stopped, forgets_names
):
    """The log takes it: it has forgotten the producer id, or never knew that the newer one comes after it."""
    old = driver()
    old.plan()
    attempt = old.task(source(0, 4), rows(0, 4))
    attempt.open()
    decision = old.decision_of([attempt.send().report()])
    if forgets_names:
        world.forget_names()
    new = driver().plan()
    world.forget_producers()
    with stopped("SinkFenced"):
        old.append(decision)
    assert world.history().decision is None
    again = new.task(source(0, 4), rows(0, 4))
    assert again.open() is Verdict.WRITE
    new.decide([again.send().report()])
    assert world.visible() == rows(0, 4)


def test_two_drivers_that_find_the_name_forgotten_at_once_have_one_order(
    world, driver, source, rows, stopped
):
    driver().batch((source(0, 2), rows(0, 2)))
    world.forget_names()
    one, two = driver().take(), driver().take()
    assert (one.sink_epoch, two.sink_epoch) == (GENERATION_EPOCHS, GENERATION_EPOCHS + 1)
    two.fence().fence_writers().begin()
    with stopped("SinkFenced"):
        one.fence()


def test_of_two_fences_of_one_epoch_the_first_counts_and_the_other_driver_asks_again(
    world, driver, source, rows, stopped
):
    """The name of the next generation was forgotten too, between the two."""
    driver().batch((source(0, 2), rows(0, 2)))
    world.forget_names()
    one = driver().take()
    world.forget_names()
    two = driver().take()
    assert one.sink_epoch == two.sink_epoch
    one.fence().fence_writers().begin()
    two.fence().fence_writers().begin()
    assert two.sink_epoch > one.sink_epoch
    with stopped("SinkFenced"):
        one.task(source(2, 4), rows(2, 4)).open()
    attempt = two.task(source(2, 4), rows(2, 4))
    attempt.open()
    two.decide([attempt.send().report()], batch_id=1)
    assert world.visible() == rows(0, 4)


def test_a_driver_that_read_the_log_before_anybody_fenced_does_not_take_that_ones_epoch(
    world, driver, source, rows
):
    """A FENCE must follow all that stands before it, not only what its driver had read."""
    late = driver().read()
    driver().batch((source(0, 2), rows(0, 2)))
    world.forget_names()
    late.ask(0)
    assert late.sink_epoch == 0
    late.fence()
    assert late.sink_epoch == GENERATION_EPOCHS
    late.fence_writers().begin()
    assert late.ticket.source_ends[SOURCE] == 2


def test_a_fence_of_another_identity_does_not_follow_in_its_generation():
    assert Fence("s", 3, "", "", 8).follows(Fence("s", 2, "", "", 8))
    assert not Fence("s", 3, "", "", 9).follows(Fence("s", 2, "", "", 8))
    assert not Fence("s", 2, "", "", 8).follows(Fence("s", 2, "", "", 8))
    assert Fence("s", GENERATION_EPOCHS, "", "", 9).follows(Fence("s", 2, "", "", 8))
    assert not Fence("s", 2, "", "", 8).follows(Fence("s", GENERATION_EPOCHS, "", "", 9))


def test_a_fence_from_before_fences_named_their_producer_has_the_one_of_its_batch():
    body = json.loads(encode(Fence("s", 4, "a"))[1])
    del body["producer_id"]
    old = decode(json.dumps(body).encode(), 77)
    assert old == Fence("s", 4, "a", "", 77)
    history = SinkHistory("s")
    history.apply(old)
    assert fence_of(history, 0, ProducerGrant(77, 5), "b") is not None
    assert fence_of(history, 0, ProducerGrant(78, 5), "b") is None
    # Where not even the batch says it, the epoch has to do.
    assert Fence("s", 5, "b", "", 78).follows(Fence("s", 4, "a"))


def test_a_fence_that_is_void_does_not_stand():
    history = SinkHistory("s")
    first, second = Fence("s", 0, "a", "", 8), Fence("s", 0, "b", "", 9)
    assert history.apply(first) is True and history.apply(second) is False
    assert stands(history, first) is True
    assert stands(history, second) is False
    history.apply(Fence("s", 1, "c", "", 8))
    assert "taken over by c" in stands(history, second).evidence


def test_the_former_identity_is_fenced_in_the_decision_log(world, driver, source, rows, stopped):
    old = driver()
    old.batch((source(0, 2), rows(0, 2)))
    world.forget_names()
    driver().plan()
    assert world.newest_driver_epochs[old.granted.producer_id] == RETIRED_WRITER_EPOCH


def test_a_sink_that_rests_often_does_not_fence_all_its_former_writers():
    """Those of an older generation were raised to the highest epoch before the last generation's BEGIN."""
    history = SinkHistory("s")
    for generation in range(4):
        history.apply(Fence("s", generation * GENERATION_EPOCHS, "", "", generation))
        history.apply(Begin("s", generation * GENERATION_EPOCHS, (), {}))
        history.apply(WriterClaim("s", "w", 100 + generation, generation * GENERATION_EPOCHS))
    outputs = [TopicPartition("out", 0)]
    history.apply(Fence("s", 4 * GENERATION_EPOCHS, "", "", 4))
    fences = run.fences(history, 4 * GENERATION_EPOCHS, outputs)
    assert fences == {(102, RETIRED_WRITER_EPOCH): outputs, (103, RETIRED_WRITER_EPOCH): outputs}


def test_a_run_does_not_grow_old(world, driver, source, rows):
    """What it goes on from, sequences and epochs, is known to a log for a day of rest."""
    d = driver()
    d.batch((source(0, 2), rows(0, 2)))
    held = run.Planned(d.ticket, None, begun_ms=500)
    history = world.history()
    assert run.next_in_run(held, history, elapsed_ms=500 + run.RUN_MS_MAX).sink_epoch == d.sink_epoch
    assert run.next_in_run(held, history, elapsed_ms=501 + run.RUN_MS_MAX) is None


def steps_of(driver, planned, done, stop):
    """One driver's life, step by step: anything may happen between two of them."""
    try:
        driver.read()
        yield
        driver.ask(generation_to_ask(driver.history))
        yield
        driver.fence()
        yield
        driver.fence_writers()
        yield
        driver.begin()
        while len(done) < len(planned):
            batch_id = len(done)
            first, last = planned[batch_id]
            attempt = driver.task(
                SourceRange(SOURCE, first, last), [bytes([row]) for row in range(first, last)]
            )
            reports = []
            if attempt.open() is Verdict.WRITE:
                while attempt.todo:
                    yield
                    attempt.send(1)
                reports.append(attempt.report())
            yield
            decision = driver.decision_of(reports, batch_id)
            yield
            if decision is not None:
                driver.append(decision)
            yield
            if batch_id == len(done):
                done.append(batch_id)
            yield
            driver.plan()
    except stop as why:
        # Another driver's checkpoint entry may come between the offsets that this one planned and its own.
        assert why.reason in ("SinkFenced", "ReplayDiffers"), why.reason


@settings(max_examples=settings().max_examples * 2)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    schedule=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 9)) | st.sampled_from([("names", 1), ("log", 1)]),
        max_size=20,
    ),
)
def test_any_order_of_drivers_and_forgetting_leaves_every_row_once(
    make_world, make_driver, the_stop, sizes, schedule
):
    """Names, and the drivers in the decision log, are forgotten at any time; writers only while none of them writes.

    (A task that sleeps for longer than an output remembers it writes what nobody can refuse: docs/spark.md.)
    """
    world, done = make_world(), []
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    planned = list(zip([0, *ends], ends, strict=False))
    lives = {name: steps_of(make_driver(world), planned, done, the_stop) for name in "abc"}
    for who, steps in schedule:
        if who == "names":
            world.forget_names()
        elif who == "log":
            world.newest_driver_epochs.clear()
        else:
            for _ in range(steps):
                next(lives[who], None)
    for life in lives.values():
        for _ in life:
            pass
    world.forget_names()
    world.forget_producers()
    for _ in steps_of(make_driver(world), planned, done, the_stop):
        pass
    assert len(done) == len(planned)
    assert world.visible() == [bytes([row]) for row in range(ends[-1])]
    assert world.history().decision.source_ends[SOURCE] == ends[-1]
