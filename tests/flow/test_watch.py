"""What is told of a flow's stages, from the log alone, beside what was put in and run."""

from __future__ import annotations

import pytest
from tests.flow.flowing import put, run

import semel
from semel.client.blocking import Cluster
from semel.flow import source
from semel.flow.stage_ranges import Cuts
from semel.flow.watch import Watch


def split(row):
    return [{"word": word} for word in row.text.split()]


@pytest.fixture
def bootstrap(semel_server):
    return semel_server.bootstrap


@pytest.fixture
def watched(bootstrap):
    """``watched(flow)``: a watch of it, and a clock that the test sets."""
    watches = []

    def watch(flow, now):
        watches.append(Watch(flow.plan(), bootstrap, now_s=lambda: now[0]))
        return watches[-1]

    yield watch
    for each in watches:
        each.close()


def word_count():
    lines = source("lines", json="text string")
    return lines.flat_map(split, schema="word string").key_by("word").count().to("counts")


@pytest.mark.thorough
def test_rows_lag_and_state_are_those_of_the_decided_ends(bootstrap, watched, tmp_path):
    now = [0.0]
    watch = watched(word_count(), now)
    first, last = watch.look().stages
    assert not first.is_begun
    assert (first.lag, last.lag, last.has_state, last.state_keys) == (0, 0, True, 0)
    put(bootstrap, "lines", *({"text": f"a b{n}"} for n in range(6)))
    assert [stage.lag for stage in watch.look().stages] == [6, 0]
    run(word_count(), bootstrap, tmp_path, Cuts(rows_max=2))
    now[0] = 2.0
    first, last = watch.look().stages
    assert first.is_begun
    assert last.is_begun
    assert (first.row_count, first.rows_per_s, first.lag) == (12, 6.0, 0)
    assert first.micro_batches >= 3
    assert (last.lag, last.state_keys, last.is_in_changelog) == (0, 7, False)
    assert last.state_bytes > 7 * 8
    now[0] = 100.0
    watch.look()
    now[0] = 101.0
    first, _ = watch.look().stages
    assert (first.row_count, first.rows_per_s) == (12, 0.0)


@pytest.mark.thorough
def test_who_comes_later_counts_what_comes_then(bootstrap, watched, tmp_path):
    put(bootstrap, "lines", {"text": "a b"})
    run(word_count(), bootstrap, tmp_path)
    watch = watched(word_count(), [0.0])
    assert [(stage.is_begun, stage.row_count) for stage in watch.look().stages] == [(True, 0), (True, 0)]
    put(bootstrap, "lines", {"text": "a c"})
    run(word_count(), bootstrap, tmp_path)
    assert [(stage.row_count, stage.micro_batches) for stage in watch.look().stages] == [(2, 1), (2, 1)]
    assert watch.look().stages[1].state_keys == 3


@pytest.mark.thorough
def test_a_large_state_is_told_by_its_changelog(bootstrap, watched, tmp_path):
    people = source("people", json="name string").key_by("name").count().to("counts")
    watch = watched(people, [0.0])
    put(bootstrap, "people", *({"name": f"{n:05} {'x' * 40}"} for n in range(4000)))
    run(people, bootstrap, tmp_path, Cuts(rows_max=1500, entries_max=2))
    _, counting = watch.look().stages
    assert (counting.state_keys, counting.is_in_changelog) == (4000, True)
    assert counting.state_bytes > 4000 * 46
    put(bootstrap, "people", {"name": "one more"})
    run(people, bootstrap, tmp_path)
    assert watch.look().stages[1].state_keys == 4001


def test_bad_rows_are_counted_once_and_the_first_says_why(bootstrap, watched, tmp_path):
    put(bootstrap, "lines", {"text": "a"}, b"no JSON", b"[]")
    watch = watched(word_count(), [0.0])
    assert watch.look().asides == {}
    run(word_count(), bootstrap, tmp_path)
    topic = word_count().plan().bad_topic
    look = watch.look()
    assert (look.asides, [stage.bad_count for stage in look.stages]) == ({topic: 2}, [2, 0])
    assert "JSON" in look.reasons[topic]
    put(bootstrap, "lines", {"text": "b"}, b"{")
    run(word_count(), bootstrap, tmp_path)  # another run: what the one before has counted is carried on
    assert watch.look().asides == {topic: 3}
    put(bootstrap, "lines", {"text": "b"})
    run(word_count(), bootstrap, tmp_path)
    assert watch.look().asides == {topic: 3}


def test_the_lag_of_several_inputs_is_counted_from_the_entries(bootstrap, watched, tmp_path):
    one, other = (source(topic, json="name string", key="name") for topic in ("one", "other"))
    both = one.merge(other).fold(lambda state, row: (state + 1, {"n": state}), init=0).to("out")
    for topic in ("one", "other"):
        put(bootstrap, topic, {"name": "a"}, {"name": "a"}, keys=[b"a", b"a"])
    with semel.Admin(bootstrap) as admin:
        counts = {len(admin.describe_topic(topic).partitions) for topic in ("one", "other")}
    assert len(counts) == 1
    watch = watched(both, [0.0])
    assert watch.look().lag == 4
    run(both, bootstrap, tmp_path)
    assert watch.look().lag == 0
    put(bootstrap, "other", *[{"name": "a"}] * 3, keys=[b"a"] * 3)
    assert watch.look().lag == 3


def test_a_look_at_a_flow_that_rests_is_one_request(bootstrap, watched, tmp_path, monkeypatch):
    put(bootstrap, "lines", {"text": "a b"})
    run(word_count(), bootstrap, tmp_path)
    watch = watched(word_count(), [0.0])
    watch.look()
    asked = []
    original = Cluster._run
    monkeypatch.setattr(Cluster, "_run", lambda self, work: asked.append(work) or original(self, work))
    watch.look()
    assert len(asked) == 1
