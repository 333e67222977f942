"""Lineage: a row's header says which row it came of, and a reader takes each once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.flow.attempts import Task, cut, raw_piece

from semel.core.flow import lineage
from semel.core.flow.chain import Chain
from semel.core.flow.lineage import LINEAGE_HEADER, Dedupe, Lineage, lineage_headers
from semel.core.flow.pieces import Origin
from semel.errors import StepFailed

ID = UUID("7d9f3bb0-31ab-4b8e-9d7c-6f1f6f0a2b11")


def piece(*of: Any, input: int = 0) -> Any:
    """Rows with these headers: a lineage, other headers, or none."""
    headers = [[each.header()] if isinstance(each, Lineage) else each for each in of]
    values = [str(number).encode() for number in range(len(of))]
    return raw_piece(None, values, headers=headers, input=input)


def once(*of: Any) -> list[bytes | None]:
    task = Task(Chain((Dedupe(),)))
    task.entry(piece(*of))
    return task.values


def row(offset: int, index: int = 0, partition: int = 0, topic: str = "t") -> Lineage:
    return Lineage(topic, partition, offset, index)


def test_a_header_is_read_back():
    full = Lineage("clicks", 3, 1027, 2, ID)
    assert full.header() == (LINEAGE_HEADER, f"clicks@{ID}/3/1027/2".encode())
    assert Lineage.read(full.header()[1]) == full
    assert Lineage.read(row(5).header()[1]) == row(5)


@pytest.mark.parametrize(
    "value", [b"", b"t", b"t/0/5", b"t/0/-1/0", b"t/0/5/0/0", b"\xff/0/5/0", b"t@x/0/5/0"]
)
def test_what_is_no_lineage(value):
    assert Lineage.read(value) is None


def test_headers_of_a_piece_are_those_of_its_rows():
    origin = Origin("clicks", 3, np.array([7, 7, 9], dtype=np.int64), np.array([0, 1, 0], dtype=np.int64))
    found = [Lineage.read(pairs[0]["value"]) for pairs in lineage_headers(origin, ID).to_pylist()]
    assert found == [
        Lineage("clicks", 3, 7, 0, ID),
        Lineage("clicks", 3, 7, 1, ID),
        Lineage("clicks", 3, 9, 0, ID),
    ]
    plain = lineage_headers(Origin("clicks", 3, np.array([7], dtype=np.int64)))
    assert plain.to_pylist() == [[{"key": LINEAGE_HEADER, "value": b"clicks/3/7/0"}]]
    assert len(lineage_headers(Origin("t", 0, np.zeros(0, dtype=np.int64)))) == 0


def test_what_is_written_again_is_dropped():
    assert once(row(1), row(2), row(2), row(1), row(2), row(3)) == [b"0", b"1", b"5"]
    assert once(row(1, 0), row(1, 1), row(1, 0), row(1, 1), row(1, 2)) == [b"0", b"1", b"4"]


def test_each_source_partition_has_a_mark_of_its_own_and_a_topic_made_anew_is_another():
    assert once(row(5), row(5, partition=1), row(5, topic="u"), Lineage("t", 0, 5, 0, ID), row(5)) == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


def test_marks_are_kept_over_attempts_and_inputs_do_not_share_them():
    task = Task(Chain((Dedupe((0, 1)),)))
    task.entry(piece(row(1), row(2)))
    task.new_attempt()
    task.entry(piece(row(2), row(3)), piece(row(1), input=1), piece([], input=2))
    assert len(task.values) == 5
    assert len(task.state.held) == 2


def test_a_row_without_lineage_is_bad():
    task = Task(Chain((Dedupe(),)))
    other = ("other", b"t/0/9/0")
    task.entry(
        piece(
            [],
            [other],
            [(LINEAGE_HEADER, b"\xff")],
            [(LINEAGE_HEADER, b"x")],
            row(1),
            [other, row(2).header()],
        )
    )
    assert task.values == [b"4", b"5"]
    assert [side[2] for side in task.side] == [b"0", b"1", b"2", b"3"]
    assert "semel-lineage" in task.side[0][3]
    plain = Task(Chain((Dedupe(),)))
    plain.entry(raw_piece(None, [b"a"]))
    assert not plain.values and len(plain.side) == 1


def test_the_last_of_several_lineages_counts():
    assert once([row(1).header(), row(5).header()], [row(6).header(), row(5).header()]) == [b"0"]


def test_marks_are_bounded(monkeypatch):
    monkeypatch.setattr(lineage, "SOURCES_MAX", 3)
    with pytest.raises(StepFailed, match="more than 3 source partitions"):
        once(*(row(0, partition=partition) for partition in range(4)))


@st.composite
def written(draw: Any) -> list[Lineage]:
    """What a writer stores that begins again, any number of times, at a row that it has stored or at the next."""
    source = [
        row(offset, index, partition) for partition in (0, 1) for offset in range(4) for index in range(2)
    ]
    out: list[Lineage] = []
    for partition in (0, 1):
        mine = [each for each in source if each.partition == partition]
        begin = 0
        stored: list[Lineage] = []
        for end in [*draw(st.lists(st.integers(0, len(mine)), max_size=4)), len(mine)]:
            stored += mine[begin:end]
            begin = draw(st.integers(0, max(begin, end)))
        stored += mine[begin:]
        out += stored
    order = draw(st.permutations(range(len(out))))
    of_zero = iter([each for each in out if each.partition == 0])
    of_one = iter([each for each in out if each.partition == 1])
    return [next(of_zero if out[place].partition == 0 else of_one) for place in order]


@given(written(), st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)))
def test_each_row_is_taken_once_however_the_writer_began_again(stored, entries, attempts):
    task = Task(Chain((Dedupe(),)))
    taken: list[Lineage] = []
    for number, part in enumerate(cut(stored, sorted(entries))):
        if number in attempts:
            task.new_attempt()
        before = len(task.values)
        task.entry(piece(*part))
        taken += [part[int(value or b"")] for value in task.values[before:]]
    wanted = [
        row(offset, index, partition) for partition in (0, 1) for offset in range(4) for index in range(2)
    ]
    assert sorted(map(str, taken)) == sorted(map(str, wanted))
    for partition in (0, 1):
        mine = [(each.offset, each.index) for each in taken if each.partition == partition]
        assert mine == sorted(mine)
