"""The counter-examples that shaped the sink's protocol, told with its own shells.

A model checker found each by leaving one rule out. Here the rule is there and every invariant holds; and with
the rule left out (a planted bug) the same story violates one.
"""

from __future__ import annotations

import functools

import pytest

from semel.errors import BrokerError, ErrorCode
from semel.sim.plants.catalogue import PLANTS
from semel.sim.sinks.mix import SinkMix
from semel.sim.sinks.story import ONE_TOO_MANY
from semel.sim.world.history import Violation

HOUR_MS = 3_600_000
BATCH = [(0, number) for number in range(8)]
TWO_BATCHES = [(0, number) for number in range(16)]
DOUBLED = SinkMix(double_task=1.0)


def without(plant: str):
    """Tell the story twice: as it is, and without the rule that ``plant`` leaves out."""

    def of(story):
        @pytest.mark.parametrize("rule", ["kept", "left out"])
        @functools.wraps(story)
        def test(make_world, rule):
            if rule == "kept":
                story(make_world)
                return
            with PLANTS[plant].planted(), pytest.raises(Violation) as found:
                story(make_world)
            assert found.value.invariant in PLANTS[plant].found_by

        test.__wrapped__ = lambda make_world, rule: None  # pytest reads the arguments here
        return test

    return of


@without("sink_reads_before_its_fence")
def test_fence_first_then_read(make_world):
    """Between a new driver's look and its FENCE, the old one begins and writes."""
    world = make_world()
    checkpoint = world.checkpoint()
    old_fences = world.hold(0, "planner", "FENCE")
    world.driver(checkpoint)
    world.until_held(old_fences)
    new_fences = world.hold(1, "planner", "FENCE")
    old_decides = world.hold(0, "commit", "DECISION")
    new = world.driver(checkpoint)
    world.until_held(new_fences)
    old_fences.let_go()
    world.until_held(old_decides)
    new_fences.let_go()
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_skips_by_batch_id")
def test_a_micro_batch_is_known_by_its_ranges(make_world):
    """A checkpoint without its last entries plans the same micro-batch with more rows."""
    world = make_world(rows_per_batch=20)
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    old.die()
    world.story.rows[0] = 12
    torn = checkpoint.torn(offsets_too=True)
    new = world.driver(torn, tampered=True)
    world.until(lambda: new in world.ended or torn.commits == 1)
    world.story.rows[0] = 16
    world.until(lambda: new in world.ended or torn.commits == 2)
    world.check()
    assert type(world.ended[new]).__name__ == "ReplayDiffers"
    assert world.output() == BATCH


@without("sink_ignores_newer_fences")
def test_a_task_that_claims_behind_a_newer_fence_stops(make_world):
    """Its writer was not known yet when the new driver fenced all that were."""
    world = make_world()
    checkpoint = world.checkpoint()
    claims = world.hold(0, "t0", "WRITER")
    world.driver(checkpoint)
    world.until_held(claims)
    new_claims = world.hold(1, "t0", "WRITER")
    new = world.driver(checkpoint)
    world.until_held(new_claims)
    claims.let_go()
    world.wait(1_000)
    new_claims.let_go()
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_commit_takes_an_epoch")
def test_the_commit_decides_under_the_planners_epoch(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    driver = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.story.rows[0] = 16
    world.until(lambda: checkpoint.commits == 2 or driver in world.ended)
    world.finish(driver)
    assert world.output() == TWO_BATCHES


@without("sink_abort_gives_rows_up")
def test_abort_ends_nothing(make_world):
    """A micro-batch fails when some of its rows are in the output."""
    world = make_world()
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint, mix=SinkMix(fail_task=1.0))
    world.until(lambda: old in world.ended)
    new = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


def test_the_source_fences_before_it_reads_the_decided_ends(make_world):
    """S7. The old driver decides behind a new query's look at the decided ends, or is stopped by its fence."""
    world = make_world()
    checkpoint = world.checkpoint()
    decides = world.hold(0, "commit", "DECISION", skip=1)
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.story.rows[0] = 16
    world.until_held(decides)
    lost = world.checkpoint("another", from_sink=True)
    plans = world.hold(1, "planner", "take over", skip=1)
    new = world.driver(lost)
    world.until_held(plans)
    decides.let_go()
    world.until(lambda: old in world.ended)
    assert type(world.ended[old]).__name__ == "SinkFenced"
    plans.let_go()
    world.until_committed(lost, 1)
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == TWO_BATCHES


