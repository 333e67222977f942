"""Merge logs that are not gone on with."""

from __future__ import annotations

from tests.core.flow.merge_samples import (
    CLICKS,
    FIRST,
    USERS,
    C,
    U,
    head,
    history_of,
)

from semel.core.flow.merge import INPUTS_MAX, MergeHistory
from semel.core.flow.merge_plan import next_head
from semel.core.flow.merge_records import Head, MergeInput, PlacedEntry
from semel.core.flow.merge_stops import (
    InputLoss,
    Lost,
    behind_end,
    left_out,
    made_anew,
    overtaken,
    pairs,
    trimmed,
    whole,
)
from semel.core.sink.refusal import Reason, Refusal


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
    assert found == InputLoss("clicks", 5, 5, Lost.MADE_ANEW)
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


def test_recorded_rows_of_a_topic_that_is_not_read_any_more_are_not_left_out():
    entries = [PlacedEntry(3, FIRST)]
    assert left_out(entries, ("clicks", "users")) is None
    assert left_out([], ("clicks",)) is None
    refusal = left_out(entries, ("clicks",))
    assert refusal.reason is Reason.PLAN_NOT_SUPPORTED
    assert "entry 3 of the merge log has rows of topic 'users'" in refusal.evidence
