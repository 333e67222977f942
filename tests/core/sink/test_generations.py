"""Sink epochs for ever: writers and the sink itself change their identities before a producer epoch ends."""

from __future__ import annotations

import pytest

from semel.core.sink.epochs import (
    GENERATION_EPOCHS,
    LAST_EPOCH,
    RETIRED_WRITER_EPOCH,
    closing_epoch,
    generation_of,
    identity_epoch,
    identity_name,
    is_last,
    sink_epoch_of,
    writer_epoch,
)
from semel.types import PRODUCER_EPOCH_MAX


@pytest.fixture
def near_the_end(world):
    """One more run, and the first generation is used up."""
    world.identities[0] = LAST_EPOCH - 2
    return world


def test_every_epoch_of_a_run_fits_a_producer_epoch_and_lies_below_the_retired_one():
    last_run = sink_epoch_of(3, LAST_EPOCH - 1)
    assert 0 <= writer_epoch(last_run) < closing_epoch(last_run) < RETIRED_WRITER_EPOCH <= PRODUCER_EPOCH_MAX
    assert (generation_of(last_run), identity_epoch(last_run)) == (3, LAST_EPOCH - 1)
    assert writer_epoch(sink_epoch_of(4, 0)) == 0


def test_grants_beyond_a_generations_last_epoch_stay_below_the_next_generation():
    ends = [sink_epoch_of(0, epoch) for epoch in (LAST_EPOCH, LAST_EPOCH + 1, PRODUCER_EPOCH_MAX)]
    assert all(is_last(end) and end < sink_epoch_of(1, 0) == GENERATION_EPOCHS for end in ends)


def test_the_sinks_identities_have_names_of_their_own():
    assert identity_name("s", 0) == "semel.sink.s"
    assert identity_name("s", 2) == "semel.sink.s@2"


def test_rows_of_an_ended_generation_are_met_again(near_the_end, driver, source, rows):
    old = driver().plan()
    assert old.sink_epoch == LAST_EPOCH - 1
    attempt = old.task(source(0, 5), rows(0, 5))
    attempt.open()
    attempt.send(3)
    new = driver()
    new.batch((source(0, 5), rows(0, 5)))
    assert new.sink_epoch == GENERATION_EPOCHS
    new.batch((source(5, 8), rows(5, 8)), batch_id=1)
    driver().batch((source(8, 9), rows(8, 9)), batch_id=2)
    assert near_the_end.visible() == rows(0, 9)


def test_a_zombie_task_of_an_ended_generation_is_fenced(near_the_end, driver, source, rows, stopped):
    zombie = driver().plan().task(source(0, 4), rows(0, 4))
    zombie.open()
    zombie.send(1)
    driver().batch((source(0, 4), rows(0, 4)))
    with stopped("SinkFenced"):
        zombie.send(1)
    assert near_the_end.visible() == rows(0, 4)


def test_a_driver_of_an_ended_generation_cannot_decide(near_the_end, driver, source, rows, stopped):
    """The log refuses older epochs of one identity only: the generation's own last one has to end it."""
    old = driver().plan()
    attempt = old.task(source(0, 2), rows(0, 2))
    attempt.open()
    report = attempt.send().report()
    read_before = near_the_end.history
    journal = list(near_the_end.journal)
    new = driver().plan()
    near_the_end.history = lambda since=0: _history_of(journal, read_before)
    with stopped("SinkFenced"):  # its commit had read the log before the new driver came
        old.decide([report])
    near_the_end.history = read_before
    again = new.task(source(0, 2), rows(0, 2))
    again.open()
    new.decide([again.send().report()])
    assert near_the_end.visible() == rows(0, 2)


def _history_of(journal, read):
    history = read()
    fresh = type(history)(history.sink_id)
    from semel.core.sink.journal import decode

    for value in journal:
        fresh.apply(decode(value))
    fresh.end_offset = len(journal)
    return fresh


def test_two_drivers_that_end_a_generation_at_once_have_one_order(
    near_the_end, driver, source, rows, stopped
):
    driver().batch((source(0, 2), rows(0, 2)))
    one, two = driver(), driver()
    one.take()
    two.take()
    assert (one.sink_epoch, two.sink_epoch) == (GENERATION_EPOCHS, GENERATION_EPOCHS + 1)
    two.fence().fence_writers().begin()
    with stopped("SinkFenced"):
        one.fence()


def test_an_old_drivers_late_fence_changes_nothing(near_the_end, world, driver, source, rows, stopped):
    """Its epoch is granted, a newer driver comes, and its FENCE arrives after (its producer state expired)."""
    late = driver().take()
    new = driver().plan()
    world.newest_driver_epochs.clear()
    with stopped("SinkFenced"):
        late.fence()
    assert world.history().fence.sink_epoch == new.sink_epoch


def test_a_lost_checkpoints_surplus_crosses_generations(near_the_end, driver, source, rows):
    near_the_end.identities[0] = LAST_EPOCH - 3
    driver("q1").batch((source(0, 2), rows(0, 2)))
    killed = driver("q1").plan().task(source(2, 8), rows(2, 8))
    killed.open()
    killed.send(5)
    new = driver("q2")
    new.batch((source(2, 4), rows(2, 4)))
    new.batch((source(4, 6), rows(4, 6)), batch_id=1)
    new.batch((source(6, 9), rows(6, 9)), batch_id=2)
    assert near_the_end.visible() == rows(0, 9)