@without("sink_writers_not_fenced")
def test_writers_of_older_runs_are_fenced(make_world):
    """An old task stands still in the middle of its rows, and goes on when a new driver has counted them."""
    world = make_world()
    checkpoint = world.checkpoint()
    goes_on, new_writes = world.hold(0, "t0", "rows", skip=1), world.hold(1, "t0", "rows")
    world.driver(checkpoint)
    world.until_held(goes_on)
    new = world.driver(checkpoint)
    world.until_held(new_writes)
    goes_on.let_go()
    world.wait(1_000)
    new_writes.let_go()
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_restarts_share_an_epoch")
def test_s3_two_restarts_fence_to_different_epochs(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    for number in (0, 1):
        writes = world.hold(number, "t0", "rows")
        killed = world.driver(checkpoint)
        world.until_held(writes)
        killed.die()
    goes_on, new_writes = world.hold(2, "t0", "rows", skip=1), world.hold(3, "t0", "rows")
    world.driver(checkpoint)
    world.until_held(goes_on)
    new = world.driver(checkpoint)
    world.until_held(new_writes)
    goes_on.let_go()
    world.wait(1_000)
    new_writes.let_go()
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_scans_nothing")
def test_rows_of_a_run_that_did_not_decide_are_met_again(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    new = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_begins_behind_the_first_row")
def test_begin_is_durable_before_the_first_row(make_world):
    """Before the first decision nothing else says from where on the sink's rows may lie."""
    world = make_world()
    checkpoint = world.checkpoint()
    goes_on = world.hold(0, "t0", "rows", skip=1)
    old = world.driver(checkpoint)
    world.until_held(goes_on)
    old.die()
    new = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_last_writer_wins")
def test_s2_the_first_writer_of_a_name_wins(make_world):
    """Two attempts of one task claim the writer; the first has written already."""
    world = make_world()
    checkpoint = world.checkpoint()
    first = world.hold(0, "t0", "rows", skip=1)
    driver = world.driver(checkpoint, mix=DOUBLED)
    world.until_held(first)
    world.until_committed(checkpoint, 1)  # by the other one
    first.let_go()
    world.finish(driver)
    assert world.output() == BATCH


def test_s4_a_skipped_micro_batch_leaves_no_run_without_begin(make_world):
    """Killed between DECISION and Spark's commit entry; then the replay is skipped, and the next one is not."""
    world = make_world()
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    old.die()
    world.story.rows[0] = 16
    torn = checkpoint.torn(offsets_too=False)
    new = world.driver(torn)
    world.until_committed(torn, 2)
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == TWO_BATCHES


@without("sink_forgets_idle_writers")
def test_s5_idle_writers_are_carried_forward(make_world):
    world = make_world(sources=2, rows_per_batch=40)
    checkpoint = world.checkpoint()
    driver = world.driver(checkpoint)
    for batches, rows in enumerate([(8, 8), (16, 8), (16, 16)], 1):
        world.story.rows = dict(enumerate(rows))
        world.until(lambda batches=batches: checkpoint.commits == batches or driver in world.ended)
    world.finish(driver)
    assert world.ended[driver] is None
    assert sorted(world.output()) == [(source, number) for source in (0, 1) for number in range(16)]


@without("sink_splits_not_compared")
def test_s6_another_split_over_undecided_rows_differs(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    split = world.driver(checkpoint, splits=2, tampered=True)
    assert type(world.end_of(split)).__name__ == "ReplayDiffers"
    back = world.driver(checkpoint, tampered=True)
    world.until_committed(checkpoint, 1)
    world.finish(back)
    assert world.output() == BATCH


@without("sink_cuts_not_compared")
def test_splits_of_another_range_differ(make_world):
    """Found by seed 57: half of [0, 16) is [0, 8), whose second half stands under the other split's writer."""
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint, splits=2)
    world.story.rows[0], world.story.rows_per_batch = 16, (16,)
    lost = world.checkpoint("another", from_sink=True)
    second_half = world.hold(1, "t1", "reads")
    recut = world.driver(lost, splits=2, tampered=True)
    world.until(lambda: second_half.is_reached or recut in world.ended)
    world.wait(1_000)
    second_half.let_go()
    assert type(world.end_of(recut)).__name__ == "ReplayDiffers"
    back = world.driver(checkpoint, splits=2, tampered=True)
    world.until_committed(checkpoint, 1)
    world.until(lambda: checkpoint.commits == 2)
    world.finish(back)
    assert sorted(world.output()) == TWO_BATCHES


@without("sink_refuses_a_surplus")
def test_s8_a_lost_checkpoint_may_come_with_smaller_micro_batches(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    world.story.rows_per_batch = (3,)
    lost = world.checkpoint("another", from_sink=True)
    new = world.driver(lost)
    world.until(lambda: lost.commits == 3 or new in world.ended)
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == BATCH


@without("sink_refuses_a_surplus")
def test_what_a_lost_query_left_is_a_surplus_for_the_one_that_decided_last_too(make_world):
    """Found by seed 256: it goes on behind another one's larger micro-batch, and was said to give other rows."""
    world = make_world()
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    old.die()
    world.story.rows[0] = 16
    world.die_before_the_decision(world.checkpoint("another", from_sink=True))
    world.story.rows_per_batch = (3,)
    new = world.driver(checkpoint)
    world.until(lambda: checkpoint.commits == 4 or new in world.ended)
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == TWO_BATCHES


@without("sink_twins_not_ended")
def test_s9_a_late_twin_with_a_row_more_is_shut_out_or_found(make_world):
    world = make_world(rows_differ=True)
    world.story.versions = {0: 0, 1: ONE_TOO_MANY}
    checkpoint = world.checkpoint()
    first, twin = world.hold(0, "t0", "rows"), world.hold(0, "t1", "rows")
    driver = world.driver(checkpoint, mix=SinkMix(double_task=1.0, zombie=1.0))
    world.until_held(first)
    world.until_held(twin)
    first.let_go()
    world.until_committed(checkpoint, 1)
    twin.let_go()
    world.finish(driver)
    assert world.output() == BATCH


def test_a_twin_that_says_so_behind_the_commits_look_is_met_by_the_next_micro_batch(make_world):
    """Found by seed 5081: nobody could know of it, and of such a query a row too many is stored until then."""
    world = make_world(rows_differ=True)
    world.story.versions = {0: 0, 1: ONE_TOO_MANY}
    checkpoint = world.checkpoint()
    first, twin = world.hold(0, "t0", "rows"), world.hold(0, "t1", "reads")
    for later in ("t2", "t3"):  # the twin is slow too, and is doubled
        world.hold(0, later, "reads")
    decides = world.hold(0, "commit", "DECISION")
    driver = world.driver(checkpoint, mix=SinkMix(double_task=1.0, zombie=1.0))
    world.until_held(first)
    world.until_held(twin)
    first.let_go()
    world.until_held(decides)
    twin.let_go()
    world.until(lambda: len(world.output()) == len(BATCH) + 1)
    decides.let_go()
    world.until_committed(checkpoint, 1)
    world.story.rows[0] = 16
    assert type(world.end_of(driver)).__name__ == "NonDeterministicReplay"


@without("sink_prefixes_not_compared")
def test_rows_that_are_stored_are_compared_before_the_rest_goes(make_world):
    """The query gives other rows after a restart than those that stand in the output half."""
    world = make_world(rows_differ=True)
    checkpoint = world.checkpoint()
    goes_on = world.hold(0, "t0", "rows", skip=1)
    old = world.driver(checkpoint)
    world.until_held(goes_on)
    old.die()
    world.story.versions = dict.fromkeys(range(4), 1)
    new = world.driver(checkpoint)
    world.until(lambda: new in world.ended or checkpoint.commits == 1)
    world.check()
    assert type(world.ended[new]).__name__ == "NonDeterministicReplay"


def test_a_decided_replay_needs_nothing_of_the_rows_behind_it(make_world):
    """Found by seed 123: rows of the next micro-batch stand in the output, and this one was decided before."""
    world = make_world()
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    decides = world.hold(0, "commit", "DECISION")
    world.story.rows[0] = 16
    world.until_held(decides)
    old.die()
    torn = checkpoint.torn(offsets_too=True).torn(offsets_too=False)
    new = world.driver(torn)
    world.until(lambda: torn.commits == 2 or new in world.ended)
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == TWO_BATCHES


@without("sink_scans_what_is_left")
def test_rows_that_were_trimmed_before_their_decision_stop_the_sink(make_world):
    """A sink of another name gets over it, and what was left of them comes a second time."""
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    world.trim(4)
    stopped = world.driver(checkpoint)
    world.until(lambda: stopped in world.ended or checkpoint.commits == 1)
    world.check()
    assert type(world.ended[stopped]).__name__ == "ReplayUnprovable"
    assert "startingOffsets=sink:k0" in str(world.ended[stopped])
    world.story.sink_ids.append("k0.1")
    anew = world.checkpoint("another", from_sink=True)
    new = world.driver(anew)
    world.until_committed(anew, 1)
    world.finish(new)
    assert world.output() == BATCH[4:] + BATCH


@without("sink_needs_the_whole_output")
def test_rows_that_were_decided_may_be_trimmed(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    old = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    old.die()
    world.trim(8)
    world.story.rows[0] = 16
    new = world.driver(checkpoint)
    world.until(lambda: checkpoint.commits == 2 or new in world.ended)
    world.check()
    world.finish(new)
    assert world.ended[new] is None
    assert world.output() == TWO_BATCHES[8:]


def test_a_trim_amid_the_scan_is_told_as_the_sinks_own_loss(make_world):
    """Found by seed 58: it was the source's error, whose text names a way out that does not help here."""
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    scans = world.hold(1, "planner", "scan")
    new = world.driver(checkpoint)
    world.until_held(scans)
    world.trim(4)
    scans.let_go()
    assert type(world.end_of(new)).__name__ == "ReplayUnprovable"


def overtaken(world, checkpoint, hold, **options):
    """A driver that is held there, while a newer one decides the first micro-batch."""
    older = world.driver(checkpoint, **options)
    world.until_held(hold)
    world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    return older


def test_a_trim_of_what_a_newer_driver_has_decided_is_told_as_its_fence(make_world):
    """The older one has lost nothing: it was told to take another sink id, though the sink goes on."""
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    scans = world.hold(1, "planner", "scan")
    older = overtaken(world, checkpoint, scans)
    world.trim(8)
    scans.let_go()
    assert type(world.end_of(older)).__name__ == "SinkFenced"


def test_such_a_trim_before_the_older_drivers_commit_reads_is_told_as_its_fence_too(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    reads_back = world.hold(0, "commit", "read back")
    older = overtaken(world, checkpoint, reads_back, mix=DOUBLED)
    world.trim(8)
    reads_back.let_go()
    assert type(world.end_of(older)).__name__ == "SinkFenced"


def test_rows_that_a_newer_driver_adds_before_the_older_reads_back_are_told_as_its_fence(make_world):
    """Found by seed 1801: the query was said to give other rows when it runs again."""
    world = make_world()
    checkpoint = world.checkpoint()
    fenced = world.hold(0, "commit", "twins are fenced")
    older = overtaken(world, checkpoint, fenced, mix=DOUBLED)
    world.story.rows[0] = 16
    world.until_committed(checkpoint, 2)
    fenced.let_go()
    assert type(world.end_of(older)).__name__ == "SinkFenced"


def test_a_trim_before_the_twins_are_read_back_is_told_so_too(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    reads_back = world.hold(0, "commit", "read back")
    driver = world.driver(checkpoint, mix=DOUBLED)
    world.until_held(reads_back)
    world.trim(4)
    reads_back.let_go()
    assert type(world.end_of(driver)).__name__ == "ReplayUnprovable"


def test_a_driver_whose_clock_is_hours_ahead_takes_its_sink_over(make_world):
    """Found by seed 2455: its FENCE was refused. Rows bear its time, so those may be; nothing is lost by that."""
    world = make_world()
    world.set_server_clock(-2 * HOUR_MS)
    checkpoint = world.checkpoint()
    ahead = world.driver(checkpoint)
    world.until(lambda: ahead in world.ended)
    refused = world.ended[ahead]
    assert isinstance(refused, BrokerError)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert "appending to the decision log" not in str(refused)
    world.set_server_clock(0)
    world.finish(world.driver(checkpoint))
    assert world.output() == BATCH


@without("sink_trusts_a_forgotten_name")
def test_a_name_that_the_server_forgot_begins_a_generation(make_world):
    """The sink's first epoch comes again, and with it the sequences of rows that are stored."""
    world = make_world()
    checkpoint = world.checkpoint()
    first = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    first.die()
    world.forget_names()
    world.story.rows[0] = 16
    second = world.driver(checkpoint)
    world.until(lambda: checkpoint.commits == 2 or second in world.ended)
    world.check()
    world.finish(second)
    assert world.output() == TWO_BATCHES


def test_two_drivers_that_find_their_name_forgotten_at_once(make_world):
    """Both have read that it was another's, and each is granted the next generation's name."""
    world = make_world()
    checkpoint = world.checkpoint()
    first = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    first.die()
    world.forget_names()
    world.story.rows[0] = 16
    one_fences, two_fences = (world.hold(number, "planner", "FENCE") for number in (1, 2))
    one = world.driver(checkpoint)
    world.until_held(one_fences)
    world.forget_names()  # so that both have the same epoch
    two = world.driver(checkpoint)
    world.until_held(two_fences)
    one_fences.let_go()
    world.until(lambda: checkpoint.commits == 2)
    two_fences.let_go()  # it is void where it stands, and its driver asks again
    world.finish(one, two)
    assert world.output() == TWO_BATCHES
    assert [world.ended[each] for each in (one, two)] == [None, None]


def test_a_driver_that_decides_behind_a_newer_generations_fence_is_told_so(make_world):
    """The log does not know that the two identities are one sink's."""
    world = make_world()
    checkpoint = world.checkpoint()
    decides = world.hold(0, "commit", "DECISION")
    old = world.driver(checkpoint)
    world.until_held(decides)
    world.forget_names()
    scans = world.hold(1, "planner", "scan")
    fenced = world.hold(1, "planner", "fences")
    new = world.driver(checkpoint)
    world.until_held(fenced)
    decides.let_go()
    assert type(world.end_of(old)).__name__ == "SinkFenced"
    fenced.let_go()
    scans.let_go()
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH


@without("sink_source_known_by_offsets")
def test_a_source_topic_made_anew_is_read_from_its_beginning(make_world):
    """It has more rows than the checkpoint has offsets: those below were skipped."""
    world = make_world()
    checkpoint = world.checkpoint()
    first = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    first.die()
    world.story.make_source_anew(0)
    world.story.rows[0] = 16
    stops = world.driver(checkpoint)
    world.until(lambda: stops in world.ended or checkpoint.commits == 2)
    world.check()
    assert type(world.ended[stops]).__name__ == "DataLoss"
    assert world.output() == BATCH
    world.story.fails_on_data_loss = False
    goes_on = world.driver(checkpoint)
    world.until_committed(checkpoint, 3)
    world.finish(goes_on)
    assert world.output() == [(0, number) for number in range(24)]


@pytest.mark.parametrize("lost", [False, True])
def test_undecided_rows_of_a_source_topic_that_is_gone_stay(make_world, lost):
    """The driver dies when all rows are in the output; a query that has lost its checkpoint leaves them there too."""
    world = make_world()
    world.story.fails_on_data_loss = False
    checkpoint = world.checkpoint()
    first = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    first.die()
    world.story.rows[0] = 16
    world.die_before_the_decision(checkpoint)
    world.story.make_source_anew(0)
    world.story.was_lost = lost
    new = world.driver(world.checkpoint("another", from_sink=True) if lost else checkpoint)
    world.until(lambda: len(world.output()) == 32)
    world.finish(new)
    assert world.output() == [(0, number) for number in range(32)]
