"""How progress looks: lines where nobody draws, a table where somebody does."""

from __future__ import annotations

import io
from dataclasses import replace

from semel.flow.shown import LINES_S, Lines, LiveTable, Notebook, asides, line, size_text, table
from semel.flow.watch import Look, StageLook

SPLIT = StageLook("lines-by-word", True, 3, 12_000, 1234.4, 7)
COUNT = StageLook("count", True, 1, 90, 9.0, 0, True, 4200, 300_000, True)


def test_a_stage_in_one_line():
    assert line("f", SPLIT) == "f/lines-by-word: 1,234 rows/s, lag 7, 12,000 rows in 3 micro-batches"
    assert line("f", COUNT) == (
        "f/count: 9 rows/s, lag 0, 90 rows in 1 micro-batch, 4,200 keys, 293.0 KiB in the changelog"
    )
    assert ", 1 row in 1 micro-batch" in line("f", replace(COUNT, row_count=1))
    assert size_text(0) == "0 bytes"
    assert size_text(3 * 2**30) == "3.0 GiB"


def test_bad_and_late_rows_are_told():
    look = Look("f", (replace(SPLIT, bad_count=2), replace(COUNT, late_count=1)), {"f.bad": "it is no JSON"})
    assert ", 12,000 rows in 3 micro-batches, 2 bad" in line("f", look.stages[0])
    assert asides(look) == [
        "2 rows went to f.bad: it is no JSON",
        "1 row went to f.late: its headers say why",
    ]
    out = io.StringIO()
    lines = Lines(out)
    lines.show(look)
    lines.end()
    assert out.getvalue().splitlines()[-2:] == asides(look)
    assert asides(Look("f", (SPLIT, COUNT))) == []
    assert table(look).splitlines()[0].split() == [
        "stage",
        "rows/s",
        "rows",
        "bad",
        "lag",
        "micro-batches",
        "state",
    ]


def test_columns_are_under_each_other():
    head, first, second = table(Look("f", (SPLIT, COUNT))).splitlines()
    assert head.index("rows/s") + len("rows/s") == first.index("1,234") + len("1,234")
    assert first.endswith("-")
    assert second.endswith("4,200 keys, 293.0 KiB in the changelog")


def test_lines_come_now_and_then_and_only_where_something_moved():
    out, now = io.StringIO(), [0.0]
    lines = Lines(out, now_s=lambda: now[0])
    idle = StageLook("count", True)
    lines.show(Look("f", (idle,)))
    assert out.getvalue() == ""
    lines.show(Look("f", (SPLIT, idle)))
    assert out.getvalue().count("\n") == 1
    now[0] = LINES_S - 1
    lines.show(Look("f", (replace(SPLIT, micro_batches=4), idle)))
    assert out.getvalue().count("\n") == 1
    now[0] = LINES_S + 1
    lines.show(Look("f", (replace(SPLIT, micro_batches=5), idle)))
    assert out.getvalue().count("\n") == 2
    lines.show(Look("f", (replace(SPLIT, micro_batches=6), idle)))
    lines.end()
    lines.end()
    assert "6 micro-batches" in out.getvalue().splitlines()[-1]
    assert out.getvalue().count("\n") == 3


def test_a_notebook_s_cell_is_updated():
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    def display(data, raw, display_id):
        assert raw
        assert display_id
        shown.append(data["text/html"])
        return Handle()

    cell = Notebook(display)
    cell.show(Look("f", (replace(SPLIT, stage="<a>"),)))
    cell.show(Look("f", (SPLIT,)))
    cell.end()
    assert "&lt;a&gt;" in shown[0]
    assert "lines-by-word" in shown[1]
    assert len(shown) == 2


def test_a_live_table_leaves_the_last_look(capsys):
    live = LiveTable()
    live.show(Look("f", (SPLIT, COUNT)))
    live.show(Look("f", (replace(SPLIT, row_count=13_000), COUNT)))
    live.end()
    told = capsys.readouterr()
    assert told.out == ""
    assert "flow f" in told.err
    assert "13,000" in told.err
