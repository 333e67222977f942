"""What has to be true: of each decision, and of each state as it stands."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from tools.model.config import Config
from tools.model.explore import Step
from tools.model.merge_log import Log, read
from tools.model.state import Pairs, run
from tools.model.world import World


@lru_cache(maxsize=100_000)
def _replay(config: Config, partition: int, log: Log, end: int, life: int) -> tuple[Pairs, tuple[Any, ...]]:
    """State and output of the recorded entries below ``end``, one by one."""
    ruled = replace(config, without=frozenset(), changes_of=(0,))
    inputs = config.inputs[partition]
    state: Pairs = ()
    output: list[Any] = []
    for entry in read(log, 0, len(inputs), config).entries:
        if entry[0] < end:
            made = run(ruled, inputs, state, (entry,), begin=0, end=0, life=life)
            state = made.state
            output += [content for log_name, content in made.messages if log_name == "output"]
    return state, tuple(output)


def judged(world: World, config: Config, partitions: tuple[int, ...]) -> str | None:
    """Whether what was decided just now is the replay of what is recorded."""
    if len(config.changes_of) > 1:
        return None
    for partition in partitions:
        decided = world.decided[partition]
        state, output = _replay(config, partition, world.merge[partition], decided.end, decided.life)
        if _counted(decided.whole) != _counted(state):
            return "decided state"
        if world.output[partition][decided.life_from : decided.output_end] != output:
            return "decided output"
    return None


def _counted(state: Pairs) -> Pairs:
    return tuple((key, value) for key, value in state if key in "abc")


def _holder(world: World) -> int | None:
    """The driver that is to get through: the newest one, as long as it has not taken the sink; else who holds it."""
    for number in reversed(range(len(world.drivers))):
        driver = world.drivers[number]
        if driver.pc in ("read", "fence"):
            return number
    for number, driver in enumerate(world.drivers):
        if world.fence in (driver.epoch, driver.run_epoch):
            return number
    return None


def check(world: World, config: Config, possible: list[Step]) -> str | None:
    """What is wrong with this state as it stands."""
    number = _holder(world)
    if number is None:
        return None
    driver = world.drivers[number]
    if driver.pc == "done":
        return None if len(config.changes_of) > 1 else _all_counted(world, config)
    if driver.error is not None:
        warranted = {"killed"}
        if len(config.changes_of) > 1 and config.holds("order within an entry"):
            warranted.add("not deterministic")
        return None if driver.error in warranted else f"false error: {driver.error}"
    if not any(step.label.startswith(f"D{number}") for step in possible):
        return "stuck"
    return None


def ending(world: World) -> str:
    """How the driver came out that is to get through."""
    number = _holder(world)
    driver = None if number is None else world.drivers[number]
    if driver is None:
        return "nobody holds the sink"
    return driver.error or ("all read" if driver.pc == "done" else driver.pc)


def _all_counted(world: World, config: Config) -> str | None:
    """Every row once in the decided state; with lineage every row that is no repeat."""
    if config.keep != "all":
        return None
    for inputs, decided in zip(config.inputs, world.decided, strict=True):
        counted = sorted(row[:2] for key, rows in decided.whole if key in "abc" for row in rows)
        if config.has_lineage:
            there = sorted({(source, lineage) for source, rows in enumerate(inputs) for lineage in rows})
            counted = sorted((source, inputs[source][place]) for source, place in counted)
        else:
            there = [(source, place) for source, rows in enumerate(inputs) for place in range(len(rows))]
        if counted != there:
            return "rows counted"
    return None
