"""Flows on real Spark: what their stages write, how they stop, and what a stop leaves behind."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.flow.flowing import put, records, rows, run
from tests.thinning import every

from semel.errors import ConfigError, FlowError, FlowStopped, ReplayDiffers
from semel.flow import flow, source
from semel.flow.files import load_flows
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts
from semel.spark.options import Connection
from semel.spark.resuming import has_undecided

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def on_spark(spark, semel_server, tmp_path):
    """``on_spark(flow, cuts)``: a flow that is about to run, and is stopped when the test is over."""
    from semel.flow.on_spark import FlowOnSpark

    made = []

    def make(flow, cuts=None):
        running = FlowOnSpark(flow.plan(), semel_server.bootstrap, spark, cuts=cuts, store=tmp_path / "store")
        made.append(running)
        return running

    yield make
    for running in made:
        running.stop(0)


def create(bootstrap, topic, partitions):
    import semel

    with semel.Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions)


def by_key(found):
    """The values of each key, in the order of its partition."""
    told = defaultdict(list)
    for record in found:
        told[record["key"]].append(json.loads(record["value"]))
    return dict(told)


def eventually(condition, timeout_s=120):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)


def undecided(bootstrap, plan):
    return [stage.name for stage in plan.stages if has_undecided(Connection(bootstrap), stage.sink_id)]


# --- what stages write --------------------------------------------------------------------------------------


def running_total(state, row):
    state += row.n
    return state, {"name": row.name, "n": row.n, "total": state}


def totals(name):
    """Python's steps only; one writer for each key, so that each key's rows have one order."""
    read = source("in", json="name string, n bigint").filter(lambda row: row.n != 13)
    return read.key_by("name").fold(running_total, init=0).to(name)


def test_a_flow_moves_between_spark_and_this_process_and_writes_the_same(on_spark, semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    given = [{"name": f"k{n % 7}", "n": n} for n in range(600)]
    moves = (
        lambda flow: on_spark(flow).run_to_the_end(),
        lambda flow: run(flow, bootstrap, tmp_path / "here", Cuts(rows_max=17, entries_max=1)),
        lambda flow: on_spark(flow, Cuts(rows_max=50, entries_max=2)).run_to_the_end(),
    )
    for turn, move in enumerate(moves):
        put(bootstrap, "in", *given[turn * 200 : turn * 200 + 200], b"{nonsense")
        move(totals("moved"))
        run(totals("stayed"), bootstrap, tmp_path / "stayed")
    moved, stayed = by_key(records(bootstrap, "moved")), by_key(records(bootstrap, "stayed"))
    assert moved == stayed
    assert {key: told[-1]["total"] for key, told in moved.items()} == {
        f"k{k}".encode(): sum(n for n in range(600) if n % 7 == k and n != 13) for k in range(7)
    }
    assert [record["value"] for record in records(bootstrap, "moved.bad")] == [b"{nonsense"] * 3


BETWEEN = "visits.users-by-user-rows"
LANDS = "user string, nothing string, land string"


def length_of(row):
    return {"word": row.word, "length": len(row.word)}


def shouted(row):
    return row.decode().upper().encode()


def twice_of_small(frame, spark):
    """By way of a table that Spark has whole in each task, and that is larger than what has no rows."""
    small = spark.range(10_000, numPartitions=4).selectExpr("id AS n", "2 * id AS twice")
    return frame.join(small, "n").selectExpr("word", "twice AS n")


def is_x(value):
    return value == b"x"


def length_of_bytes(value):
    return {"length": len(value)}


def test_steps_of_sparks_between_steps_of_pythons(on_spark, spark, semel_server):
    """One application: keyed and not, by columns and as bytes; and what is bad lies aside, in its order."""
    bootstrap = semel_server.bootstrap
    words = source("words", json="word string, n bigint")
    everything = flow(
        "words",
        words.where("n % 2 = 0 AND word IS NOT NULL")
        .map(length_of, schema="word string, length bigint")
        .where("length > 2")
        .select("word AS name", "length * 10 AS tens", schema="name string, tens bigint")
        .to("even"),
        words.where("n < 50").key_by("word").count().to("counts"),
        words.apply(lambda frame: twice_of_small(frame, spark)).to("applied"),
        source("raw").map(shouted).to("shouted"),
        source("raw")
        .filter(is_x)
        .map(length_of_bytes, schema="length bigint")
        .where("length > 0")
        .to("lengths"),
        words.where("n = 1")
        .map(lambda row: {"all": [row.word]})
        .filter(lambda made: made["all"])
        .to("untyped"),
        words.where("n = 1").filter(lambda row: row.word is not None).to("kept"),
    )
    given = [{"word": [None, "a", "bcd"][n % 3], "n": n} for n in range(100)]
    put(bootstrap, "words", b"no JSON", *given, {"word": 7}, keys=[b"k%d" % (n % 5) for n in range(102)])
    put(bootstrap, "raw", b"x", b"y")
    on_spark(everything, Cuts(rows_max=40)).run_to_the_end()

    even = [row for row in given if row["n"] % 2 == 0 and row["word"] == "bcd"]
    assert [r["name"] for r in rows(bootstrap, "even")] == ["bcd"] * len(even)
    assert {r["tens"] for r in rows(bootstrap, "even")} == {30}
    assert {record["key"] for record in records(bootstrap, "even")} == {
        b"k%d" % ((row["n"] + 1) % 5) for row in even
    }
    last = {row["word"]: row["count"] for row in rows(bootstrap, "counts")}
    assert last == {"a": 17, "bcd": 16}
    assert sorted(row["n"] for row in rows(bootstrap, "applied")) == [2 * row["n"] for row in given]
    assert [record["value"] for record in records(bootstrap, "shouted")] == [b"X", b"Y"]
    assert rows(bootstrap, "lengths") == [{"length": 1}]
    assert rows(bootstrap, "untyped") == [{"all": ["a"]}]
    assert rows(bootstrap, "kept") == [{"word": "a", "n": 1}]
    bad = records(bootstrap, "words.bad")
    assert [r["value"] for r in bad if r["partition"] == 0] == [b"no JSON", b'{"word": 7}'] * 5
    assert [json.loads(r["value"])["n"] for r in bad if r["partition"] == 1] == list(range(0, 50, 3))


FLOW_FILE = """
from __future__ import annotations

