"""Any flow of Python's steps, killed at any row and cut in any way, has done what a replay of its records does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.flow.flowing import put

from semel.flow import Flow, Keyed, Stream, flow, source
from semel.flow.here import run_here
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts

COLUMNS = "user string, n int, at timestamp"
USERS = [*"abcdefg", None]
NUMBERS = count()


class KilledHere(BaseException):
    """As a kill -9: no step, and no task, can do anything about it."""


@dataclass
class Life:
    """How many rows the steps of this life still see."""

    rows_left: int = 10**9

    def see(self) -> None:
        self.rows_left -= 1
        if self.rows_left < 0:
            raise KilledHere


LIFE = Life()


def same(row):
    LIFE.see()
    return row


def is_odd(row):
    LIFE.see()
    return row.n is not None and row.n % 2 == 1


def twice(row):
    LIFE.see()
    return [row, row] if row.n is not None and row.n > 3 else []


def running(state, row):
    LIFE.see()
    total = (state or 0) + (row.n or 0)
    return total, {"user": row.user, "n": total, "at": row.at}


def seldom(state, row):
    LIFE.see()
    seen = [*(state or [])[-3:], row.n]
    return seen, (
        [{"user": row.user, "n": sum(n or 0 for n in seen), "at": row.at}] if len(seen) == 4 else []
    )


@dataclass
class Builder:
    """Grows a flow of steps that need no Spark."""

    draw: Callable[..., Any]
    name: str
    grown: list[Stream] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    steps: Any = field(default_factory=count)

    def pick(self) -> Stream:
        back = self.draw(st.sampled_from([1, 1, 2, len(self.grown)]))
        return self.grown[-min(back, len(self.grown))]

    def source(self) -> None:
        self.sources.append(f"{self.name}-in{next(self.steps)}")
        self.grown.append(source(self.sources[-1], json=COLUMNS))

    def stateless(self) -> None:
        of, verb = self.pick(), self.draw(st.sampled_from(["map", "filter", "flat_map"]))
        match verb:
            case "map":
                self.grown.append(of.map(same, schema=COLUMNS))
            case "filter":
                self.grown.append(of.filter(is_odd))
            case _:
                self.grown.append(of.flat_map(twice, schema=COLUMNS))

    def keyed(self) -> Keyed:
        of = self.pick()
        return of.named(f"s{next(self.steps)}").key_by("user")

    def fold(self) -> None:
        step = self.draw(st.sampled_from([running, seldom]))
        self.grown.append(self.keyed().fold(step, schema=COLUMNS))

    def total(self) -> None:
        keyed = self.keyed()
        made = self.draw(st.sampled_from(["count", "sum", "last", "window"]))
        match made:
            case "count":
                self.grown.append(
                    keyed.count("n").map(same, schema="user string, n bigint").map(dated, schema=COLUMNS)
                )
            case "sum":
                self.grown.append(keyed.sum("n", "n2").map(dated, schema=COLUMNS))
            case "last":
                self.grown.append(keyed.last())
            case _:
                window = keyed.tumbling("10 minutes", on="at", lateness="2 minutes").count("n")
                self.grown.append(window.map(dated, schema=COLUMNS))

    def merge(self) -> None:
        one, other = self.pick(), self.pick()
        if one is not other:
            named = [each.named(f"s{next(self.steps)}").key_by("user") for each in (one, other)]
            self.grown.append(named[0].merge(named[1]).map(same, schema=COLUMNS))

    def join(self) -> None:
        table = self.pick().named(f"s{next(self.steps)}").map(extra, schema="user string, extra int")
        how = self.draw(st.sampled_from(["inner", "left"]))
        repair = self.draw(st.booleans())
        joined = self.keyed().join(table.as_table("user"), how, repair=repair)
        self.grown.append(joined.map(without_extra, schema=COLUMNS))


def dated(row):
    return {"user": row.user, "n": getattr(row, "n", 1), "at": getattr(row, "at", None)}


def extra(row):
    return {"user": row.user, "extra": row.n}


def without_extra(row):
    return {"user": row.user, "n": (row.n or 0) + (row.extra or 0), "at": row.at}


@st.composite
def flows(draw: Callable[..., Any]) -> tuple[Flow, list[str]]:
    name = f"g{next(NUMBERS)}"
    builder = Builder(draw, name)
    builder.source()
    for _ in range(draw(st.integers(1, 5))):
        getattr(
            builder, draw(st.sampled_from(["source", "stateless", "fold", "fold", "total", "merge", "join"]))
        )()
    return flow(name, builder.grown[-1].to(f"{name}-out")), builder.sources


ROWS = st.lists(
    st.tuples(st.sampled_from(USERS), st.integers(0, 9), st.integers(0, 59)).map(
        lambda row: {"user": row[0], "n": row[1], "at": f"2026-01-01T00:{row[2]:02}:00Z"}
    )
    | st.sampled_from([b"nonsense", {"n": "x"}]),
    max_size=40,
)


@pytest.mark.slow
@given(flows(), st.data())
@settings(
    max_examples=settings().max_examples // 8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_it_has_done_is_a_replay_of_its_records(semel_server_session, tmp_path, made, data):
    made_flow, sources = made
    bootstrap, plan = semel_server_session.bootstrap, made_flow.plan()
    for topic in sources:
        put(bootstrap, topic, *data.draw(ROWS), {"user": "a", "n": 1, "at": "2026-01-01T00:00:00Z"})
    for turn in range(data.draw(st.integers(1, 3))):
        cuts = Cuts(data.draw(st.integers(1, 50)), data.draw(st.integers(1, 3)))
        LIFE.rows_left = data.draw(st.integers(0, 120))
        try:
            run_here(plan, bootstrap, store=tmp_path / f"{plan.flow}-{turn}", until_idle=True, cuts=cuts)
        except KilledHere:
            pass
        put(bootstrap, data.draw(st.sampled_from(sources)), *data.draw(ROWS), {"user": "b", "n": 2})
    LIFE.rows_left = 10**9
    run_here(plan, bootstrap, store=tmp_path / f"{plan.flow}-last", until_idle=True)
    found = replay(plan, bootstrap)
    assert found.holds, found.text()
    assert found.is_at_rest, found.text()
