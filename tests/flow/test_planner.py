"""What flows are cut into: by example for each rule, and by property for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.flow.plan_lines import plan_lines

from semel.errors import FlowError
from semel.flow import Flow, Stream, flow, source

COLUMNS = "user string, url string, n int"
clicks = source("clicks", json=COLUMNS)
more = source("more", json=COLUMNS)
wide = source("wide", json=f"{COLUMNS}, extra string")
keyed = source("keyed", json=COLUMNS, key="user")
raw = source("raw")
TIMED = f"{COLUMNS}, at timestamp"
timed = source("timed", json=TIMED)
users = source("users", json="user string, country string")


def f(row: Any) -> Any:
    return row


def g(row: Any) -> Any:
    return row


def fold(state: Any, row: Any) -> Any:
    return state, row


def _branches(*conditions: Any) -> tuple[Stream, ...]:
    return tuple(part.map(f, schema=COLUMNS) for part in clicks.branch(*conditions))


def _shared(stream: Stream) -> Flow:
    return flow("two", stream.to("a"), stream.count("people").to("b"))


def _several(*outputs: Flow) -> Flow:
    return flow("several", *outputs)


SHAPES: dict[str, tuple[Callable[[], Flow], list[str]]] = {
    "a copy of bytes": (
        lambda: raw.to("t"),
        [
            "t: python  raw > t[same]",
        ],
    ),
    "one step of Spark's": (
        lambda: clicks.where("n > 1").to("t"),
        [
            "t: spark  clicks > where n > 1 > t[same]",
        ],
    ),
    "steps of Python's": (
        lambda: clicks.map(f).filter(g).to("t"),
        [
            "t: python  clicks > map f, filter g > t[same]",
        ],
    ),
    "Spark and Python in one stage": (
        lambda: clicks.where("n > 1").map(f, schema=COLUMNS).select("user").to("t"),
        [
            "t: spark  clicks > where n > 1, map f, select user > t[same]",
        ],
    ),
    "apply loses the key": (
        lambda: clicks.apply(f).to("t"),
        [
            "t: spark  clicks > apply f > t[nokey]",
        ],
    ),
    "a key right in front of an output needs no topic": (
        lambda: clicks.filter(f).key_by("user").to("t"),
        [
            "t: python  clicks > filter f > t[user]",
        ],
    ),
    "a key of two columns": (
        lambda: clicks.key_by("user", "url").to("t"),
        [
            "t: python  clicks > t[user,url]",
        ],
    ),
    "a key ends a stage": (
        lambda: clicks.key_by("user").count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > t[same]",
        ],
    ),
    "steps of Python behind a key, and between and behind state, stay in its stage": (
        lambda: (
            clicks.map(f, schema=COLUMNS)
            .key_by("user")
            .filter(g)
            .fold(fold, schema=COLUMNS)
            .map(f, schema=COLUMNS)
            .sum("n")
            .to("t")
        ),
        [
            "clicks-by-user: python  clicks > map f > .clicks-by-user[user]",
            "clicks-by-user-fold: state  .clicks-by-user > filter g, fold fold, map f, sum > t[same]",
        ],
    ),
    "a step of Spark's between key_by and state": (
        lambda: clicks.key_by("user").where("n > 1").count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-rows: spark  .clicks-by-user > where n > 1 > .clicks-by-user-rows[same]",
            "clicks-by-user-count: state  .clicks-by-user-rows > count > t[same]",
        ],
    ),
    "a step of Spark's behind state": (
        lambda: clicks.key_by("user").count().where("count > 1").to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > .clicks-by-user-count[same]",
            "t: spark  .clicks-by-user-count > where count > 1 > t[same]",
        ],
    ),
    "another key behind state": (
        lambda: clicks.key_by("user").count().key_by("count").count("people").to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > .clicks-by-user-count-by-count[count]",
            "clicks-by-user-count-by-count-count: state  .clicks-by-user-count-by-count > count > t[same]",
        ],
    ),
    "the same key again": (
        lambda: clicks.key_by("user").filter(f).key_by("user").count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > filter f, count > t[same]",
        ],
    ),
    "the same key behind a map, which may have changed it": (
        lambda: clicks.key_by("user").map(f, schema=COLUMNS).key_by("user").count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-by-user: python  .clicks-by-user > map f > .clicks-by-user-by-user[user]",
            "clicks-by-user-by-user-count: state  .clicks-by-user-by-user > count > t[same]",
        ],
    ),
    "a source that is keyed already": (
        lambda: keyed.key_by("user").count().to("t"),
        [
            "keyed-count: state  keyed* > count > t[same]",
        ],
    ),
    "a promised key is made anew where Spark stands between": (
        lambda: keyed.where("n > 1").count().to("t"),
        [
            "keyed-rows: spark  keyed > where n > 1 > .keyed-rows[user]",
            "keyed-count: state  .keyed-rows > count > t[same]",
        ],
    ),
    "… also where its column is gone": (
        lambda: keyed.select("url").fold(fold).to("t"),
        [
            "keyed-rows: spark  keyed > key_by, select url > .keyed-rows[same]",
            "keyed-fold: state  .keyed-rows > fold fold > t[same]",
        ],
    ),
    "… and where Python changed it in front of Spark": (
        lambda: keyed.map(f, schema="n int").where("n > 1").fold(fold).to("t"),
        [
            "keyed-rows: spark  keyed > key_by, map f, where n > 1 > .keyed-rows[same]",
            "keyed-fold: state  .keyed-rows > fold fold > t[same]",
        ],
    ),
    "a promise that nothing rests on": (
        lambda: keyed.filter(f).to("t"),
        [
            "t: python  keyed > filter f > t[same]",
        ],
    ),
    "a number of partitions asks for a topic": (
        lambda: keyed.key_by("user", partitions=8).count().to("t"),
        [
            "keyed-by-user: python  keyed > .keyed-by-user[user]",
            "keyed-by-user-count: state  .keyed-by-user > count > t[same]",
        ],
    ),
    "merge records an order": (
        lambda: clicks.merge(more).to("t"),
        [
            "t: order  clicks + more > t[same]",
        ],
    ),
    "merge with more columns, and a step behind it": (
        lambda: clicks.merge(more, wide).filter(f).to("t"),
        [
            "t: order  clicks + more + wide > merge@0, merge@1, filter f > t[same]",
        ],
    ),
    "a key behind a merge is given to each stream": (
        lambda: clicks.merge(more).filter(f).key_by("user").count().to("t"),
        [
            "clicks-by-user: python  clicks > filter f > .clicks-by-user[user]",
            "more-by-user: python  more > filter f > .more-by-user[user]",
            "clicks-and-more-by-user-count: state  .clicks-by-user + .more-by-user > count > t[same]",
        ],
    ),
    "merged where they are keyed": (
        lambda: clicks.key_by("user").merge(more.key_by("user")).count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "more-by-user: python  more > .more-by-user[user]",
            "clicks-by-user-and-more-by-user-count: state  .clicks-by-user + .more-by-user > count > t[same]",
        ],
    ),
    "merged and keyed in front of an output": (
        lambda: clicks.where("n > 1").merge(wide).key_by("user").to("t"),
        [
            "clicks-rows: spark  clicks > where n > "
            "1, select `user`, `url`, `n`, CAST(NULL AS string) AS `extra` > .clicks-rows[same]",
            "t: order  .clicks-rows + wide > t[user]",
        ],
    ),
    "a step of Spark's in front of merge": (
        lambda: clicks.where("n > 1").merge(more).to("t"),
        [
            "clicks-rows: spark  clicks > where n > 1 > .clicks-rows[same]",
            "t: order  .clicks-rows + more > t[same]",
        ],
    ),
    "a merge that two take: what its streams need is done once": (
        lambda: (lambda all_of: _several(all_of.filter(f).to("a"), all_of.filter(g).to("b")))(
            clicks.where("n > 1").merge(more)
        ),
        [
            "clicks-rows: spark  clicks > where n > 1 > .clicks-rows[same]",
            "a: order  .clicks-rows + more > filter f > a[same]",
            "b: order  .clicks-rows + more > filter g > b[same]",
        ],
    ),
    "merged behind state": (
        lambda: clicks.key_by("user").count().merge(more.key_by("user").count()).to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "more-by-user: python  more > .more-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > .clicks-by-user-count[same]",
            "more-by-user-count: state  .more-by-user > count > .more-by-user-count[same]",
            "t: order  .clicks-by-user-count + .more-by-user-count > t[same]",
        ],
    ),
    "one keyed by others, one by the flow": (
        lambda: keyed.merge(clicks.key_by("user")).count().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "keyed-and-clicks-by-user-count: state  keyed* + .clicks-by-user > count > t[same]",
        ],
    ),
    "merged with rows without a key": (
        lambda: keyed.merge(clicks).to("t"),
        [
            "t: order  keyed + clicks > t[same]",
        ],
    ),
    "branches that meet again": (
        lambda: (lambda a, b: a.merge(b).to("t"))(*_branches("n > 1")),
        [
            "clicks-1-rows: spark  clicks > where n > 1, map f > .clicks-1-rows[same]",
            "clicks-2-rows: spark  clicks > where NOT coalesce(n > 1, false), map f > .clicks-2-rows[same]",
            "t: order  .clicks-1-rows + .clicks-2-rows > t[same]",
        ],
    ),
    "branches that go their ways": (
        lambda: (lambda a, b, c: _several(a.to("a"), b.key_by("user").count().to("b"), c.to("c")))(
            *clicks.branch(f, g)
        ),
        [
            "a: python  clicks > filter f > a[same]",
            "clicks-2-by-user: python  clicks > filter not f, filter g > .clicks-2-by-user[user]",
            "clicks-2-by-user-count: state  .clicks-2-by-user > count > b[same]",
            "c: python  clicks > filter not f, filter not g > c[same]",
        ],
    ),
    "branches that meet again under a key": (
        lambda: (lambda a, b: a.merge(b).key_by("user").count().to("t"))(*_branches("n > 1")),
        [
            "clicks-1-by-user: spark  clicks > where n > 1, map f > .clicks-1-by-user[user]",
            "clicks-2-by-user: spark  clicks > where NOT coalesce(n > 1, false), map f > "
            ".clicks-2-by-user[user]",
            "clicks-1-and-clicks-2-by-user-count: state  .clicks-1-by-user + .clicks-2-by-user > count > "
            "t[same]",
        ],
    ),
    "state that two outputs take is made once": (
        lambda: _several(
            clicks.key_by("user").count().to("a"), clicks.key_by("user").count().filter(f).to("b")
        ),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > .clicks-by-user-count[same]",
            "a: python  .clicks-by-user-count > a[same]",
            "b: python  .clicks-by-user-count > filter f > b[same]",
        ],
    ),
    "one source under two keys": (
        lambda: _several(clicks.key_by("user").count().to("a"), clicks.key_by("url").count().to("b")),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > a[same]",
            "clicks-by-url: python  clicks > .clicks-by-url[url]",
            "clicks-by-url-count: state  .clicks-by-url > count > b[same]",
        ],
    ),
    "one key behind state, taken twice": (
        lambda: _shared(clicks.key_by("user").count().key_by("count")),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > count > .clicks-by-user-count-by-count[count]",
            "a: python  .clicks-by-user-count-by-count > a[same]",
            "clicks-by-user-count-by-count-count: state  .clicks-by-user-count-by-count > count > b[same]",
        ],
    ),
    "names": (
        lambda: clicks.filter(f).named("some").key_by("user").named("people").count().to("t"),
        [
            "some-by-user: python  clicks > filter f > .some-by-user[user]",
            "people-count: state  .some-by-user > count > t[same]",
        ],
    ),
    "a merge with a name": (
        lambda: clicks.merge(more).named("all").key_by("user").count().to("t"),
        [
            "all-clicks-by-user: python  clicks > .all-clicks-by-user[user]",
            "all-more-by-user: python  more > .all-more-by-user[user]",
            "all-by-user-count: state  .all-clicks-by-user + .all-more-by-user > count > t[same]",
        ],
    ),
    "a compacted source": (
        lambda: source("users", json=COLUMNS, key="user", copied=True).count().to("t"),
        [
            "users-copy: python  users > .users-copy[same]",
            "users-count: state  .users-copy* > count > t[same]",
        ],
    ),
    "bytes to words": (
        lambda: raw.flat_map(f, schema="word string").key_by("word").count().to("t"),
        [
            "raw-by-word: python  raw > flat_map f > .raw-by-word[word]",
            "raw-by-word-count: state  .raw-by-word > count > t[same]",
        ],
    ),
    "rows that were doubled": (
        lambda: source("dirty", json=COLUMNS, dedupe="lineage").filter(f).to("clean"),
        ["dirty-once: state  dirty > dedupe, filter f > clean[same]"],
    ),
    "rows that were doubled, keyed and counted": (
        lambda: source("dirty", json=COLUMNS, dedupe="lineage").key_by("user").count().to("t"),
        [
            "dirty-once: state  dirty > dedupe > .dirty-once-by-user[user]",
            "dirty-once-by-user-count: state  .dirty-once-by-user > count > t[same]",
        ],
    ),
    "rows that were doubled, keyed by others, and a join": (
        lambda: (
            source("dirty", json=COLUMNS, key="user", dedupe="lineage")
            .join(users.as_table("user"))
            .count()
            .to("t")
        ),
        [
            "users-by-user: python  users > .users-by-user[user]",
            "dirty-once: state  dirty* + .users-by-user^ > dedupe, join, count > t[same]",
        ],
    ),
    "windows": (
        lambda: (
            timed.key_by("user")
            .tumbling("10 minutes", on="at", lateness="1 min")
            .count()
            .sessions(gap="1 h", on="window_end")
            .count("windows")
            .to("t")
        ),
        [
            "timed-by-user: python  timed > .timed-by-user[user]",
            "timed-by-user-tumbling-10m-count: state  .timed-by-user > tumbling count, sessions count > "
            "t[same]",
        ],
    ),
    "windows over what is merged": (
        lambda: (
            timed.key_by("user")
            .merge(source("others", json=TIMED).key_by("user"))
            .sessions(gap="30 minutes", on="at")
            .count()
            .to("t")
        ),
        [
            "timed-by-user: python  timed > .timed-by-user[user]",
            "others-by-user: python  others > .others-by-user[user]",
            "timed-by-user-and-others-by-user-sessions-30m-count: state  .timed-by-user + .others-by-user > "
            "sessions count > t[same]",
        ],
    ),
    "windows behind a fold over what is merged": (
        lambda: (
            timed.key_by("user")
            .merge(source("others", json=TIMED).key_by("user"))
            .last()
            .sessions(gap="30 minutes", on="at")
            .count()
            .to("t")
        ),
        [
            "timed-by-user: python  timed > .timed-by-user[user]",
            "others-by-user: python  others > .others-by-user[user]",
            "timed-by-user-and-others-by-user-last: state  .timed-by-user + .others-by-user > last > "
            ".timed-by-user-and-others-by-user-last[same]",
            "timed-by-user-and-others-by-user-last-sessions-30m-count: state  "
            ".timed-by-user-and-others-by-user-last > sessions count > t[same]",
        ],
    ),
    "windows behind a join": (
        lambda: (
            timed.merge(source("others", json=TIMED))
            .join(users.as_table("user"))
            .tumbling("1 day", on="at")
            .sum("n")
            .to("t")
        ),
        [
            "timed-by-user: python  timed > .timed-by-user[user]",
            "others-by-user: python  others > .others-by-user[user]",
            "users-by-user: python  users > .users-by-user[user]",
            "timed-and-others-by-user-with-users: state  .timed-by-user + .others-by-user + "
            ".users-by-user^ > join, tumbling sum > t[same]",
        ],
    ),
    "a join": (
        lambda: clicks.where("n > 1").key_by("user").join(users.as_table("user")).fold(fold).to("t"),
        [
            "clicks-by-user: spark  clicks > where n > 1 > .clicks-by-user[user]",
            "users-by-user: python  users > .users-by-user[user]",
            "clicks-by-user-with-users: state  .clicks-by-user + .users-by-user^ > join, fold fold > t[same]",
        ],
    ),
    "a join of rows that are not keyed by the table's key": (
        lambda: clicks.key_by("url").join(users.as_table("user")).to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "users-by-user: python  users > .users-by-user[user]",
            "clicks-by-user-with-users: state  .clicks-by-user + .users-by-user^ > join > t[same]",
        ],
    ),
    "a join of rows that are not keyed": (
        lambda: clicks.map(f, schema=COLUMNS).join(users.filter(g).as_table("user")).to("t"),
        [
            "clicks-by-user: python  clicks > map f > .clicks-by-user[user]",
            "users-by-user: python  users > filter g > .users-by-user[user]",
            "clicks-by-user-with-users: state  .clicks-by-user + .users-by-user^ > join > t[same]",
        ],
    ),
    "a join behind and in front of state": (
        lambda: (
            clicks.key_by("user")
            .filter(f)
            .count()
            .join(users.as_table("user"))
            .filter(g)
            .sum("count")
            .to("t")
        ),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-count: state  .clicks-by-user > filter f, count > .clicks-by-user-count[same]",
            "users-by-user: python  users > .users-by-user[user]",
            "clicks-by-user-count-with-users: state  .clicks-by-user-count + .users-by-user^ > "
            "join, filter g, sum > t[same]",
        ],
    ),
    "two joins": (
        lambda: (
            clicks.key_by("user")
            .join(users.as_table("user"))
            .filter(f)
            .join(source("ages", json="user string, age int", key="user").filter(g).as_table("user"))
            .to("t")
        ),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "users-by-user: python  users > .users-by-user[user]",
            "clicks-by-user-with-users: state  .clicks-by-user + .users-by-user^ + ages*^ > "
            "filter g@2, join, filter f@0, join > t[same]",
        ],
    ),
    "a join with what is merged, and of what is merged": (
        lambda: (
            clicks.merge(more)
            .filter(f)
            .join(users.merge(source("others", json="user string, country string")).as_table("user"))
            .to("t")
        ),
        [
            "clicks-by-user: python  clicks > filter f > .clicks-by-user[user]",
            "more-by-user: python  more > filter f > .more-by-user[user]",
            "users-by-user: python  users > .users-by-user[user]",
            "others-by-user: python  others > .others-by-user[user]",
            "users-and-others-by-user: order  .users-by-user + .others-by-user > "
            ".users-and-others-by-user-rows[same]",
            "clicks-and-more-by-user-with-users-and-others: state  .clicks-by-user + .more-by-user + "
            ".users-and-others-by-user-rows^ > join > t[same]",
        ],
    ),
    "a join with a table of state": (
        lambda: clicks.join(more.key_by("user").sum("n").as_table("user")).to("t"),
        [
            "more-by-user: python  more > .more-by-user[user]",
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "more-by-user-sum-n: state  .more-by-user > sum > .more-by-user-sum-n[same]",
            "clicks-by-user-with-more-by-user-sum-n: state  .clicks-by-user + .more-by-user-sum-n^ > join > "
            "t[same]",
        ],
    ),
    "one table for two joins": (
        lambda: (lambda table: _several(clicks.join(table).to("a"), more.key_by("user").join(table).to("b")))(
            users.where("country IS NOT NULL").as_table("user")
        ),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "users-by-user: spark  users > where country IS NOT NULL > .users-by-user[user]",
            "clicks-by-user-with-users: state  .clicks-by-user + .users-by-user^ > join > a[same]",
            "more-by-user: python  more > .more-by-user[user]",
            "more-by-user-with-users: state  .more-by-user + .users-by-user^ > join > b[same]",
        ],
    ),
    "one table for two joins of one stage": (
        lambda: (
            keyed.join(users.as_table("user"))
            .join(users.named("again").select("user", "country AS land").as_table("user"))
            .to("t")
        ),
        [
            "users-by-user: python  users > .users-by-user[user]",
            "again-by-user: spark  users > select user, country AS land > .again-by-user[user]",
            "keyed-with-users: state  keyed* + .users-by-user^ + .again-by-user^ > join, join > t[same]",
        ],
    ),
    "the last row": (
        lambda: clicks.key_by("user").last().to("t"),
        [
            "clicks-by-user: python  clicks > .clicks-by-user[user]",
            "clicks-by-user-last: state  .clicks-by-user > last > t[same]",
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_flow_is_cut_where_it_has_to_be_and_nowhere_else(shape: str) -> None:
    make, lines = SHAPES[shape]
    assert plan_lines(make()) == lines


def test_only_a_step_that_looks_at_headers_asks_for_them() -> None:
    (once,) = source("dirty", dedupe="lineage").to("clean").plan().stages
    assert once.inputs[0].has_headers
    assert (once.partitions_like, once.has_state) == ("dirty", True)
    assert not any(
        read.has_headers
        for stage in clicks.key_by("user").count().to("t").plan().stages
        for read in stage.inputs
    )


def test_windows_go_by_the_time_of_each_stream_and_of_no_table() -> None:
    make, _ = SHAPES["windows behind a join"]
    stage = make().plan().stages[-1]
    assert [read.is_table for read in stage.inputs] == [False, False, True]
    join, window = stage.steps
    assert (join.stream_inputs, join.table_input) == ((0, 1), 2)
    assert window.inputs == (0, 1)


# --- names ------------------------------------------------------------------------------------------------


def test_names_do_not_change_when_something_else_does() -> None:
    visits = clicks.key_by("user").count()
    alone = visits.to("visits").named("x").plan()
    beside = flow(
        "x", visits.to("visits"), clicks.key_by("url").count().to("pages"), visits.filter(f).to("many")
    ).plan()
    names = {stage.sink_id for stage in alone.stages}
    assert names == {"x/clicks-by-user", "x/clicks-by-user-count"}
    assert names <= {stage.sink_id for stage in beside.stages}
    assert alone.stage("clicks-by-user") == beside.stage("clicks-by-user")
    assert alone.stage("clicks-by-user-count").state_text == beside.stage("clicks-by-user-count").state_text


def test_another_key_has_another_topic() -> None:
    (by_user, _) = clicks.key_by("user").count().to("t").plan().stages
    (by_both, _) = clicks.key_by("user", "url").count().to("t").plan().stages
    assert by_user.output.topic == "t.clicks-by-user"
    assert by_both.output.topic == "t.clicks-by-user-url"


def test_what_cannot_be_in_a_name_is_left_out_of_it() -> None:
    odd = source("shop.clicks", json="größe int").key_by("größe").count().to("shop.sizes")
    assert [stage.sink_id for stage in odd.plan().stages] == [
        f"{odd.name}/shop-clicks-by-gr--e",
        f"{odd.name}/shop-clicks-by-gr--e-count",
    ]
    plan = odd.plan()
    assert [own.name for own in plan.own_topics] == [
        f"{odd.name}.shop-clicks-by-gr--e",
        f"{odd.name}.shop-clicks-by-gr--e-count.merge",
        f"{odd.name}.shop-clicks-by-gr--e-count.changelog",
        f"{odd.name}.bad",
        f"{odd.name}.late",
    ]


# --- partitions -------------------------------------------------------------------------------------------


def _partitions(flow: Flow) -> dict[str, tuple[int, str | None]]:
    return {
        own.name.partition(".")[2]: (own.partition_count, own.like) for own in flow.plan().own_topics[:-2]
    }


def test_own_topics_have_four_partitions_or_as_many_as_are_asked_for() -> None:
    assert _partitions(clicks.key_by("user").count().to("t")) == {
        "clicks-by-user": (4, None),
        "clicks-by-user-count.merge": (4, None),
        "clicks-by-user-count.changelog": (4, None),
    }
    asked = _partitions(
        clicks.key_by("user", partitions=7).where("n > 1").merge(more.key_by("user")).count().to("t")
    )
    assert asked["clicks-by-user"] == (7, None)  # read by a stage that does not care
    assert asked["clicks-by-user-rows"] == asked["more-by-user"] == (4, None)
    asked = _partitions(clicks.key_by("user", partitions=7).merge(more.key_by("user")).count().to("t"))
    assert set(asked.values()) == {(7, None)}


def test_what_meets_a_topic_of_others_has_as_many_partitions_as_that() -> None:
    met = keyed.merge(clicks.key_by("user")).count().to("t")
    assert set(_partitions(met).values()) == {(0, "keyed")}
    plan = met.plan().with_partition_counts({"keyed": 6, "clicks": 3})
    assert {own.partition_count for own in plan.own_topics[:-2]} == {6}
    assert plan.stage("keyed-and-clicks-by-user-count").partition_count == 6
    assert plan.stage("keyed-and-clicks-by-user-count").partitions_like is None
    assert plan.with_partition_counts({"keyed": 6, "clicks": 3}) == plan


def test_topics_that_meet_and_have_different_numbers_of_partitions_are_refused() -> None:
    plan = clicks.merge(more).to("t").plan()
    assert plan.with_partition_counts({"clicks": 5, "more": 5}).stage("t").partition_count == 5
    with pytest.raises(FlowError, match=r'to\("t"\).*clicks: 5, more: 6.*key_by'):
        plan.with_partition_counts({"clicks": 5, "more": 6})
    asked = keyed.merge(clicks.key_by("user", partitions=2)).count().to("t").plan()
    assert asked.with_partition_counts({"keyed": 2, "clicks": 9}).stages[-1].partition_count == 2
    with pytest.raises(FlowError, match="partitions=2"):
        asked.with_partition_counts({"keyed": 6, "clicks": 9})


# --- what a replay has to find ----------------------------------------------------------------------------


def test_the_plan_is_told_as_text() -> None:
    stage = clicks.key_by("user").filter(f).count().to("t").plan().stages[-1]
    plan = json.loads(stage.plan_text)
    assert plan["inputs"] == [
        {
            "topic": "t.clicks-by-user",
            "columns": [["user", "string"], ["url", "string"], ["n", "int"]],
            "key": [["user", "string"]],
            "is_table": False,
        }
    ]
    assert plan["output"] == {"topic": "t", "columns": [["user", "string"], ["count", "bigint"]], "key": []}
    assert [step["step"] for step in plan["steps"]] == ["filter", "count"]
    assert stage.plan_text == clicks.key_by("user").filter(f).count().to("t").plan().stages[-1].plan_text
    assert stage.plan_text != clicks.key_by("user").filter(g).count().to("t").plan().stages[-1].plan_text


def test_state_outlives_changes_of_what_has_none() -> None:
    def state(flow: Flow) -> str:
        return flow.plan().stages[-1].state_text

    counted = clicks.key_by("user").count().to("t")
    assert state(counted) == state(clicks.key_by("user").filter(f).count().map(g).to("t"))
    assert state(counted) == state(clicks.filter(g).key_by("user").count("clicks").to("t"))
    assert state(counted) != state(clicks.key_by("url").count().to("t"))
    assert state(counted) != state(clicks.key_by("user").sum("n").to("t"))
    assert state(clicks.merge(more).to("t")) == ""
    assert state(clicks.to("t")) == ""


def test_a_deep_flow_is_no_recursion() -> None:
    stream = clicks
    for _ in range(3_000):
        stream = stream.filter(f)
    assert len(stream.to("t").plan().stages[0].steps) == 3_000