from dataclasses import dataclass

from beside import clean
from semel.flow import source


@dataclass
class Click:
    user: str
    url: str | None = None


@dataclass
class Visits:
    count: int = 0
    pages: list[str] | None = None


@dataclass
class Told:
    user: str
    count: int
    pages: str


def cleaned(row) -> Click:
    return Click(clean(row.user), row.url)


def visit(state: Visits, row) -> tuple[Visits, list[Told]]:
    pages = [*(state.pages or []), row.url]
    state = Visits(state.count + 1, pages)
    return state, [Told(row.user, state.count, " ".join(pages))]


def with_words(frame):
    from pyspark.sql.functions import udf

    return frame.withColumn("url", udf(lambda url: clean(url) + LAST)("url"))


LAST = "."
clicks = source("clicks", json=Click).where("url IS NOT NULL").map(cleaned)
visits = clicks.apply(with_words).key_by("user").fold(visit, init=Visits()).to("visits")
"""


def test_a_file_that_no_worker_could_import(on_spark, semel_server, tmp_path, monkeypatch):
    bootstrap = semel_server.bootstrap
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("def clean(text): return text.strip().lower()\n")
    (tmp_path / "visits.py").write_text(FLOW_FILE)
    put(bootstrap, "clicks", {"user": " Ann", "url": "A"}, {"user": "bo"}, {"user": "ann", "url": "B"})
    on_spark(load_flows(tmp_path / "visits.py").flow()).run_to_the_end()
    sys.modules.pop("beside")
    assert rows(bootstrap, "visits") == [
        {"user": "ann", "count": 1, "pages": "a."},
        {"user": "ann", "count": 2, "pages": "a. b."},
    ]


def test_a_changelog_is_made_short_behind_its_newest_decided_snapshot(on_spark, semel_server):
    import semel

    bootstrap = semel_server.bootstrap
    names = [f"{n:03} {'x' * 60}" for n in range(300)]
    put(bootstrap, "people", *({"name": name} for _ in range(48) for name in names))
    people = source("people", json="name string").key_by("name", partitions=1).count().to("counts")
    running = on_spark(people, Cuts(entries_max=8, entry_rows_max=300))
    running.run_to_the_end()
    assert list(running.queries) == [stage.name for stage in running.plan.stages]
    assert {row["name"]: row["count"] for row in rows(bootstrap, "counts")} == dict.fromkeys(names, 48)
    changelog = semel.TopicPartition("counts.people-by-name-count.changelog", 0)
    with semel.Admin(bootstrap) as admin:
        assert admin.list_offsets({changelog: -2})[changelog].offset > 0


# --- how they stop ------------------------------------------------------------------------------------------


def test_a_stop_leaves_nothing_undecided_and_a_changed_flow_goes_on(on_spark, semel_server):
    bootstrap = semel_server.bootstrap

    def counted(factor):
        read = source("in", json="name string, n bigint").where("n > 0")
        return (
            read.map(lambda row: {"name": row.name, "n": factor * row.n}, schema="name string, n bigint")
            .key_by("name")
            .sum("n")
            .to("sums")
        )

    put(bootstrap, "in", {"name": "a", "n": 1})
    first = on_spark(counted(1), Cuts(rows_max=100))
    first.start()
    eventually(lambda: "sums" in _topics(bootstrap) and rows(bootstrap, "sums"))
    put(bootstrap, "in", *({"name": "a", "n": 1} for _ in range(5000)))
    time.sleep(0.3)
    first.stop()
    plan = counted(1).plan()
    assert undecided(bootstrap, plan) == []
    on_spark(counted(10)).run_to_the_end()
    total = rows(bootstrap, "sums")[-1]["sum_n"]
    assert 5001 < total < 50010 and total % 9 == 5001 % 9


def _topics(bootstrap):
    import semel

    with semel.Admin(bootstrap) as admin:
        return set(admin.list_topics())


def test_a_step_that_fails_in_the_sinks_task(on_spark, semel_server):
    class NoSuch(Exception):
        """Of this test alone: no other process has it."""

    def brittle(row):
        if row.n == 0:
            raise NoSuch("zero")
        return row

    def kept(step):
        return source("in", json="n bigint").map(step, schema="n bigint").to("out")

    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", *({"n": n} for n in (1, 2, 0, 3)))
    with pytest.raises(
        FlowStopped, match=r"stage '[^']+': StepFailed: .*brittle.*offset 2: NoSuch: zero"
    ) as stopped:
        on_spark(kept(brittle)).run_to_the_end()
    assert "Mend that and start it again" in str(stopped.value)
    on_spark(kept(lambda row: row)).run_to_the_end()
    assert [row["n"] for row in rows(bootstrap, "out")] == [1, 2, 0, 3]


@pytest.mark.parametrize("kind", every(2, ["python", "cast"]))
def test_a_row_that_spark_cannot_work_on_is_found_and_what_comes_before_is_decided(
    on_spark, semel_server, kind
):
    """Several partitions, one of them with a row at which all tasks of its micro-batch end."""
    bootstrap = semel_server.bootstrap
    create(bootstrap, "in", 2)

    def brittle(row):
        return {"n": 1 // row.n, "text": row.text}

    read = source("in", json="n bigint, text string")
    if kind == "cast":
        failing = read.select(
            "n", "CAST(CAST(text AS INT) AS STRING) AS text", schema="n bigint, text string"
        ).to("out")
        reason, poison = r"CAST_INVALID_INPUT", {"n": 1, "text": "x"}
    else:
        failing = read.where("true").map(brittle, schema="n bigint, text string").to("out")
        reason, poison = r"brittle.*ZeroDivisionError", {"n": 0, "text": "1"}
    good = {"n": 1, "text": "1"}
    import semel

    with semel.Producer(bootstrap) as producer:
        for number in range(40):
            row = poison if number == 29 else good
            producer.send("in", json.dumps(row).encode(), partition=0)
            producer.send("in", json.dumps(good).encode(), partition=1)
    with pytest.raises(FlowStopped, match=rf"topic 'in', partition 0, offset 29: .*{reason}"):
        on_spark(failing).run_to_the_end()
    assert undecided(bootstrap, failing.plan()) == []
    assert len(rows(bootstrap, "out")) == 29 + 40
    mended = read.where("n = 1 AND text = '1'").to("out")
    on_spark(mended).run_to_the_end()
    assert len(rows(bootstrap, "out")) == 29 + 40 + 10


def test_a_record_that_the_output_does_not_take_is_bad_behind_steps_of_sparks(on_spark, semel_server):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", *({"n": n} for n in (1, 3_000_000, 2_000_000)))
    large = (
        source("in", json="n int")
        .select("n", "repeat('x', n) AS text", schema="n int, text string")
        .to("out")
    )
    on_spark(large).run_to_the_end()
    assert [row["n"] for row in rows(bootstrap, "out")] == [1, 2_000_000]
    (bad,) = records(bootstrap, "out.bad")
    assert len(bad["value"]) < 1_000_000
    assert b"and topic 'out' takes up to" in bad["headers"][0]["value"]


def test_bad_rows_keep_their_order_however_a_replay_cuts_them(on_spark, semel_server, monkeypatch):
    """Two kinds of them, which are found in two places: each has an order of its own."""
    from semel.flow.on_spark import FlowOnSpark

    bootstrap = semel_server.bootstrap
    create(bootstrap, "in", 2)

    def slowly(row):
        if row.word == "poison":
            time.sleep(1)
            raise ValueError("on purpose")
        return row

    def keyed(step):
        read = source("in", json="word string").where("true").map(step, schema="word string")
        return read.key_by("word").count().to("out")

    import semel

    with semel.Producer(bootstrap) as producer:
        for number in range(100):
            value = (
                b"nonsense %d" % number if number % 2 else json.dumps({"word": None, "n": number}).encode()
            )
            producer.send("in", value, partition=0)
        producer.send("in", b'{"word": "poison"}', partition=1)
    with monkeypatch.context() as patched:
        patched.setattr(FlowOnSpark, "_settled", lambda self, name, failed: None)
        with pytest.raises(FlowStopped):
            on_spark(keyed(slowly)).run_to_the_end()
    plan = keyed(slowly).plan()
    assert undecided(bootstrap, plan) == [plan.stages[0].name]
    with pytest.raises(ReplayDiffers, match="run it as it was"):
        on_spark(keyed(lambda row: row)).run_to_the_end()
    with pytest.raises(FlowStopped, match="partition 1, offset 0"):
        on_spark(keyed(slowly), Cuts(rows_max=30)).run_to_the_end()
    assert undecided(bootstrap, plan) == []
    on_spark(keyed(lambda row: row)).run_to_the_end()
    bad = records(bootstrap, "out.bad")
    assert [r["value"] for r in bad if r["partition"] == 0] == [b"nonsense %d" % n for n in range(1, 100, 2)]
    assert len([r for r in bad if r["partition"] == 1]) == 50
    assert {row["word"]: row["count"] for row in rows(bootstrap, "out")} == {"poison": 1}


def test_a_tombstone_goes_past_steps_of_sparks_to_the_table_whose_row_it_deletes(
    on_spark, spark, semel_server
):
    """In its place among the rows, whatever batches Spark makes of them; none of Spark's steps sees it."""
    bootstrap = semel_server.bootstrap
    for topic in ("users", "clicks"):
        create(bootstrap, topic, 1)
    users = source("users", json="user string, country string", key="user")
    table = (
        users.where("country <> 'XX'")
        .filter(lambda row: row.country != "YY")
        .select(
            "user",
            "CAST(assert_true(country IS NOT NULL) AS string) AS nothing",
            "upper(country) AS land",
            schema=LANDS,
        )
        .as_table("user")
    )
    joined = source("clicks", json="user string").join(table, how="left").to("visits")
    given = [
        (name, None if turn == 1 else {"user": name, "country": f"{name[0]}{turn}"})
        for turn in range(3)
        for name in (f"a{number}" for number in range(200))
        if turn < 2 or name < "a2"
    ]
    put(bootstrap, "users", *(row for _, row in given), keys=[key.encode() for key, _ in given])
    put(bootstrap, "users", None, keys=[b"a0"])
    on_spark(joined, Cuts(rows_max=150)).run_to_the_end()
    put(bootstrap, "clicks", {"user": "a0"}, {"user": "a1"}, {"user": "a3"})
    on_spark(joined).run_to_the_end()
    assert sorted((row["user"], row["land"]) for row in rows(bootstrap, "visits")) == [
        ("a0", None),
        ("a1", "A2"),
        ("a3", None),
    ]
    between = [(row["key"].decode(), row["value"]) for row in records(bootstrap, "visits.users-rows")]
    assert not records(bootstrap, "visits.bad")
    assert sum(value is None for _, value in between) == 201
    held = replay(joined.plan(), bootstrap, spark=spark)
    assert held.holds and held.is_complete, held.text()


