"""One stateful stage as a transition system: its drivers, its tasks, and everything that stands in logs.

A driver, as the flow's shell starts it: FENCE the sink and read the decided ends; Head in the merge log; plan
entries; then the sink's own planner (FENCE, read, fence the writers, BEGIN), tasks, DECISION, trim. A new driver
may start at any moment, on no checkpoint, and the older ones may go on for ever.

The sequenced sink is taken as proven: rows of a writer stand in order and once, a fenced writer writes none, and an
attempt whose rows are there already compares them.

Violations, by the words that are looked for in the tables:

* "a row is promised ...": the entries that count do not have every row once
* "the recorded order changes": what counted no longer does, or other entries come between
* "read otherwise": a task reads others than stand recorded in its range
* "wrong start": a task starts from another state than the decided one
* "decided state", "decided output": not the replay of the recorded entries
* "rows counted": the newest driver has come to the end, and a row is in the decided state never or twice
* "stuck": the driver that holds the sink can do nothing, nor can its tasks
* "false error": it stops, and nothing warrants that
"""

from __future__ import annotations

from tools.model.config import Config
from tools.model.drivers import driver_steps
from tools.model.explore import Step
from tools.model.invariants import check, ending
from tools.model.state import Committed, compacted
from tools.model.tasks import attempt_steps
from tools.model.world import World, appended, init, new_driver, told

__all__ = ["check", "ending", "init", "steps"]


def steps(world: World, config: Config) -> list[Step]:
    """Everything that may happen next."""
    out: list[Step] = []
    for number, driver in enumerate(world.drivers):
        if driver.error is None:
            driver_steps(world, config, number, driver, out)
    for number, attempt in enumerate(world.attempts):
        if attempt.pc != "over":
            attempt_steps(world, config, number, attempt, out)
    for number, (partition, record) in enumerate(world.network):
        merge, broken = appended(world, config, partition, record)
        rest = (*world.network[:number], *world.network[number + 1 :])
        out.append(
            Step(
                f"a delayed copy of {told(record)} is stored",
                world._replace(merge=merge, network=rest),
                broken,
            )
        )
    left = world.left
    if left.drivers:
        fresh = world._replace(
            drivers=(*world.drivers, new_driver(config)), left=left._replace(drivers=left.drivers - 1)
        )
        out.append(
            Step(f"D{len(world.drivers)} starts, without a checkpoint; who ran before may go on", fresh)
        )
    if left.resets and any(each.end for each in world.decided):
        out.append(Step("the sink is reset, and the function changed", _reset(world)))
    if left.compactions and not config.holds("no compaction"):
        cleaned = tuple(compacted(each) for each in world.changelog)
        if cleaned != world.changelog:
            after = world._replace(changelog=cleaned, left=left._replace(compactions=left.compactions - 1))
            out.append(Step("the log cleaner compacts the changelog", after))
    return out


def _reset(world: World) -> World:
    fresh = tuple(
        Committed(
            output_end=len(world.output[number]),
            changelog_end=world.changelog[number][0] + len(world.changelog[number][1]),
            changelog_top=world.changelog[number][0] + len(world.changelog[number][1]),
            life_from=len(world.output[number]),
            life=each.life + 1,
        )
        for number, each in enumerate(world.decided)
    )
    epoch = world.fence + 1
    left = world.left._replace(resets=world.left.resets - 1)
    return world._replace(decided=fresh, fence=epoch, writer_epoch=epoch, left=left)
