"""A replay holds where a flow did what it should, and tells of the place where the log was made to say otherwise."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.flow.flowing import put, records, run

import semel
from semel.core.flow.coverage import uncovered
from semel.core.flow.merge import Entry, EntryRange, InputTopic, PlacedEntry
from semel.flow import source
from semel.flow.replay import Replay, replay
from semel.flow.stage_ranges import Cuts
from semel.local import LocalLog


def words_of(row: Any) -> list[dict[str, str]]:
    return [{"word": word} for word in (row.line or "").split()]


def shout(row: Any) -> list[dict[str, str]]:
    return [{"word": word.upper()} for word in (row.line or "").split()]


def word_count(step: Any = words_of) -> Any:
    lines = source("lines", json="line string")
    return lines.flat_map(step, schema="word string").key_by("word", partitions=2).count().to("counts")


def total(state: int, row: Any) -> tuple[int, dict[str, Any]]:
    return state + row.n, {"name": row.name, "total": state + row.n}


def doubled(state: int, row: Any) -> tuple[int, dict[str, Any]]:
    return state + 2 * row.n, {"name": row.name, "total": state + row.n}


def totals(step: Any = total) -> Any:
    return source("given", json="name string, n bigint").key_by("name").fold(step, init=0).to("totals")


def checked(flow: Any, bootstrap: str) -> Replay:
    found = replay(flow.plan(), bootstrap)
    assert found.holds, found.text()
    assert found.is_complete, found.text()
    return found


def differences(flow: Any, bootstrap: str) -> list[str]:
    found = replay(flow.plan(), bootstrap)
    assert not found.holds
    assert "DIFFERS" in found.text()
    return [str(each) for stage in found.stages for each in stage.differences]


@pytest.mark.thorough
def test_whatever_the_cuts_each_stage_equals_its_replay(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    for turn, cuts in enumerate((Cuts(), Cuts(rows_max=7, entries_max=1), Cuts(rows_max=31))):
        put(bootstrap, "lines", *({"line": f"a b{n % 3} c{n % 5}"} for n in range(40)), b"no JSON")
        run(word_count(), bootstrap, tmp_path / str(turn), cuts)
    found = checked(word_count(), bootstrap)
    keyed, counts = found.stages
    assert (keyed.rows_read, keyed.rows) == (123, 3 * (40 * 3 + 1))
    assert counts.rows_read >= 360  # fences take offsets, too
    assert counts.keys == 9
    assert counts.rows == len(records(bootstrap, "counts"))
    assert found.is_at_rest
    assert "each stage equals a replay of its recorded inputs" in found.text()


@pytest.mark.thorough
def test_a_state_in_the_changelog_equals_the_replayed_one(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    people = source("people", json="name string").key_by("name", partitions=1).count().to("counts")
    for turn in range(3):
        put(bootstrap, "people", *({"name": f"{n:05} {'x' * 60}"} for n in range(1500)))
        run(people, bootstrap, tmp_path / str(turn), Cuts(rows_max=500, entries_max=2))
    _, counts = checked(people, bootstrap).stages
    assert counts.keys == 1500
    assert counts.rows == len(records(bootstrap, "counts")) + len(
        records(bootstrap, "counts.people-by-name-count.changelog")
    )


def test_what_is_to_come_is_told(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", {"name": "a", "n": 1})
    run(totals(), bootstrap, tmp_path)
    put(bootstrap, "given", {"name": "a", "n": 2}, {"name": "b", "n": 2})
    found = checked(totals(), bootstrap)
    assert not found.is_at_rest
    assert [stage.lag for stage in found.stages] == [2, 0]
    assert "2 offsets to come" in found.text()


def test_a_flow_that_has_not_begun_is_left_out(semel_server: LocalLog) -> None:
    put(semel_server.bootstrap, "given", {"name": "a", "n": 1})
    with semel.Admin(semel_server.bootstrap) as admin:
        before = sorted(admin.list_topics())
        found = replay(totals().plan(), semel_server.bootstrap)
        assert sorted(admin.list_topics()) == before
    assert found.holds
    assert not found.is_complete


@pytest.mark.spark
@pytest.mark.slow
def test_steps_of_sparks_are_replayed_in_a_session_and_left_out_without_one(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    from semel.flow.run import run_flow
    from semel.spark.session import session

    bootstrap = semel_server.bootstrap
    given = source("given", json="name string, n bigint, at timestamp")
    steps = given.where("n % 2 = 0").select(
        "name", "n * 10 AS m", "at", schema="name string, m bigint, at timestamp"
    )
    flow = steps.key_by("name").count().to("counts")
    rows = [{"name": f"{n % 7}", "n": n, "at": f"2026-01-01T00:00:{n % 60:02}Z"} for n in range(500)]
    put(bootstrap, "given", *rows, b"no JSON", {"name": None, "n": 2})
    spark = session("semel-test-replay", master="local[2]")
    run_flow(flow.plan(), bootstrap, spark=spark, once=True, cuts=Cuts(rows_max=90), store=tmp_path)
    without = replay(flow.plan(), bootstrap)
    assert without.holds
    assert not without.is_complete
    found = replay(flow.plan(), bootstrap, spark=spark)
    assert found.holds, found.text()
    assert found.is_complete, found.text()
    assert found.stages[0].rows == 250 + 2


# -- a log that was made to say otherwise ----------------------------------------------------------------------


def test_other_rows_than_the_steps_give_are_found_at_their_place(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", {"line": "a b c"})
    run(word_count(), bootstrap, tmp_path)
    found = differences(word_count(shout), bootstrap)
    assert any('a = {"word":"a"}' in each and '"word":"A"' in each for each in found), found


def test_another_state_than_the_steps_come_to_is_found(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", {"name": "a", "n": 1})
    run(totals(), bootstrap, tmp_path)
    found = differences(totals(doubled), bootstrap)
    assert len(found) == 1
    assert found[0].startswith("the state of partition")


def test_a_row_that_nobody_of_the_flow_wrote_is_found_in_its_own_topic(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", {"name": "a", "n": 1})
    run(totals(), bootstrap, tmp_path)
    with semel.Producer(bootstrap) as producer:
        value = json.dumps({"name": "a", "n": 1}).encode()
        producer.send_table(
            "totals.given-by-name", pa.table({"key": pa.array([b"a"]), "value": pa.array([value])})
        )
    assert any("no writer of the stage" in each for each in differences(totals(), bootstrap))


def test_a_decision_that_counts_rows_which_are_not_there_is_found(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that passes a row over: decided, and not stored."""
    from semel.flow import task

    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", *({"name": "a", "n": n} for n in range(3)))
    real = task.output_batch

    def without_the_second(*arguments: Any) -> Any:
        kept, made = real(*arguments)
        return kept, pa.concat_batches([made.slice(0, 1), made.slice(2)]) if made.num_rows == 3 else made

    with monkeypatch.context() as patch:
        patch.setattr(task, "output_batch", without_the_second)
        run(totals(), bootstrap, tmp_path)
    found = differences(totals(), bootstrap)
    assert any('is stored as a = {"name": "a", "n": 2}' in each for each in found), found
    assert any("counts 2 rows" in each for each in found), found