ODD_SESSION = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.session.timeZone": "America/New_York",
}


@pytest.fixture
def odd_session(spark):
    """One with settings of its own."""
    before = {name: spark.conf.get(name) for name in ODD_SESSION}
    for name, value in ODD_SESSION.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_a_session_of_ones_own_and_a_task_that_is_tried_again_change_nothing_of_rows_and_tombstones(
    on_spark, odd_session, semel_server, tmp_path
):
    """Behind a topic, with rows of a time, which Python's steps see in UTC; all rows of the end are dropped."""
    bootstrap, marker = semel_server.bootstrap, tmp_path / "tried"
    for topic in ("users", "clicks"):
        create(bootstrap, topic, 1)

    def failing_once(row):
        if row.user == "u90" and not marker.exists():
            marker.touch()
            raise ValueError("on purpose")
        return row.at.tzinfo is not None and row.at.hour == 12

    def at_noon(table: pa.Table) -> pa.Array:
        return pc.equal(pc.hour(table["at"]), 12)

    users = source("users", json="user string, at timestamp", key="user").key_by("user", partitions=1)
    table = users.where("user < 'u95'").filter(failing_once).filter(at_noon).as_table("user")
    joined = source("clicks", json="user string").key_by("user", partitions=1)
    visits = joined.join(table, how="left").to("visits")
    keys = [f"u{number}" for number in range(10, 100)]
    given = [(key, {"user": key, "at": "2024-07-01T12:00:00Z"}) for key in keys]
    given = [
        pair for key, row in given for pair in ((key, row), *([(key, None)] if int(key[1:]) % 3 else []))
    ]
    put(bootstrap, "users", *(row for _, row in given), keys=[key.encode() for key, _ in given])
    on_spark(visits).run_to_the_end()
    assert marker.exists()
    between = [(row["key"].decode(), row["value"] is None) for row in records(bootstrap, BETWEEN)]
    assert between == [(key, row is None) for key, row in given if row is None or key < "u95"]
    assert not records(bootstrap, "visits.bad")
    held = replay(visits.plan(), bootstrap, spark=odd_session)
    (framed,) = [stage for stage in held.stages if f"visits.{stage.stage}" == BETWEEN]
    assert held.holds and framed.rows == len(between) and not framed.left_out, held.text()


