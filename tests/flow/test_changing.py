"""A changed flow starts where that neither doubles nor loses a row, and says so where it would."""

from __future__ import annotations

import pytest
from tests.flow.flowing import put, rows, run

from semel.errors import ConfigError
from semel.flow import flow, source
from semel.flow.stage_ranges import Cuts

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

    from semel.flow.here import run_here

    with pytest.raises(InterruptedError):
        run_here(
            counting(summing).plan(),
            bootstrap,
            store=tmp_path,
            until_idle=True,
            told=stop_behind_the_first_stage,
        )
    with pytest.raises(ConfigError, match=r"has not read \d+ offsets"):
        run(flow("f", people().map(lambda row: row, schema=PEOPLE).to("copy")), bootstrap, tmp_path)
    run(counting(summing), bootstrap, tmp_path, Cuts())
    run(flow("f", people().map(lambda row: row, schema=PEOPLE).to("copy")), bootstrap, tmp_path)
    assert len(rows(bootstrap, "copy")) == 18
