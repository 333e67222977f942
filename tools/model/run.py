"""The tables: each rule left out gives its shortest counter-example, the whole protocol gives none.

A table of its own says that the searches are not empty: each of the whole protocol has to come to ends where all is
read and decided. Where a rule is backed by another, both are left out; the line says which.

Not modelled: the sequenced sink's own steps (they are taken as proven), loss of what is stored, inputs that go, come
or grow, bounds of entries and of state, windows and joins (a fold that keeps the order stands for them), several
stages, and what Apache Kafka forgets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Final

from tools.model import flows
from tools.model.config import RULES, Config
from tools.model.explore import Explored, explore

SECONDS_MAX: Final = 30.0  # of one search
STATES_MAX: Final = 1_000_000

TWO_INPUTS: Final = (((0, 1), (0,)),)
TWO_PARTITIONS: Final = (((0, 1),), ((0,),))
EACH_ONE: Final = (((0,),), ((0,),))
LOGGED: Final = -1  # an ``inline_max``: all state lies in the changelog
STORED: Final[dict[str, Any]] = {
    "inputs": (((0, 1, 2, 3),),),
    "sizes": ((1,),),
    "inline_max": LOGGED,
    "has_store": True,
    "is_warm": True,
}
SNAPSHOTS: Final[dict[str, Any]] = {
    "inputs": (((0, 1, 2),),),
    "sizes": ((1,),),
    "inline_max": LOGGED,
    "changes_max": 0,
}
UNSURE: Final[dict[str, Any]] = {"changes_of": (0, 1), "keep": "last", "key_count": 2}


@dataclass(frozen=True, slots=True)
class Search:
    """One line of a table; ``wanted`` are the violations that it must find, none: it must find none."""

    name: str
    config: Config
    wanted: tuple[str, ...] = ()


def _without(*rules: str, wanted: str, **bounds: Any) -> Search:
    return Search(rules[0], Config(without=frozenset(rules), **bounds), tuple(wanted.split("|")))


MERGE_LOG: Final = [
    _without("entries follow on", wanted="a row is promised twice", lost=1, drivers=1),
    _without("validity by log order", wanted="the recorded order changes"),
    _without("heads start at the known ends", wanted="a row is promised twice"),
    _without("heads have the sink's epoch", "take over again", wanted="false error: overtaken"),
    _without("take over again", "heads have the sink's epoch", wanted="false error: overtaken"),
    _without("planners read back", wanted="read otherwise", lost=1, drivers=1),
    # Safe by itself as long as planners read back: what follows on is then known to all. It keeps a zombie from
    # using up the log before the live driver's eyes.
    _without("entries name the newest head", "planners read back", wanted="read otherwise"),
    _without("readers know what was before", wanted="read otherwise"),
    _without("recorded entries first", wanted="false error: differs"),
    _without("fence, then read", wanted="false error: differs"),
    _without("every partition moves", wanted="false error: differs", inputs=EACH_ONE, sizes=((1,),)),
    _without("one fence", wanted="false error: differs"),
    _without("the range begins at the decided end", "fence, then read", wanted="decided state"),
]
FOLDS: Final = [
    _without("emission per entry", wanted="false error: not deterministic"),
    _without(
        "order within an entry",
        wanted="false error: not deterministic",
        inputs=TWO_INPUTS,
        sizes=((2, 1),),
        changes_of=(0, 1),
    ),
    _without("mode per entry", wanted="false error: not deterministic", inline_max=0),
    _without("time is recorded", wanted="decided output", ticks=1, lost=1, drivers=1),
]
STATE: Final = [
    _without("tasks start from the decision", wanted="wrong start"),
    _without(
        "idle states are carried", wanted="wrong start", inputs=TWO_PARTITIONS, sizes=((1,),), drivers=1
    ),
    _without("decided messages only", wanted="wrong start", inline_max=LOGGED),
    _without("restores end with the decision", wanted="wrong start", inline_max=LOGGED, resets=1),
    _without("no compaction", wanted="wrong start", inline_max=LOGGED, compactions=1),
    _without("trim below decided snapshots", wanted="false error: trimmed", trims=True, **SNAPSHOTS),
    _without("snapshots are named from below", wanted="wrong start", inline_max=LOGGED),
    _without("a trimmed changelog is refused", wanted="wrong start", trims=True, **SNAPSHOTS),
]
STORE: Final = [
    _without("overlays apart", wanted="wrong start", **STORED, **UNSURE),
    _without("pending by digest", wanted="wrong start", **STORED, **UNSURE),
    _without("digest has its ends", wanted="wrong start", **STORED, **UNSURE, elsewhere=2),
    _without("pending from the tag", wanted="wrong start", **STORED, key_count=2),
    _without("tags have a birth", wanted="wrong start", inline_max=LOGGED, has_store=True, resets=1),
    _without("newer tags are rebuilt", wanted="wrong start", **STORED),
    _without("one snapshot of the store", wanted="wrong start", **STORED),
    _without("read up to the first undecided", wanted="wrong start", **STORED),
    _without("no roll across a trim", wanted="wrong start", trims=True, **STORED, changes_max=0, elsewhere=2),
    _without("tag and rows together", wanted="wrong start", inline_max=LOGGED, has_store=True),
]
SEEN_TWICE: Final = (((0, 1, 0),),)
LINEAGE: Final = [
    _without("marks are state", wanted="decided state", has_lineage=True, inputs=SEEN_TWICE),
    _without(
        "marks per source",
        wanted="decided state",
        has_lineage=True,
        inputs=TWO_INPUTS,
        sizes=((1, 0), (0, 1)),
    ),
    _without("writers keep order", wanted="rows counted", has_lineage=True, inputs=(((1, 0),),)),
]
ONE_ROW: Final[dict[str, Any]] = {"inputs": (((0,),),), "sizes": ((1,),)}
WHOLE: Final = [
    Search("one input", Config()),
    Search("two inputs", Config(inputs=TWO_INPUTS, sizes=((1, 0), (0, 1), (2, 1)))),
    Search("two partitions, one of them idle at times", Config(inputs=TWO_PARTITIONS, sizes=((1,),))),
    Search("three drivers", Config(drivers=3, **ONE_ROW)),
    Search("an append stored once more, later", Config(copies=1, sizes=((1,),))),
    Search("two appends stored once more, later", Config(copies=2, **ONE_ROW)),
    Search("an answer lost", Config(lost=1)),
    Search("TICK", Config(ticks=1)),
    Search("TICK, stored once more later", Config(ticks=1, copies=1, **ONE_ROW)),
    Search("TICK, its answer lost", Config(ticks=1, lost=1, **ONE_ROW)),
    Search(
        "heads count up, who holds the sink takes over again",
        Config(frozenset({"heads have the sink's epoch"})),
    ),
    Search("another attempt of a task", Config(twins=1)),
    Search(
        "state moves from the commit to the changelog",
        Config(inline_max=1, trims=True, has_store=True, twins=1),
    ),
    Search("changelog, snapshots, trims", Config(trims=True, **SNAPSHOTS)),
    Search("changelog, two partitions", Config(inputs=EACH_ONE, sizes=((1,),), inline_max=LOGGED)),
    Search("a reset, and another function", Config(inline_max=LOGGED, has_store=True, resets=1)),
    Search("store, two executors", Config(**STORED, elsewhere=1)),
    Search("store, snapshots, trims", Config(**STORED, elsewhere=1, trims=True, changes_max=0)),
    Search("store, three drivers", Config(**{**STORED, "inputs": (((0, 1),),)}, drivers=3, key_count=2)),
    Search(
        "store, a function that is not deterministic",
        Config(**{**STORED, "inputs": (((0, 1, 2),),)}, **UNSURE),
    ),
    Search("lineage", Config(has_lineage=True, inputs=SEEN_TWICE)),
    Search("lineage of two sources", Config(has_lineage=True, inputs=TWO_INPUTS, sizes=((1, 0), (0, 1)))),
]
TABLES: Final = {
    "merge log": MERGE_LOG,
    "folds": FOLDS,
    "state": STATE,
    "store": STORE,
    "lineage": LINEAGE,
    "whole protocol": WHOLE,
}


def search(line: Search, *, seconds_max: float = SECONDS_MAX) -> tuple[Explored, bool]:
    """What was seen, and whether that is what the line says."""
    wanted = frozenset(line.wanted)
    seen = explore(flows, line.config, states_max=STATES_MAX, seconds_max=seconds_max, wanted=wanted)
    if wanted:
        return seen, bool(seen.found.keys() & wanted)
    return seen, not seen.found and seen.is_complete and seen.endings["all read"] > 0


def main(arguments: list[str]) -> int:
    """``[-v] [WORDS]``: the lines that contain the words, or all; with ``-v`` each counter-example step by step."""
    is_verbose = "-v" in arguments
    words = " ".join(each for each in arguments if each != "-v")
    wrong = state_count = line_count = 0
    elapsed_s = 0.0
    for table, lines in TABLES.items():
        chosen = [line for line in lines if words in line.name or words == table]
        if chosen:
            sys.stdout.write(f"== {table}{'' if table == 'whole protocol' else ': left out'}\n")
        for line in chosen:
            seen, is_right = search(line)
            wrong += not is_right
            line_count += 1
            state_count += seen.state_count
            elapsed_s += seen.elapsed_s
            sys.stdout.write(_told(line, seen, is_right))
            for kind, way in seen.found.items():
                if not is_right or (is_verbose and kind in line.wanted):
                    sys.stdout.write(f"     {kind}:\n")
                    sys.stdout.writelines(
                        f"     {number:3}. {label}\n" for number, label in enumerate(way, 1)
                    )
            sys.stdout.flush()
    sys.stdout.write(
        f"{line_count} searches, {state_count:,} states, {elapsed_s:.0f} s, {wrong} not as expected\n"
    )
    return 1 if wrong or not line_count else 0


def _told(line: Search, seen: Explored, is_right: bool) -> str:
    found = ", ".join(f"{kind!r} in {len(way)} steps" for kind, way in seen.found.items()) or "nothing found"
    others = sorted(line.config.without - {line.name}) if line.wanted else []
    also = f" (and: {', '.join(others)})" if others else ""
    extent = "" if line.wanted else f", {'complete' if seen.is_complete else 'CUT'}"
    endings = ", ".join(f"{count:,} x {ending}" for ending, count in sorted(seen.endings.items()))
    if not line.wanted:
        extent += f"; ends: {endings or 'none'}"
    return (
        f"{'ok ' if is_right else 'BAD'} {line.name}{also}: {found}; "
        f"{seen.state_count:,} states, {seen.elapsed_s:.1f} s{extent}\n"
    )


def rules_left_out() -> set[str]:
    """The rules that a line of the tables leaves out by name."""
    return {line.name for lines in TABLES.values() for line in lines if line.wanted} & set(RULES)
