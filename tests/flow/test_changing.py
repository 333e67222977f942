"""A changed flow starts where that neither doubles nor loses a row, and says so where it would."""

from __future__ import annotations

import importlib

import pytest
from tests.flow.flowing import put, rows, run

from semel.errors import ConfigError, PlanNotSupported
from semel.flow import flow, source
from semel.flow.files import load_flows
from semel.flow.here import run_here
from semel.flow.stage_ranges import Cuts, ranges_of
from semel.flow.topics import made_topics
from semel.spark.options import Connection
from semel.spark.process import connect
from semel.spark.resuming import resume

PEOPLE = "name string, n int"


def people():
    return source("people", json=PEOPLE)


def test_a_stage_that_would_read_another_topic_from_its_beginning_is_refused(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", {"name": "a", "n": 1})
    put(bootstrap, "others", {"name": "b", "n": 1})
    run(people().filter(bool).to("out"), bootstrap, tmp_path)
    with pytest.raises(ConfigError, match="has read people so far, and would read others"):
        run(source("others", json=PEOPLE).filter(bool).to("out"), bootstrap, tmp_path)
    assert rows(bootstrap, "out") == [{"name": "a", "n": 1}]
    run(people().filter(lambda row: True).to("out"), bootstrap, tmp_path)


def test_an_input_that_takes_the_place_of_another_is_not_counted_on_top_of_it(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", {"name": "a", "n": 1}, {"name": "a", "n": 2}, keys=[b"a", b"a"])
    direct = source("people", json=PEOPLE, key="name").named("x").count().to("counts")
    by_topic = people().key_by("name", partitions=1).named("x").count().to("counts")
    both = source("people", json=PEOPLE, key="name").merge(source("more", json=PEOPLE, key="name"))
    run(direct, bootstrap, tmp_path)
    with pytest.raises(
        ConfigError, match=r"has read people so far, and would read counts\.people-by-name from"
    ):
        run(by_topic, bootstrap, tmp_path)
    assert rows(bootstrap, "counts") == [{"name": "a", "count": 2}]
    put(bootstrap, "more", {"name": "a", "n": 1}, keys=[b"a"])
    run(both.named("x").count().to("counts"), bootstrap, tmp_path)  # one that comes in addition is new
    run(direct, bootstrap, tmp_path)
    assert rows(bootstrap, "counts")[-1] == {"name": "a", "count": 3}


def test_a_stage_of_another_name_does_not_write_an_output_from_the_beginning_again(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", {"name": "a", "n": 1}, {"name": "a", "n": 2})
    run(people().key_by("name").count().to("out"), bootstrap, tmp_path)
    for other in (
        people().key_by("name").sum("n").to("out"),
        people().named("folk").key_by("name").count().to("out"),
        people().to("out"),
    ):
        with pytest.raises(
            ConfigError, match="was written by its stage 'people-by-name-count', which it has no"
        ):
            run(other, bootstrap, tmp_path)
    assert rows(bootstrap, "out") == [{"name": "a", "count": 2}]
    run(flow("out", people().key_by("name").count().to("out"), people().to("copy")), bootstrap, tmp_path)
    assert len(rows(bootstrap, "copy")) == 2


@pytest.mark.thorough
def test_rows_in_between_that_nobody_would_read_are_told_of(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", *({"name": "a", "n": n} for n in range(9)))

    def counting(*more):
        return flow("f", people().key_by("name").count().to("counts"), *more)

    summing = people().key_by("name").last().to("sums")
    run(counting(summing), bootstrap, tmp_path)
    put(bootstrap, "people", *({"name": "a", "n": n} for n in range(9)))

    def stop_behind_the_first_stage(progress):
        if progress.stage == "people-by-name":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_here(
            counting(summing).plan(),
            bootstrap,
            store=tmp_path,
            until_idle=True,
            told=stop_behind_the_first_stage,
        )
    with pytest.raises(
        ConfigError, match=r"has not read the rows of the flow's own topic 'f.people-by-name'"
    ):
        run(flow("f", people().map(lambda row: row, schema=PEOPLE).to("copy")), bootstrap, tmp_path)
    run(counting(summing), bootstrap, tmp_path, Cuts())
    run(flow("f", people().map(lambda row: row, schema=PEOPLE).to("copy")), bootstrap, tmp_path)
    assert len(rows(bootstrap, "copy")) == 18


@pytest.mark.parametrize("change", ["removed", "renamed"])
def test_rows_for_a_stage_that_went_before_its_first_micro_batch_are_told_of(semel_server, tmp_path, change):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", {"name": "a", "n": 1})
    as_it_was = flow("f", people().key_by("name").count().to("counts"))

    def stop_behind_the_first_stage(progress):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        run_here(
            as_it_was.plan(), bootstrap, store=tmp_path, until_idle=True, told=stop_behind_the_first_stage
        )
    copied = people().map(lambda row: row, schema=PEOPLE).to("copy")
    renamed = people().named("folk").key_by("name").count().to("counts")
    changed = flow("f", copied if change == "removed" else renamed)
    with pytest.raises(ConfigError, match=r"its own topic 'f.people-by-name'.*has read nothing of it"):
        run(changed, bootstrap, tmp_path)
    run(as_it_was, bootstrap, tmp_path)
    if change == "removed":
        run(changed, bootstrap, tmp_path)
        assert rows(bootstrap, "copy") == [{"name": "a", "n": 1}]


def test_a_topic_of_the_users_that_begins_with_the_flows_name_is_for_others_to_read(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    put(bootstrap, "people", {"name": "a", "n": 1})
    run(flow("f", people().to("f.people"), people().filter(bool).to("out")), bootstrap, tmp_path)
    run(flow("f", people().filter(bool).to("out"), people().filter(bool).to("more")), bootstrap, tmp_path)
    assert rows(bootstrap, "more") == [{"name": "a", "n": 1}]


def test_a_stage_that_went_asks_for_nothing_of_rows_that_others_read(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap

    def counting(*more):
        return flow("f", people().key_by("name").count().to("counts"), *more)

    put(bootstrap, "people", {"name": "a", "n": 1})
    run(counting(people().key_by("name").last().to("lasts")), bootstrap, tmp_path)
    for _ in range(3):
        run(counting(), bootstrap, tmp_path)
        put(bootstrap, "people", {"name": "a", "n": 1})
    assert rows(bootstrap, "counts")[-1] == {"name": "a", "count": 3}


@pytest.mark.thorough
def test_fences_in_a_topic_that_nobody_reads_any_more_are_no_rows(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    counts = people().key_by("name").count()
    put(bootstrap, "people", {"name": "a", "n": 1})
    on_and_on = counts.map(lambda row: row, schema="name string, count bigint").key_by("count").last()
    run(flow("f", on_and_on.to("lasts")), bootstrap, tmp_path)
    for _ in range(3):  # the stage that counts goes on, and fences what it wrote before
        run(flow("f", counts.to("counts")), bootstrap, tmp_path)
        put(bootstrap, "people", {"name": "a", "n": 1})
    assert rows(bootstrap, "counts")[-1] == {"name": "a", "count": 3}


def test_recorded_rows_of_an_input_that_went_are_decided_first(semel_server, tmp_path):
    bootstrap = semel_server.bootstrap
    clicks, calls = source("clicks", json=PEOPLE, key="name"), source("calls", json=PEOPLE, key="name")
    both = clicks.merge(calls).named("all").count().to("counts")
    for topic in ("clicks", "calls"):
        put(bootstrap, topic, {"name": "a", "n": 1}, keys=[b"a"])
    run(both, bootstrap, tmp_path)
    for topic in ("clicks", "calls"):
        put(bootstrap, topic, {"name": "a", "n": 1}, keys=[b"a"])
    _record_and_die(both, bootstrap)
    without = clicks.named("all").count().to("counts")
    for _ in range(2):
        with pytest.raises(PlanNotSupported, match=r"has rows of topic 'calls', and is not decided"):
            run(without, bootstrap, tmp_path)
    run(both, bootstrap, tmp_path)
    put(bootstrap, "clicks", {"name": "a", "n": 1}, keys=[b"a"])
    run(without, bootstrap, tmp_path)
    assert rows(bootstrap, "counts")[-1] == {"name": "a", "count": 5}


def _record_and_die(of, bootstrap):
    """As a planner does that is killed behind its append."""
    connection = Connection(bootstrap)
    (stage,) = made_topics(connect(connection), of.plan()).stages
    ranges = ranges_of(stage, connection, Cuts(), resume(connection, stage.sink_id))
    begun = ranges.initial()
    assert ranges.next_end(begun) != begun


TYPED = """
from dataclasses import dataclass
from semel.flow import source

@dataclass
class Total:
    n: int = 0

def total(state: Total, row):
    return Total(state.n + row.n), {"name": row.name, "total": state.n + row.n}

def totals(states: dict[str, Total | None], row):
    return states, None

people = source("people", json="name string, n int").key_by("name")
out = people.fold(total, Total(), schema="name string, total int").to("out")
nested = people.fold(totals, {}, schema="name string").to("nested")
"""


@pytest.mark.thorough
def test_a_state_of_a_class_of_the_file_is_found_from_wherever_the_file_lies(
    semel_server, tmp_path, monkeypatch
):
    bootstrap = semel_server.bootstrap
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "totals.py").write_text(TYPED)
    monkeypatch.syspath_prepend(tmp_path / "here")
    imported = vars(importlib.import_module("totals"))
    moved = [load_flows(tmp_path / folder / "totals.py") for folder in ("here", "there")]
    for name in ("out", "nested"):
        for each in (*(file.flow(name) for file in moved), imported[name]):
            put(bootstrap, "people", {"name": "a", "n": 1})
            run(each, bootstrap, tmp_path)
    assert rows(bootstrap, "out")[-1] == {"name": "a", "total": 3}