# -- what was trimmed: neither right nor wrong -------------------------------------------------------------------


def trim(bootstrap: str, topic: str, offset: int, partition: int = 0) -> None:
    with semel.Admin(bootstrap) as admin:
        admin.delete_records({semel.TopicPartition(topic, partition): offset})


def trim_half(bootstrap: str) -> None:
    """The first half of the output, which lies in one partition, as rows without keys do for a while."""
    offsets = [row["offset"] for row in records(bootstrap, "out")]
    (partition,) = {row["partition"] for row in records(bootstrap, "out")}
    trim(bootstrap, "out", offsets[15], partition)


def unproven(flow: Any, bootstrap: str) -> Replay:
    found = replay(flow.plan(), bootstrap)
    assert found.holds, found.text()
    assert not found.is_complete
    assert "each stage equals" not in found.text()
    return found


def upper(row: Any) -> dict[str, Any]:
    return {"line": row.line.upper()}


def lines_of(step: Any = upper, **key: Any) -> Any:
    return source("lines", json="line string", **key).map(step, schema="line string").to("out")


def upper_but_the_first(row: Any) -> dict[str, Any]:
    return {"line": row.line if row.line == "a0" else row.line.upper()}


def upper_but_the_last(row: Any) -> dict[str, Any]:
    return {"line": row.line if row.line == "a29" else row.line.upper()}


@pytest.fixture
def thirty(semel_server: LocalLog, tmp_path: Any) -> str:
    """Thirty lines that went through, into an output of three partitions."""
    bootstrap = semel_server.bootstrap
    with semel.Admin(bootstrap) as admin:
        admin.create_topic("out", 3)
    put(bootstrap, "lines", *({"line": f"a{n}"} for n in range(30)), b"no JSON")
    run(lines_of(), bootstrap, tmp_path)
    checked(lines_of(), bootstrap)
    return bootstrap


def test_of_an_output_that_was_trimmed_the_rest_is_compared(thirty: str) -> None:
    trim_half(thirty)
    found = unproven(lines_of(), thirty)
    (stage,) = found.stages
    assert "not provable" in stage.text()
    assert 0 < stage.rows < 31
    unproven(lines_of(upper_but_the_first), thirty)
    assert not replay(lines_of(upper_but_the_last).plan(), thirty).holds


