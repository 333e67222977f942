"""A demo whose pipeline loses, doubles or swaps one row ends with exit code 1, and says which."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from semel.audit.read import read_batches
from semel.cli.main import run
from semel.client.producer import Producer
from semel.demo.data import flights
from semel.demo.scene import Scene
from semel.demo.story import INPUT_TOPIC, OUTPUT_TOPIC
from semel.record.batch import Record, encode_batch
from semel.types import TopicPartition

ROWS = 2_000

Rows = list[Record]
Fault = Callable[[Rows], Rows]


def load(scene: Scene) -> None:
    """The first act without its kills."""
    with Producer(scene.log.bootstrap) as producer:
        for flight in flights(ROWS):
            producer.send(INPUT_TOPIC, key=flight.key, value=flight.value)


def copy_with(fault: Fault) -> Callable[[Scene], None]:
    """The second act: every row of the input goes to its partition of the output, but for the fault."""

    def act(scene: Scene) -> None:
        for tp, end in scene.end_offsets(INPUT_TOPIC).items():
            found = read_batches(scene.cluster, {tp: 0}, {tp: end})
            rows = [record for *_, records in found for record in records]
            copied = fault(rows) if tp.partition == 0 else rows
            grant = scene.cluster.init_producer_id()
            batch = encode_batch(
                copied, producer_id=grant.producer_id, producer_epoch=grant.producer_epoch, base_sequence=0
            )
            output = TopicPartition(OUTPUT_TOPIC, tp.partition)
            assert not scene.cluster.produce({output: batch})[output].error_code

    return act


def swapped(rows: Rows) -> Rows:
    """The first two rows of one key in each other's place."""
    first = next(i for i, row in enumerate(rows) if any(row.key == later.key for later in rows[i + 1 :]))
    second = next(i for i in range(first + 1, len(rows)) if rows[i].key == rows[first].key)
    rows = rows.copy()
    rows[first], rows[second] = rows[second], rows[first]
    return rows


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda rows: rows, None),
        (lambda rows: [*rows, rows[7]], "VIOLATED duplicated: 1 "),
        pytest.param(lambda rows: rows[:7] + rows[8:], "VIOLATED missing: 1 ", marks=pytest.mark.slow),
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
    report = tmp_path / "report.html"
    arguments = ["--rows", str(ROWS), "--report", str(report), "--dir", str(tmp_path / "demo")]
    assert run(["demo", "--no-spark", *arguments]) == 1
    printed = capsys.readouterr()
    assert "VIOLATED missing: 1 flights, the file against flights" in printed.out
    assert "the evidence is kept in" in printed.err
