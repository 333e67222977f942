"""Who works when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.plan import QUICK
from bench.sections import Bench
from bench.sections.turns import Work, take_turns


def test_contenders_take_turns_and_no_name_comes_twice() -> None:
    calls: list[tuple[str, str]] = []

    def attempt(contender: str, name: str) -> float:
        calls.append((contender, name))
        return float(len(calls))

    work = Work("run", "m/s", {who: lambda name, who=who: attempt(who, name) for who in ("hare", "tortoise")})
    plan = replace(QUICK, rounds=3, warm_up_s=0.0)
    row = take_turns(Bench(Path(), plan, lambda line: None), work)
    assert [who for who, _ in calls] == ["hare", "tortoise", "tortoise", "hare", "hare", "tortoise"]
    assert len({name for _, name in calls}) == len(calls)
    assert row.samples == {"hare": [1.0, 4.0, 5.0], "tortoise": [2.0, 3.0, 6.0]}


def test_each_is_warmed_up_before_anyone_is_measured() -> None:
    calls: list[str] = []

    def attempt(name: str) -> float:
        calls.append(name)
        return 1.0

    plan = replace(QUICK, rounds=1, warm_up_s=0.001)
    take_turns(
        Bench(Path(), plan, lambda line: None), Work("run", "m/s", {"hare": attempt, "snail": attempt})
    )
    kinds = [name.rpartition("-")[0] for name in calls]
    assert kinds[0] == "warm-up"
    assert kinds[-2:] == ["round", "round"]
    assert set(kinds[:-2]) == {"warm-up"}