def test_of_an_output_that_was_trimmed_to_its_end_nothing_is_told(thirty: str) -> None:
    for partition in range(3):
        trim(thirty, "out", -1, partition)
    trim(thirty, "out.bad", -1)
    (stage,) = unproven(lines_of(upper_but_the_last), thirty).stages
    assert stage.rows == 0


@pytest.mark.parametrize("gone", [1, 17, 30, 31])
def test_of_an_input_that_was_trimmed_since_the_rest_is_compared(thirty: str, gone: int) -> None:
    trim(thirty, "lines", gone)
    (stage,) = unproven(lines_of(), thirty).stages
    assert stage.rows == 31 - gone
    assert "not provable" in stage.text()
    unproven(lines_of(upper_but_the_first), thirty)
    if gone < 30:
        assert not replay(lines_of(upper_but_the_last).plan(), thirty).holds


def test_input_and_output_may_both_be_trimmed(thirty: str) -> None:
    trim(thirty, "lines", 10)
    trim_half(thirty)
    unproven(lines_of(upper_but_the_first), thirty)
    assert not replay(lines_of(upper_but_the_last).plan(), thirty).holds


def test_an_input_that_was_trimmed_before_the_flow_began_leaves_nothing_out(
    semel_server: LocalLog, tmp_path: Any
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "lines", *({"line": f"a{n}"} for n in range(30)))
    trim(bootstrap, "lines", 12)
    run(lines_of(), bootstrap, tmp_path)
    checked(lines_of(), bootstrap)
    assert not replay(lines_of(upper_but_the_last).plan(), bootstrap).holds


def test_recorded_rows_that_were_trimmed_are_not_provable(semel_server: LocalLog, tmp_path: Any) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", *({"name": "a", "n": n} for n in range(9)))
    run(totals(), bootstrap, tmp_path)
    trim(bootstrap, "totals.given-by-name", 3, _partition_of_a(bootstrap))
    keyed, folded = unproven(totals(), bootstrap).stages
    assert keyed.left_out and folded.left_out
    assert "another name" not in folded.text()


@pytest.mark.parametrize("suffix", [".given-by-name-fold.merge", ".given-by-name-fold.changelog"])
def test_an_order_or_a_state_that_was_trimmed_is_not_provable(
    semel_server: LocalLog, tmp_path: Any, suffix: str
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", *({"name": f"{n:05} {'x' * 60}", "n": n} for n in range(500)))
    run(totals(), bootstrap, tmp_path)
    for partition in range(4):
        trim(bootstrap, f"totals{suffix}", -1, partition)
    unproven(totals(doubled), bootstrap)


def test_decisions_that_were_trimmed_leave_nothing_to_compare_by(thirty: str) -> None:
    with semel.Admin(thirty) as admin:
        partitions = admin.describe_topic("__semel_sinks").partitions
        admin.alter_configs("__semel_sinks", {"cleanup.policy": "compact,delete"})
    for partition in partitions:
        trim(thirty, "__semel_sinks", -1, partition)
    (stage,) = unproven(lines_of(), thirty).stages
    assert stage.rows == 0


def _partition_of_a(bootstrap: str) -> int:
    return int(next(row["partition"] for row in records(bootstrap, "totals.given-by-name")))


# -- coverage --------------------------------------------------------------------------------------------------

KEY = InputTopic("given", "id")


def _entry(offset: int, first: int, end: int) -> PlacedEntry:
    return PlacedEntry(offset, Entry(1, 0, (EntryRange(*KEY, first, end),), {KEY: end}))


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([_entry(1, 0, 5), _entry(2, 6, 9)], "no entry has those from 5 on"),
        ([_entry(1, 0, 5), _entry(2, 4, 9)], "those below 5 were in an entry before"),
        ([_entry(1, 3, 5)], "the topic begins before them"),
        ([_entry(1, 0, 0)], "they are none"),
        ([_entry(1, 0, 5), PlacedEntry(2, Entry(1, 1, (), {KEY: 7}, 0))], "ends at 7"),
    ],
)
def test_offsets_that_are_in_no_entry_or_in_two_are_told(entries: list[PlacedEntry], says: str) -> None:
    wrong = uncovered(entries, {KEY: 0})
    assert len(wrong) == 1
    assert says in wrong[0]


def test_nothing_is_wrong_with_entries_that_follow_on_each_other() -> None:
    assert uncovered([_entry(1, 0, 5), _entry(3, 5, 6)], {KEY: 0}) == []
    assert uncovered([_entry(1, 3, 5)], {KEY: 4}) == []  # trimmed since
