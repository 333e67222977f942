"""Flows in this process, on a real server: what they write, where they go on, and what stops them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from tests.flow.flowing import end_offsets, put, records, rows, run, wait_for_growth
from tests.lost_end import lose_end

import semel
from semel.errors import ConfigError, DataLoss, SinkFenced, StepFailed
from semel.flow import source, stage_state
from semel.flow.here import StageHere, run_here
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts
from semel.flow.topics import made_topics
from semel.spark.options import Connection
from semel.spark.process import connect

WORDS = "word string"


def split(row):
    return [{"word": word} for word in row.text.split()]


def word_count(step=split):
    lines = source("lines", json="text string")
    return lines.flat_map(step, schema=WORDS).key_by("word").count().to("counts")


def last_counts(bootstrap):
    return {row["word"]: row["count"] for row in rows(bootstrap, "counts")}


def test_a_count_goes_on_where_it_was_however_it_is_cut(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", *({"text": f"a b{n % 3}"} for n in range(30)))
    run(word_count(), bootstrap, tmp_path)
    assert last_counts(bootstrap) == {"a": 30, "b0": 10, "b1": 10, "b2": 10}
    put(bootstrap, "lines", *({"text": "a c"} for _ in range(7)))
    run(word_count(), bootstrap, tmp_path, Cuts(rows_max=2, entries_max=1))
    assert last_counts(bootstrap) == {"a": 37, "b0": 10, "b1": 10, "b2": 10, "c": 7}
    before = records(bootstrap, "counts")
    run(word_count(), bootstrap, tmp_path)
    assert records(bootstrap, "counts") == before


def test_what_cannot_be_read_is_in_the_bad_topic_with_the_reason(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", {"text": "a"}, b"{nonsense", {"text": 7}, None, {"text": "a"})
    run(word_count(), bootstrap, tmp_path)
    assert last_counts(bootstrap) == {"a": 2}
    bad = records(bootstrap, "counts.bad")
    assert [record["value"] for record in bad] == [b"{nonsense", b'{"text": 7}', None]
    headers = [{pair["key"]: pair["value"] for pair in record["headers"]} for record in bad]
    assert [header["semel-at"] for header in headers] == [b"lines/0/1", b"lines/0/2", b"lines/0/3"]
    assert all(header["semel-why"] for header in headers)


@pytest.mark.thorough
def test_state_that_outgrows_a_decision_goes_on_from_its_changelog_and_without_its_folder(
    semel_server, tmp_path
):
    bootstrap = semel_server.bootstrap
    people = source("people", json="name string").key_by("name").count().to("counts")
    names = [f"{n:05} {'x' * 40}" for n in range(4000)]
    for turn in range(3):
        put(bootstrap, "people", *({"name": name} for name in names))
        run(people, bootstrap, tmp_path / f"store-{turn}", Cuts(rows_max=1500, entries_max=2))
    found = {row["name"]: row["count"] for row in rows(bootstrap, "counts")}
    assert found == dict.fromkeys(names, 3)
    assert len(rows(bootstrap, "counts")) == sum(1 for _ in names) * 3
    assert len(records(bootstrap, "counts.people-by-name-count.changelog")) > len(names)


def test_a_step_that_fails_leaves_nothing_undecided_and_goes_on_once_it_is_mended(semel_server, tmp_path):
    def brittle(row):
        if row.text == "poison":
            raise ValueError("no word")
        return split(row)

    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", *({"text": "a"} for _ in range(9000)), {"text": "poison"}, {"text": "a"})
    with pytest.raises(StepFailed, match=r"lines.*9000.*ValueError: no word"):
        run(word_count(brittle), bootstrap, tmp_path)
    with pytest.raises(StepFailed):
        run(word_count(brittle), bootstrap, tmp_path)
    run(word_count(), bootstrap, tmp_path)
    assert last_counts(bootstrap) == {"a": 9001, "poison": 1}


def test_a_fold_that_fails_ends_in_front_of_its_entry(semel_server, tmp_path):
    def flow(divides):
        def total(state, row):
            state += row.n if not divides or 1 / row.n else 0
            return state, {"name": row.name, "total": state}

        return source("in", json="name string, n bigint").key_by("name").fold(total, init=0).to("out")

    bootstrap = semel_server.bootstrap
    put(bootstrap, "in", {"name": "a", "n": 1}, {"name": "a", "n": 2})
    run(flow(divides=True), bootstrap, tmp_path)
    put(bootstrap, "in", {"name": "a", "n": 3}, {"name": "a", "n": 0}, {"name": "a", "n": 4})
    with pytest.raises(StepFailed, match="ZeroDivisionError"):
        run(flow(divides=True), bootstrap, tmp_path)
    assert [row["total"] for row in rows(bootstrap, "out")] == [1, 3]
    run(flow(divides=False), bootstrap, tmp_path)
    assert [row["total"] for row in rows(bootstrap, "out")] == [1, 3, 6, 6, 10]


def test_whoever_starts_a_stage_again_fences_the_one_that_runs(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", {"text": "a"})
    connection = Connection(bootstrap)
    plan = made_topics(connect(connection), word_count().plan())
    older = StageHere(plan.stages[0], connection, Cuts(), tmp_path)
    assert older.step() is not None
    put(bootstrap, "lines", {"text": "a"})
    run(word_count(), bootstrap, tmp_path)
    put(bootstrap, "lines", {"text": "a"})
    with pytest.raises(SinkFenced):
        older.step()
    run(word_count(), bootstrap, tmp_path)
    assert last_counts(bootstrap) == {"a": 3}


def test_a_flow_whose_source_is_not_there_makes_nothing(semel_server, tmp_path):
    with pytest.raises(ConfigError, match="reads topic 'lines', and there is none"):
        run(word_count(), semel_server.bootstrap, tmp_path)


def test_steps_of_sparks_do_not_run_here(semel_server, tmp_path):
    flow = source("lines", json="text string").where("text IS NOT NULL").to("out")
    with pytest.raises(ConfigError, match="run it on Spark"):
        run_here(flow.plan(), semel_server.bootstrap, store=tmp_path, until_idle=True)


CHILD = """
import sys
from pathlib import Path
from semel.flow.here import run_here
from semel.flow.stage_ranges import Cuts
from tests.flow.test_here import word_count
run_here(word_count().plan(), sys.argv[1], store=Path(sys.argv[2]), cuts=Cuts(int(sys.argv[3]), int(sys.argv[4])))
"""


@pytest.mark.thorough
def test_killed_at_random_moments_it_counts_each_word_once(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    sent = 0
    for turn in range(6):
        put(bootstrap, "lines", *({"text": f"a b{n % 5}"} for n in range(400)))
        sent += 400
        before = end_offsets(bootstrap, "counts")
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(CHILD),
                bootstrap,
                str(tmp_path),
                str(37 + turn),
                str(1 + turn),
            ]
        )
        wait_for_growth(bootstrap, "counts", child, 1 + 3 * turn, before)
        if turn == 3:
            semel_server.crash()
            semel_server.restart()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    run(word_count(), bootstrap, tmp_path)
    found = last_counts(bootstrap)
    assert found == {"a": sent} | {f"b{n}": sent // 5 for n in range(5)}
    of_a = [row["count"] for row in rows(bootstrap, "counts") if row["word"] == "a"]
    assert of_a == sorted(set(of_a))
    assert json.dumps(found)


@pytest.mark.thorough
def test_a_changelog_is_made_short_behind_its_newest_decided_snapshot(semel_server, tmp_path, monkeypatch):
    monkeypatch.setattr(stage_state, "SNAPSHOT_CHANGES_MIN", 100)
    bootstrap = semel_server.bootstrap
    people = source("people", json="name string").key_by("name").count().to("counts")
    names = [f"{n:03} {'x' * 60}" for n in range(300)]
    for turn in range(9):
        put(bootstrap, "people", *({"name": name} for name in names))
        run(people, bootstrap, tmp_path / f"store-{turn}")
    assert {row["name"]: row["count"] for row in rows(bootstrap, "counts")} == dict.fromkeys(names, 9)
    changelog = "counts.people-by-name-count.changelog"
    with semel.Admin(bootstrap) as admin:
        partitions = [semel.TopicPartition(changelog, n) for n in range(4)]
        starts = admin.list_offsets(dict.fromkeys(partitions, -2))
    assert all(start.offset > 0 for start in starts.values())


def test_to_the_end_of_what_is_there_is_an_end_though_the_source_grows(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", *({"text": "a"} for _ in range(10)))
    told: list[str] = []

    def more(progress):
        told.append(progress.stage)
        assert len(told) < 20, "it goes on for ever"
        put(bootstrap, "lines", {"text": "a"})

    run_here(word_count().plan(), bootstrap, store=tmp_path, until_idle=True, told=more)
    assert last_counts(bootstrap) == {"a": 10}
    run(word_count(), bootstrap, tmp_path)
    assert last_counts(bootstrap) == {"a": 10 + len(told)}


def test_a_merged_stream_has_null_for_a_column_that_was_not_declared_for_it(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "one", {"user": "a", "n": 5}, {"user": "b", "n": "text"})
    put(bootstrap, "two", {"user": "c", "n": 7})
    one = source("one", json="user string").key_by("user")
    two = source("two", json="user string, n bigint").key_by("user")
    run(one.merge(two).to("both"), bootstrap, tmp_path)
    found = sorted(rows(bootstrap, "both"), key=lambda row: row["user"])
    assert found == [{"user": "a", "n": None}, {"user": "b", "n": None}, {"user": "c", "n": 7}]
    assert records(bootstrap, "both.bad") == []


@pytest.mark.thorough
def test_what_is_decided_may_be_trimmed_between_the_stages_by_hand(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    rows_between, merge_log = "counts.lines-by-word", "counts.lines-by-word-count.merge"
    for turn in range(3):
        put(bootstrap, "lines", *({"text": f"a b{n % 3}"} for n in range(30)))
        run(word_count(), bootstrap, tmp_path)
        with semel.Admin(bootstrap) as admin:
            for topic, kept in (
                (rows_between, 0),
                (merge_log, 1),
            ):  # the record in front of the decided end is read
                partitions = [semel.TopicPartition(topic, n) for n in range(4)]
                ends = admin.list_offsets(dict.fromkeys(partitions, -1))
                admin.delete_records({tp: max(0, each.offset - kept) for tp, each in ends.items()})
        assert last_counts(bootstrap) == {"a": 30 * (turn + 1)} | dict.fromkeys(
            ["b0", "b1", "b2"], 10 * (turn + 1)
        )
    held = replay(word_count().plan(), bootstrap)
    assert held.holds and not held.is_complete


@pytest.mark.parametrize("is_stateful", [False, True])
def test_rows_that_are_gone_stop_a_flow_with_what_its_user_can_do(semel_server, tmp_path, is_stateful):
    bootstrap = semel_server.bootstrap
    given = source("in", json="name string", key="name")
    flow = (given.count() if is_stateful else given.map(lambda row: row, schema="name string")).to("out")
    names = [b"a"] * 20
    put(bootstrap, "in", *({"name": "a"} for _ in names), keys=names)
    run(flow, bootstrap, tmp_path)
    put(bootstrap, "in", *({"name": "a"} for _ in names), keys=names)
    with semel.Admin(bootstrap) as admin:
        admin.delete_records({semel.TopicPartition("in", 0): 30})
    with pytest.raises(
        DataLoss, match=r"offsets 20 to 29 of topic 'in'.*another name, into new topics"
    ) as lost:
        run(flow, bootstrap, tmp_path)
    assert "failOnDataLoss" not in str(lost.value)
    with semel.Admin(bootstrap) as admin:
        admin.delete_topic("in")
        admin.create_topic("in")
    with pytest.raises(DataLoss, match=r"another name, into new topics") as lost:
        run(flow, bootstrap, tmp_path)
    assert "failOnDataLoss" not in str(lost.value)


@pytest.mark.parametrize("is_stateful", [False, True])
def test_a_source_that_lost_its_end_and_grew_stops_a_flow(semel_server_factory, tmp_path, is_stateful):
    """As many rows as were lost stand there by now, and more: other rows."""
    server = semel_server_factory(durability="page-cache")

    def flow_to(output):
        given = source("lines", json="text string", key="text")
        return (given.count() if is_stateful else given.filter(lambda row: True)).to(output)

    flow = flow_to("out")
    for text in "abcd":
        put(server.bootstrap, "lines", {"text": text}, keys=[text.encode()])
    run(flow, server.bootstrap, tmp_path)
    lose_end(server, "lines", 2)
    put(server.bootstrap, "lines", {"text": "u"}, {"text": "v"}, keys=[b"u", b"v"])
    run(flow, server.bootstrap, tmp_path)  # it stands where it stood
    put(server.bootstrap, "lines", {"text": "w"}, keys=[b"w"])
    for _ in range(2):
        with pytest.raises(
            DataLoss, match=r"all offsets from 2 on of topic 'lines'.* lost its end.*another name"
        ):
            run(flow, server.bootstrap, tmp_path)
    assert len(rows(server.bootstrap, "out")) == 4
    run(flow_to("other"), server.bootstrap, tmp_path)
    assert len(rows(server.bootstrap, "other")) == 5


def test_a_flow_goes_on_where_a_restart_has_lost_nothing(semel_server, tmp_path):
    for n in range(3):
        put(semel_server.bootstrap, "lines", {"text": "a"})
        run(word_count(), semel_server.bootstrap, tmp_path)
        assert last_counts(semel_server.bootstrap) == {"a": n + 1}
        for _ in range(2):
            semel_server.restart()
