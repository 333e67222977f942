"""A demo whose pipeline loses, doubles or swaps one row ends with exit code 1, and says which."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from semel.audit.read import read_batches
from semel.cli.main import run
from semel.client.blocking import Cluster
from semel.client.producer import Producer
from semel.demo.data import flights
from semel.demo.scene import Scene
from semel.demo.story import INPUT_TOPIC, OUTPUT_TOPIC, PARTITION_COUNT
from semel.land.job import Job, run_job
from semel.land.run import LandPlan
from semel.record.batch import Record, encode_batch
from semel.types import EARLIEST_TIMESTAMP, TopicPartition

ROWS = 2_000

Rows = list[Record]
Fault = Callable[[Rows], Rows]


def load(scene: Scene) -> None:
    """The first act without its kills."""
    with Producer(scene.log.bootstrap) as producer:
        for flight in flights(ROWS):
            producer.send(INPUT_TOPIC, key=flight.key, value=flight.value)


def copy_with(fault: Fault) -> Callable[[Scene], None]:
    """The second act."""
    return lambda scene: write(scene, INPUT_TOPIC, scene.cluster, OUTPUT_TOPIC, fault)


def second_log_with(fault: Fault) -> Callable[[Scene], None]:
    """The third act, without its kills."""

    def act(scene: Scene) -> None:
        scene.second_cluster.create_topics({scene.story.second_topic: PARTITION_COUNT})
        write(scene, scene.story.last_topic, scene.second_cluster, scene.story.second_topic, fault)

    return act


def table_with(fault: Fault) -> Callable[[Scene], None]:
    """The fourth act, without its kills."""

    def act(scene: Scene) -> None:
        plan = LandPlan(topics=[scene.story.second_topic], until_end=True)
        run_job(Job(name="land", table=scene.table, plan=plan), scene.second_cluster)
        table = DeltaTable(scene.table).to_pyarrow_table()
        rows = [Record(i, 0, None, None) for i in range(table.num_rows)]
        kept = table.take([row.offset for row in fault(rows)])
        write_deltalake(scene.table, kept, mode="overwrite")
        scene.story.has_landed = True

    return act


def write(scene: Scene, topic: str, cluster: Cluster, output: str, fault: Fault) -> None:
    """Every row of the topic to its partition of the output, but for the fault."""
    for tp, end in scene.end_offsets(topic).items():
        first = scene.cluster.list_offsets({tp: EARLIEST_TIMESTAMP})[tp].offset
        found = read_batches(scene.cluster, {tp: first}, {tp: end})
        rows = [record for *_, records in found for record in records]
        copied = fault(rows) if tp.partition == 0 else rows
        grant = cluster.init_producer_id()
        batch = encode_batch(
            copied, producer_id=grant.producer_id, producer_epoch=grant.producer_epoch, base_sequence=0
        )
        to = TopicPartition(output, tp.partition)
        assert not cluster.produce({to: batch})[to].error_code


def whole(rows: Rows) -> Rows:
    return rows


def doubled(rows: Rows) -> Rows:
    return [*rows, rows[7]]


def lost(rows: Rows) -> Rows:
    return rows[:7] + rows[8:]


def swapped(rows: Rows) -> Rows:
    """The first two rows of one key in each other's place."""
    first = next(i for i, row in enumerate(rows) if any(row.key == later.key for later in rows[i + 1 :]))
    second = next(i for i in range(first + 1, len(rows)) if rows[i].key == rows[first].key)
    rows = rows.copy()
    rows[first], rows[second] = rows[second], rows[first]
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (whole, None),
        (doubled, "VIOLATED duplicated: 1 "),
        pytest.param(lost, "VIOLATED missing: 1 ", marks=pytest.mark.slow),
        pytest.param(
            lambda rows: [*rows, Record(0, 0, b"XX1", b'{"time_hour":"x","carrier":"XX","flight":1}')],
            "extra: 1 ",
            marks=pytest.mark.slow,
        ),
        pytest.param(swapped, "VIOLATED out_of_order: 1 ", marks=pytest.mark.slow),
    ],
    ids=["none", "doubled", "lost", "invented", "swapped"],
)
def test_one_wrong_row_is_found(
    fault: Fault,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("semel.demo.run.play_loading", load)
    monkeypatch.setattr("semel.demo.run.play_streaming", copy_with(fault))
    monkeypatch.setattr("semel.demo.run.play_copying", second_log_with(whole))
    monkeypatch.setattr("semel.demo.run.play_landing", lambda scene: None)
    report = tmp_path / "report.html"
    arguments = ["demo", "--rows", str(ROWS), "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(arguments) == (0 if said is None else 1)
    screen, page = capsys.readouterr().out, report.read_text()
    if said is None:
        assert "PROVEN: every flight is in the output exactly once" in screen
        assert "✗" not in page
    else:
        assert "NOT PROVEN: a flight was lost, doubled, or came out of order" in screen
        assert said in screen
        assert page.count("✗") == 1


def test_a_row_that_the_log_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load_and_lose(scene: Scene) -> None:
        load(scene)
        scene.cluster.delete_records({TopicPartition(INPUT_TOPIC, 0): 1})

    monkeypatch.setattr("semel.demo.run.play_loading", load_and_lose)
    monkeypatch.setattr("semel.demo.run.play_copying", second_log_with(whole))
    monkeypatch.setattr("semel.demo.run.play_landing", lambda scene: None)
    report = tmp_path / "report.html"
    arguments = ["--rows", str(ROWS), "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(["demo", "--no-spark", *arguments]) == 1
    printed = capsys.readouterr()
    assert "VIOLATED missing: 1 flights, the file against flights" in printed.out
    assert "the evidence is kept in" in printed.err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("copy_fault", "table_fault", "said"),
    [
        (whole, whole, None),
        (whole, doubled, "VIOLATED duplicated: 1 "),
        pytest.param(whole, lost, "VIOLATED missing: 1 ", marks=pytest.mark.slow),
        (lost, whole, "VIOLATED missing: 1 "),
        pytest.param(doubled, whole, "VIOLATED duplicated: 1 ", marks=pytest.mark.slow),
        pytest.param(swapped, whole, "VIOLATED out_of_order: 1 ", marks=pytest.mark.slow),
    ],
)
def test_one_wrong_row_of_the_copy_or_of_the_table_is_found(
    copy_fault: Fault,
    table_fault: Fault,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("semel.demo.run.play_loading", load)
    monkeypatch.setattr("semel.demo.run.play_copying", second_log_with(copy_fault))
    monkeypatch.setattr("semel.demo.run.play_landing", table_with(table_fault))
    report = tmp_path / "report.html"
    arguments = ["--rows", str(ROWS), "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(["demo", "--no-spark", *arguments]) == (0 if said is None else 1)
    screen, page = capsys.readouterr().out, report.read_text()
    if said is None:
        assert "NOT PROVEN" not in screen
        assert "✗" not in page
    else:
        assert "NOT PROVEN: a row was lost, doubled, or came out of order on its way" in screen
        assert said in screen
        assert page.count("✗") == 1


def test_without_the_extra_the_table_is_left_out_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("semel.demo.run.play_loading", load)
    monkeypatch.setattr("semel.demo.run.play_copying", second_log_with(whole))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    report = tmp_path / "report.html"
    arguments = ["--rows", str(ROWS), "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(["demo", "--no-spark", *arguments]) == 0
    printed = capsys.readouterr()
    assert "pip install deltalake fastavro" in printed.err
    assert "pip install deltalake fastavro" in " ".join(printed.out.split()), "the summary says it, too"
    assert "PROVEN: second.flights holds every row of flights exactly once, in order" in printed.out
    assert "Delta table holds" not in printed.out
    assert "the landing is left out" in report.read_text()
