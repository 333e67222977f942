"""Every rule of flows is needed by the model, and the rules are enough there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tools.model import flows, invariants, run
from tools.model.config import RULES, Config
from tools.model.explore import Step, explore
from tools.model.merge_log import Entry, Head, broken_order, read

SOON = {"merge log"}
LEFT_OUT = [
    pytest.param(line, id=line.name, marks=() if table in SOON else pytest.mark.thorough)
    for table, lines in run.TABLES.items()
    for line in lines
    if line.wanted
]


def test_every_rule_is_left_out_once() -> None:
    assert run.rules_left_out() == set(RULES)


@pytest.mark.parametrize("line", LEFT_OUT)
def test_a_rule_left_out_is_missed(line: run.Search) -> None:
    seen, is_right = run.search(line, seconds_max=100)
    assert is_right, seen


@pytest.mark.thorough
@pytest.mark.parametrize("line", run.WHOLE, ids=lambda line: line.name)
def test_the_whole_protocol_has_no_counter_example(line: run.Search) -> None:
    seen, is_right = run.search(line, seconds_max=100)
    assert is_right, seen


def test_a_line_that_finds_nothing_where_it_should_is_wrong() -> None:
    _, is_right = run.search(run.Search("nothing is left out", Config(), ("a row is promised twice",)))
    assert not is_right


def test_a_line_that_is_cut_short_is_wrong() -> None:
    _, is_right = run.search(run.Search("no time", Config()), seconds_max=0)
    assert not is_right


def test_the_command_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["-v", "entries follow on"]) == 0
    told = capsys.readouterr().out
    assert "'a row is promised twice' in 5 steps" in told
    assert "  1. D0 FENCE(1), reads the decided ends (0,)" in told
    assert run.main(["no such words"]) == 1


def test_the_first_way_found_is_a_shortest_one() -> None:
    def steps(state: int, config: Any) -> list[Step]:
        return [Step(f"+{by}", state + by, "eight" if state + by == 8 else None) for by in (1, 3, 5)]

    model = SimpleNamespace(
        init=lambda config: 0,
        steps=lambda state, config: steps(state, config) if state < 8 else [],
        check=lambda state, config, steps: "seven" if state == 7 else None,
        ending=lambda state: str(state),
    )
    seen = explore(model, None, states_max=100, seconds_max=10)
    assert {kind: len(way) for kind, way in seen.found.items()} == {"eight": 2, "seven": 3}
    assert seen.is_complete
    assert set(seen.endings) == {"9", "10", "11"}
    assert not explore(model, None, states_max=3, seconds_max=10).is_complete


def test_a_copy_of_an_entry_does_not_count_and_a_late_one_neither() -> None:
    log = (
        Head(1, 0, (0,)),
        Entry(1, (0,), (2,)),
        Entry(1, (0,), (2,)),
        Head(2, 1, (2,)),
        Entry(1, (2,), (3,)),
        Entry(2, (2,), (4,)),
    )
    config = Config()
    assert [offset for offset, _ in read(log, 0, 1, config).entries] == [1, 5]
    assert read(log, 2, 1, config).entries == read(log, 0, 1, config).entries[1:]
    assert broken_order(read(log, 0, 1, config).entries, 1) is None


def test_rows_that_two_entries_promise_are_found() -> None:
    twice = ((0, Entry(1, (0,), (2,))), (1, Entry(1, (1,), (3,))))
    never = ((0, Entry(1, (0,), (2,))), (1, Entry(1, (3,), (4,))))
    assert broken_order(twice, 1) == "a row is promised twice"
    assert broken_order(never, 1) == "a row is promised to nobody"


def test_a_decision_that_is_not_the_replay_is_found() -> None:
    """The invariant itself: a decided state of other rows than recorded does not pass."""
    config = Config(is_warm=True, inline_max=run.LOGGED, inputs=(((0, 1),),))
    world = flows.init(config)
    assert invariants.judged(world, config, (0,)) is None
    wrong = world.decided[0]._replace(whole=(("a", ((0, 1, 0),)),))
    assert invariants.judged(world._replace(decided=(wrong,)), config, (0,)) == "decided state"
    assert invariants.judged(world._replace(output=((),)), config, (0,)) == "decided output"
