"""What an attempt leaves behind where a step fails."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flow.flowing import put, rows, run

import semel
from semel.errors import SinkFenced, StepFailed
from semel.flow import here, source, stage_state, task
from semel.flow.stage_ranges import Cuts
from semel.flow.stage_state import TaskState
from semel.local import LocalLog
from semel.types import EARLIEST_TIMESTAMP, TopicPartition


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30))
def test_joined_batches_hold_the_same_rows_in_the_same_order(drawn: list[tuple[int, bool]]) -> None:
    begin = 0
    batches = []
    for size, is_keyed in drawn:
        values = pa.array([b"%d" % number for number in range(begin, begin + size)], pa.binary())
        columns = {
            "value": values,
            "topic": pa.DictionaryArray.from_arrays(pa.array([0] * size, pa.int8()), ["t"]),
        }
        batches.append(pa.record_batch(columns | ({"key": values} if is_keyed else {})))
        begin += size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "JOINED_ROWS_MAX", 12)
        joined = list(task.joined(batches))
    assert [row for batch in joined for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]
    assert all(batch.num_rows <= 12 for batch in joined)
    assert all(
        one.schema != other.schema or one.num_rows + other.num_rows > 12
        for one, other in itertools.pairwise(joined)
    )


class Killed(BaseException):
    """As kill -9 would have it: nothing is told, and nothing is tidied up."""


def _flow(*, mended: bool) -> Any:
    def tenth(row: Any) -> dict[str, Any]:
        return {"n": 10 // (row.n or 1) if mended else 10 // row.n}

    return source("given", json="n long").map(tenth, schema="n long").to("made")


@pytest.mark.parametrize("cuts", [Cuts(), Cuts(rows_max=2)])
def test_a_mended_step_goes_on_though_rows_in_front_of_the_failing_one_were_undecided(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, cuts: Cuts
) -> None:
    bootstrap = semel_server.bootstrap
    put(bootstrap, "given", *({"n": n} for n in (1, 2, 3)))

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(here, "decide_batch", killed)
        run(_flow(mended=False), bootstrap, tmp_path)
    put(bootstrap, "given", *({"n": n} for n in (4, 0, 5)))
    with pytest.raises(StepFailed, match="offset 4: ZeroDivisionError"):
        run(_flow(mended=False), bootstrap, tmp_path, cuts)
    run(_flow(mended=True), bootstrap, tmp_path, cuts)
    assert sorted(row["n"] for row in rows(bootstrap, "made")) == [2, 2, 3, 5, 10, 10]


@pytest.mark.thorough
def test_who_was_overtaken_is_told_so_where_the_changelog_was_made_short_since(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap = semel_server.bootstrap
    monkeypatch.setattr(stage_state, "inline_bytes_max", lambda partition_count: 0)
    monkeypatch.setattr(stage_state, "SNAPSHOT_CHANGES_MIN", 1)
    counted = source("people", json="name string").key_by("name", partitions=1).count().to("counts")
    changelog = TopicPartition(counted.plan().stages[-1].changelog_topic, 0)
    load = TaskState.load

    def more(store: str) -> None:
        put(bootstrap, "people", *({"name": name} for name in "abc"))
        run(counted, bootstrap, tmp_path / store)

    def overtaken(kept: TaskState) -> Any:
        monkeypatch.setattr(TaskState, "load", load)
        with ThreadPoolExecutor(1) as other_driver:
            for _ in range(5):
                other_driver.submit(more, "others").result()
        with semel.Admin(bootstrap) as admin:
            assert admin.list_offsets({changelog: EARLIEST_TIMESTAMP})[changelog].offset
        return load(kept)

    more("first")
    monkeypatch.setattr(TaskState, "load", overtaken)
    with pytest.raises(SinkFenced, match="was taken over"):
        more("fresh")
    assert {row["name"]: row["count"] for row in rows(bootstrap, "counts")} == dict.fromkeys("abc", 7)


@pytest.mark.thorough
def test_a_snapshot_of_the_state_is_handed_on_piece_by_piece(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it at once may be larger than memory; what the steps made has come through by then."""
    bootstrap = semel_server.bootstrap
    people = source("people", json="name string").key_by("name", partitions=1).count().to("counts")
    put(bootstrap, "people", *({"name": f"{n:05} {'x' * 40}"} for n in range(6000)))
    made, waiting, waiting_max = 0, 0, 0
    changelog_batch = task.changelog_batch

    def counted(*given: Any) -> pa.RecordBatch:
        nonlocal made, waiting, waiting_max
        made, waiting = made + 1, waiting + 1
        waiting_max = max(waiting, waiting_max)
        return changelog_batch(*given)

    def one_by_one(batches: Any) -> Any:
        nonlocal waiting
        for batch in batches:
            if batch.column("topic")[0].as_py().endswith(".changelog"):
                waiting -= 1
            yield batch

    monkeypatch.setattr(task, "changelog_batch", counted)
    monkeypatch.setattr(task, "joined", one_by_one)
    run(people, bootstrap, tmp_path)
    assert made >= 3
    assert (waiting, waiting_max) == (0, 1)
    assert len(rows(bootstrap, "counts")) == 6000
