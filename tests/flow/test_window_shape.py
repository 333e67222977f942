"""Windows as the language says them: the idle time, and what the plan has of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.flow.plan_lines import plan_lines

from semel.errors import FlowError
from semel.flow import source
from semel.flow.plan import Above

clicks = source("clicks", json="user string, at timestamp")
keyed = clicks.key_by("user")
MINUTE_MS = 60_000


def test_an_idle_time_is_asked_for_and_else_there_is_none():
    asked = keyed.tumbling("1 hour", on="at", lateness="5 min", idle="10 minutes").count().to("t").plan()
    stage = asked.stages[1]
    assert (stage.idle_ms, stage.rests_ms) == (10 * MINUTE_MS, (65 * MINUTE_MS,))
    assert stage.above == (Above("t/clicks-by-user", ("clicks",), None),)
    assert asked.stages[0].above == ()
    other = keyed.tumbling("1 hour", on="at", lateness="5 min").count().to("t").plan().stages[1]
    assert (other.idle_ms, other.above) == (0, ())
    assert other.state_text == stage.state_text
    assert other.plan_text != stage.plan_text
    session = keyed.sessions(gap="3 min", on="at", idle=timedelta(seconds=7)).count().to("t").plan().stages[1]
    assert (session.idle_ms, session.rests_ms) == (7000, (3 * MINUTE_MS,))


def test_all_stages_that_rows_come_through_stand_above_in_their_order():
    hours = keyed.tumbling("1 hour", on="at").count("hits").key_by("hits")
    stage = hours.sessions(gap="1 min", on="window_end", idle="1 min").count().to("t").plan().stages[-1]
    assert [(each.sink_id, each.topics, each.merge_topic) for each in stage.above] == [
        ("t/clicks-by-user", ("clicks",), None),
        (
            "t/clicks-by-user-tumbling-1h-count",
            ("t.clicks-by-user",),
            "t.clicks-by-user-tumbling-1h-count.merge",
        ),
    ]


@pytest.mark.parametrize("idle", ["0 s", "ten minutes", "-1 s", 600])
def test_what_is_no_idle_time_is_refused_where_it_is_written(idle):
    with pytest.raises(FlowError, match=r"the idle time.*"):
        keyed.tumbling("1 hour", on="at", idle=idle)
    with pytest.raises(FlowError, match=r"the idle time.*"):
        keyed.sessions(gap="1 min", on="at", idle=idle)


def test_windows_of_one_idle_time_share_a_stage_and_others_do_not():
    hours = keyed.tumbling("1 hour", on="at", idle="1 min").count()
    same = hours.tumbling("1 day", on="window_start", idle="1 min").count().to("t")
    other = hours.tumbling("1 day", on="window_start").count().to("t")
    assert plan_lines(same) == [
        "clicks-by-user: python  clicks > .clicks-by-user[user]",
        "clicks-by-user-tumbling-1h-count: state  .clicks-by-user > tumbling count, tumbling count > t[same]",
    ]
    assert [len(stage.rests_ms) for stage in same.plan().stages] == [0, 2]
    assert plan_lines(other)[1:] == [
        "clicks-by-user-tumbling-1h-count: state  .clicks-by-user > tumbling count"
        " > .clicks-by-user-tumbling-1h-count[same]",
        "clicks-by-user-tumbling-1h-count-tumbling-1d-count: state  .clicks-by-user-tumbling-1h-count"
        " > tumbling count > t[same]",
    ]


def test_explain_says_it():
    text = keyed.tumbling("1 hour", on="at", idle="10 minutes").count().to("t").explain()
    assert "goes on where a partition has no row for 10m" in text
    assert "goes on" not in keyed.tumbling("1 hour", on="at").count().to("t").explain()
