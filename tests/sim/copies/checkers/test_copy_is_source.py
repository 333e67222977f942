from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.sim.conftest import Breaks
from tests.sim.copies.smallest import log, rows, view

from semel.record.records import Record
from semel.sim.copies.checkers import CopyIsSource
from semel.sim.copies.view import CopyView

IN = rows(1, 2, 3)


def look(made: CopyView, *, ended: bool = False) -> None:
    checker = CopyIsSource()
    checker.copy_looked(made)
    if ended:
        checker.copy_ended(made)


@pytest.mark.parametrize("copied", [(), (1,), (1, 2, 3)])
def test_a_prefix_is_a_copy(copied: tuple[int, ...]) -> None:
    look(view([log(IN)], log(rows(*copied))))


@pytest.mark.parametrize("stored", [(2,), (1, 3), (1, 1), (1, 2, 3, 3), (1, 4), (2, 1)])
def test_rows_come_once_and_in_order(breaks: Breaks, stored: tuple[int, ...]) -> None:
    with breaks():
        look(view([log(IN)], log(rows(*stored))))


@pytest.mark.parametrize(
    "changed",
    [{"key": None}, {"value": b"another"}, {"timestamp_ms": 6}, {"headers": ()}],
    ids=lambda changed: next(iter(changed)),
)
def test_rows_are_unchanged(breaks: Breaks, changed: dict[str, object]) -> None:
    other: Record = IN[0]._replace(**changed)
    with breaks():
        look(view([log(IN)], log([other])))


def test_an_offset_is_no_part_of_a_row() -> None:
    look(view([log(rows(1, 2, at=7))], log(rows(1, 2))), ended=True)


def test_at_its_end_a_job_has_all_of_them(breaks: Breaks) -> None:
    look(view([log(IN)], log(IN), is_finished=True), ended=True)
    look(view([log(IN)], log(rows(1, 2)), is_finished=False), ended=True)
    with breaks():
        look(view([log(IN)], log(rows(1, 2)), is_finished=True), ended=True)
    with breaks():
        look(view([log(IN)], None, is_finished=True), ended=True)


def test_what_comes_while_the_last_copy_runs_may_be_missing(breaks: Breaks) -> None:
    source = log(rows(1, 2))
    made, checker = view([source], log(rows(1)), is_finished=True), CopyIsSource()
    checker.copy_looked(made)
    made.job.lives.append(SimpleNamespace(until_end=True))  # type: ignore[arg-type]
    source.records += rows(3, at=2)
    checker.copy_looked(made)
    with breaks():
        checker.copy_ended(made)
    made, checker = view([source := log(rows(1, 2))], log(rows(1, 2)), is_finished=True), CopyIsSource()
    checker.copy_looked(made)
    made.job.lives.append(SimpleNamespace(until_end=True))  # type: ignore[arg-type]
    source.records += rows(3, at=2)
    checker.copy_looked(made)
    checker.copy_ended(made)
    made.job.lives.append(SimpleNamespace(until_end=True))  # type: ignore[arg-type]
    checker.copy_looked(made)
    with breaks():
        checker.copy_ended(made)


def test_a_new_job_begins_behind_what_was_trimmed(breaks: Breaks) -> None:
    look(view([log(IN, may_be_gone_below=2)], log(rows(3)), is_finished=True), ended=True)
    look(view([log(IN, may_be_gone_below=3)], None, is_finished=True), ended=True)
    with breaks():
        look(view([log(IN, may_be_gone_below=1)], log(rows(3))))


def test_who_has_begun_passes_over_a_loss_only_if_told_to(breaks: Breaks) -> None:
    look(view([log(IN, may_be_gone_below=2)], log(rows(1, 3)), goes_on=True, is_finished=True), ended=True)
    with breaks():
        look(view([log(IN, may_be_gone_below=2)], log(rows(1, 3))))


def test_a_topic_that_was_made_anew_comes_behind_the_one_before(breaks: Breaks) -> None:
    both = [log(IN, may_be_deleted=True), log(rows(8, 9))]
    look(view(both, log(rows(1, 8, 9)), goes_on=True, is_finished=True), ended=True)
    look(view(both, log(rows(8, 9)), is_finished=True), ended=True)
    with breaks():
        look(view(both, log(rows(1, 8))))
    with breaks():
        look(view([log(IN), log(rows(8, 9))], log(rows(1, 8)), goes_on=True))


def test_a_request_to_the_topic_before_that_came_to_the_new_one_is_a_row_of_that() -> None:
    both = [log(IN, may_be_deleted=True), log(rows(1, 8))]
    look(view(both, log(rows(1, 8)), is_finished=True), ended=True)


def test_an_output_that_was_put_back_is_judged_at_the_end(breaks: Breaks) -> None:
    behind = log(rows(1, 3), was_put_back=True)
    look(view([log(IN)], behind), ended=True)
    with breaks():
        look(view([log(IN)], behind, is_finished=True), ended=True)


def test_what_was_put_back_and_has_grown_since_is_held_against_the_source_anew(breaks: Breaks) -> None:
    source = log(rows(1, 2, 3, 4), may_be_gone_below=3)
    for behind, is_right in (((1, 4), True), ((1, 3, 4), True), ((1, 2, 4), True), ((1, 2, 1), False)):
        checker, output = CopyIsSource(), log(rows(1, 2))
        made = view([source], output, goes_on=True, is_finished=True)
        checker.copy_looked(made)
        output.was_put_back = True
        output.forget_from(1)
        output.records[:] = rows(*behind)
        if is_right:
            checker.copy_ended(made)
        else:
            with breaks():
                checker.copy_ended(made)


def test_an_output_that_lost_its_end_is_held_against_the_source_anew(breaks: Breaks) -> None:
    checker, output = CopyIsSource(), log(IN)
    made = view([log(IN)], output)
    checker.copy_looked(made)
    output.forget_from(1)
    checker.copy_looked(made)
    output.records += rows(3, at=1)
    with breaks():
        checker.copy_looked(made)