def test_a_row_without_the_key_that_a_stage_of_sparks_is_to_make_is_told(on_spark, spark, semel_server):
    bootstrap = semel_server.bootstrap
    create(bootstrap, "users", 1)
    users = source("users", json="user string, country string", key="user")
    counts = users.select("country").map(lambda row: row, schema="country string").count().to("counts")
    put(bootstrap, "users", {"user": "ann"}, {"country": "AT"}, b"no JSON", keys=[b"ann", b"?", b"?"])
    on_spark(counts).run_to_the_end()
    assert rows(bootstrap, "counts") == [{"user": "ann", "count": 1}]
    bad = records(bootstrap, "counts.bad")
    assert [row["value"] for row in bad] == [b'{"country": "AT"}', b"no JSON"]
    assert replay(counts.plan(), bootstrap, spark=spark).holds


def test_what_spark_cannot_make_sense_of_is_told_before_anything_is_made(on_spark, semel_server):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", {"n": 1})
    read = source("in", json="n bigint")
    before = _topics(bootstrap)
    with pytest.raises(
        FlowError, match=r"where abs\(nn1\) > 0 at .*test_on_spark.py:\d+: Spark cannot run it: .*nn1"
    ):
        on_spark(read.where("abs(nn1) > 0").to("out")).run_to_the_end()
    with pytest.raises(FlowError, match=r"where n > at .*: Spark cannot run it: \[PARSE_"):
        on_spark(read.where("n >").to("out")).run_to_the_end()
    with pytest.raises(FlowError, match=r"apply .*: Spark cannot run it: KeyError: 'no frame'"):
        on_spark(read.apply(lambda frame: {}["no frame"]).to("out")).run_to_the_end()
    with pytest.raises(FlowError, match=r"filter .*'spark', which it uses, cannot be pickled"):
        spark = on_spark(read.where("true").to("x"))._spark
        on_spark(read.filter(lambda row: spark is not None).to("out")).run_to_the_end()
    with pytest.raises(FlowError, match=r"apply <lambda> at .*: it has Spark read its rows 2 times"):
        doubled = read.apply(lambda frame: frame.where("n < 3").union(frame.where("n > 1")))
        on_spark(doubled.to("out")).run_to_the_end()
    with pytest.raises(
        ConfigError, match=r"columns n double, and Spark finds n decimal\(10,2\)\. Nothing was"
    ):
        narrow = read.select("CAST(n AS decimal(10, 2)) AS n", schema="n double")
        on_spark(narrow.to("out")).run_to_the_end()
    assert _topics(bootstrap) == before


def test_a_shuffle_is_refused_and_nothing_is_written(on_spark, semel_server):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", {"n": 1}, {"n": 2})
    shuffled = source("in", json="n bigint").apply(lambda frame: frame.repartition(3)).to("out")
    with pytest.raises(FlowStopped, match="PlanNotSupported"):
        on_spark(shuffled).run_to_the_end()
    assert rows(bootstrap, "out") == []
