"""What ``explain`` says of a plan, word by word."""

from __future__ import annotations

import json
from typing import Any

from semel.flow import Flow, source
from semel.flow.explain import explain_document, explain_text


def visit_of(state: Any, row: Any) -> Any:
    return state, row


def visits() -> Flow:
    """The flow that the README shows."""
    clicks = source("clicks", json="user string, url string, at timestamp")
    users = source("users", json="user string, country string").as_table("user")
    return clicks.where("url IS NOT NULL").key_by("user").join(users).fold(visit_of, init=None).to("visits")


TEXT = """\
flow visits: 3 stages, each a query of its own; runs on Spark.
A topic with a dot in front is its own: .x is visits.x

STAGE                      RUNS    READS                             PATTERN                         WRITES
clicks-by-user             spark   clicks                            repartition                     .clicks-by-user
users-by-user              python  users                             repartition                     .users-by-user
clicks-by-user-with-users  python  .clicks-by-user + .users-by-user  merge log, state in the commit  visits

clicks-by-user
  query   visits/clicks-by-user, in Spark
  reads   clicks: user string, url string, at timestamp
  step    where url IS NOT NULL
  writes  visits.clicks-by-user: user string, url string, at timestamp; keyed by user
  state   none
  why     repartition. key_by("user") brings the rows of a key together through a topic; no shuffle, and no
          order to record. Each row is answered for itself: a replay gives the same rows, however its ranges
          are cut.

users-by-user
  query   visits/users-by-user, in the sink's tasks
  reads   users: user string, country string
  writes  visits.users-by-user: user string, country string; keyed by user
  state   none
  why     repartition. as_table("user") brings the rows of a key together through a topic; no shuffle, and no
          order to record. Each row is answered for itself: a replay gives the same rows, however its ranges
          are cut. Where the records of users have that key already, source(..., key="user") spares the topic.

clicks-by-user-with-users
  query   visits/clicks-by-user-with-users, in the sink's tasks
  reads   visits.clicks-by-user: user string, url string, at timestamp, keyed by user
  reads   visits.users-by-user as a table: user string, country string, keyed by user
  step    join
  step    fold visit_of
  writes  visits: rows as they are; the key as it came
  order   recorded in visits.clicks-by-user-with-users.merge, 4 partitions
  state   of join, fold visit_of: rides in the decisions while it is small, then in
          visits.clicks-by-user-with-users.changelog and on the disk of whoever works on it
  why     merge log, state in the commit. What comes out of join, fold visit_of depends on which rows came
          before: their order, and the entries that they come in, are recorded, so that a replay is cut as the
          first run was. The state is that of the decided end.

topics of the flow's own, kept for ever
TOPIC                                       PARTITIONS  PURPOSE
visits.clicks-by-user                       4           rows of clicks-by-user
visits.users-by-user                        4           rows of users-by-user
visits.clicks-by-user-with-users.merge      4           merge log of clicks-by-user-with-users
visits.clicks-by-user-with-users.changelog  4           changelog of clicks-by-user-with-users
visits.bad                                  2           rows that no step could take, with the reason
visits.late                                 2           rows that came after their window was closed
"""


def test_the_text_says_what_runs_where_and_why() -> None:
    assert explain_text(visits().plan()) == TEXT
    assert visits().explain() == TEXT


def test_a_cut_that_could_be_spared_is_told_with_the_way_out() -> None:
    clicks = source("clicks", json="user string, n int")
    between = clicks.key_by("user").where("n > 1").count().to("t").plan().stage("clicks-by-user-rows")
    assert 'where("n > 1")' in between.reason
    assert 'stands behind key_by("user"), so it reads the topic of that. In front of it' in between.reason
    behind = clicks.key_by("user").count().where("count > 1").to("t").plan().stage("t")
    assert "Spark's and stands behind count()" in behind.reason
    assert "Written in Python (filter, map) it needs no stage of its own" in behind.reason
    merged = clicks.where("n > 1").merge(source("more", json="user string, n int")).to("t").plan()
    assert "needs no stage of its own" in merged.stage("clicks-rows").reason


def test_the_document_is_json_with_all_that_the_text_says() -> None:
    document = json.loads(json.dumps(explain_document(visits().plan())))
    assert document["flow"] == "visits"
    assert document["needs_spark"] is True
    assert (document["sources"], document["outputs"]) == (["clicks", "users"], ["visits"])
    last = document["stages"][-1]
    assert last["query"] == "visits/clicks-by-user-with-users"
    assert [read["is_table"] for read in last["reads"]] == [False, True]
    assert last["steps"] == ["join", "fold visit_of"]
    assert last["writes"] == {
        "topic": "visits",
        "columns": None,
        "key": "as it came",
        "record": False,
        "is_own": False,
    }
    assert last["state"] is True
    assert last["merge_log"] == "visits.clicks-by-user-with-users.merge"
    assert last["changelog"] == "visits.clicks-by-user-with-users.changelog"
    assert last["partitions"] == 4
    assert last["written_at"].startswith(__file__)
    assert {own["name"] for own in document["own_topics"]} >= {"visits.bad", "visits.late", last["merge_log"]}


def test_partitions_that_are_known_when_it_runs_are_told_so() -> None:
    keyed = source("clicks", json="user string", key="user").count().to("t")
    assert "as many as clicks partitions" in explain_text(keyed.plan())
    assert "which is proven of each row" in explain_text(keyed.plan())
    stage = explain_document(keyed.plan())["stages"][0]
    assert (stage["partitions"], stage["partitions_like"]) == (None, "clicks")


def test_steps_of_one_input_say_which() -> None:
    clicks = source("clicks", json="user string")
    merged = clicks.merge(source("more", json="user string, n int")).to("t")
    assert "step    merge, on clicks" in explain_text(merged.plan())
