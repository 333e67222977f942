"""What a driver does: it takes the stage over, plans entries and micro-batches, decides and trims."""

from __future__ import annotations

from itertools import product
from typing import Any

from tools.model.config import Config
from tools.model.explore import Step
from tools.model.invariants import judged
from tools.model.merge_log import Entry, Head, Reading, read
from tools.model.state import Committed
from tools.model.world import LOG_MAX, Attempt, Driver, World, appended, put, told


def driver_steps(world: World, config: Config, number: int, driver: Driver, out: list[Step]) -> None:
    def go(label: str, after: World = world, violation: str | None = None, **changes: Any) -> None:
        changed = after._replace(drivers=put(after.drivers, number, driver._replace(**changes)))
        out.append(Step(f"D{number} {label}", changed, violation))

    ends = tuple(each.end for each in world.decided)
    match driver.pc:
        case "read":  # only where that rule is left out
            go(f"reads the decided ends {ends}", pc="fence", since=ends, at=ends)
        case "fence":
            epoch = world.fence + 1
            begins: dict[str, Any] = {"since": ends, "at": ends} if config.holds("fence, then read") else {}
            go(
                f"FENCE({epoch}){f', reads the decided ends {ends}' if begins else ''}",
                world._replace(fence=epoch),
                epoch=epoch,
                pc="tip",
                **begins,
            )
        case "tip":
            tip = tuple(len(log) for log in world.merge)
            go("reads the merge log", pc="head", tip=tip)
        case "head":
            _head(world, config, number, driver, go)
        case "plan":
            _plan(world, config, number, driver, go)
        case "begin":
            _begin(world, config, driver, go)
        case "writers":
            if world.writer_epoch > driver.run_epoch:
                go("is fenced in the outputs, stops", error="fenced")
            else:
                _start_tasks(world._replace(writer_epoch=driver.run_epoch), number, driver, go)
        case "run":
            _twin(world, number, driver, go)
        case "commit":
            _commit(world, config, driver, go)
        case "trim":
            go("trims the changelog", _trimmed(world, driver.ticket), pc="plan")


def _known(world: World, config: Config, driver: Driver, partition: int) -> Reading:
    log = world.merge[partition][: driver.tip[partition]]
    return read(log, driver.since[partition], len(config.inputs[partition]), config)


def _head(world: World, config: Config, number: int, driver: Driver, go: Any) -> None:
    """Partition by partition in one step: their logs have nothing to do with each other."""
    merge, tips, records, broken = world.merge, [], [], None
    verdicts = set()
    for partition in range(len(config.inputs)):
        known = _known(world, config, driver, partition)
        by_sink = config.holds("heads have the sink's epoch")
        record = Head(driver.epoch if by_sink else known.epoch + 1, number, known.ends)
        records.append((partition, record))
        merge, why = appended(world._replace(merge=merge), config, partition, record)
        broken = broken or why
        tips.append(len(merge[partition]))
        now = read(merge[partition], driver.since[partition], len(config.inputs[partition]), config)
        if now.owner == number and now.epoch == record.epoch:
            verdicts.add("mine")
        else:
            verdicts.add("again" if not by_sink or now.epoch <= driver.epoch else "fenced")
    label = f"appends {told(records[0][1])}"
    after = world._replace(merge=merge)
    begins: dict[str, Any] = {"tip": tuple(tips)}
    if not config.holds("recorded entries first") and driver.run_epoch < 0:
        begins["at"] = tuple(tips)
    if "fenced" in verdicts:
        go(f"{label}, is overtaken, stops", after, broken, error="fenced")
    elif "again" in verdicts and len(merge[0]) < LOG_MAX:
        go(f"{label}, which does not count", after, broken, pc="head", tip=tuple(tips))
    elif "again" not in verdicts:
        go(label, after, broken, pc="plan", **begins)
    left = world.left
    if left.lost:
        go(f"{label}, the answer is lost", after._replace(left=left._replace(lost=left.lost - 1)), broken)
    if left.copies:
        network = tuple(sorted((*world.network, *records), key=repr))
        go(
            f"sends {told(records[0][1])}, which is delayed",
            world._replace(network=network, left=left._replace(copies=left.copies - 1)),
        )


def _plan(world: World, config: Config, number: int, driver: Driver, go: Any) -> None:
    choices: list[list[int]] = []
    is_all_read = True
    for partition, inputs in enumerate(config.inputs):
        known = _known(world, config, driver, partition)
        beyond = [offset for offset, _ in known.entries if offset >= driver.at[partition]]
        stays = [] if beyond and config.holds("every partition moves") else [driver.at[partition]]
        choices.append([*stays, *(offset + 1 for offset in beyond[: config.entries_max])])
        lengths = tuple(len(rows) for rows in inputs)
        is_all_read &= known.ends == lengths and not beyond
        if len(beyond) < config.entries_max and len(world.merge[partition]) < LOG_MAX:
            for record in _new_entries(world, config, driver, known, lengths):
                _append(world, config, number, driver, partition, record, go)
    for planned in product(*choices):
        if planned == driver.at:
            continue
        plan = tuple(zip(driver.at, planned, strict=True))
        label = f"plans a micro-batch {', '.join(f'{begin}..{end}' for begin, end in plan)} of the merge log"
        pc = "begin" if driver.run_epoch < 0 else "writers"
        go(label, plan=plan, at=planned, pc=pc, reports=())
    if is_all_read:
        go("has read everything", pc="done")


def _new_entries(
    world: World, config: Config, driver: Driver, known: Reading, lengths: tuple[int, ...]
) -> list[Entry]:
    epoch = driver.epoch if config.holds("heads have the sink's epoch") else known.epoch
    entries = []
    for size in config.sizes:
        taken = [
            min(wanted, length - end) for wanted, length, end in zip(size, lengths, known.ends, strict=True)
        ]
        if any(taken):
            froms = tuple(end if count else None for end, count in zip(known.ends, taken, strict=True))
            ends = tuple(end + count for end, count in zip(known.ends, taken, strict=True))
            entries.append(Entry(epoch, froms, ends))
    if world.left.ticks:
        ticks = config.ticks - world.left.ticks + 1
        entries.append(Entry(epoch, (None,) * len(lengths), known.ends, ticks))
    return list(dict.fromkeys(entries))


def _append(
    world: World, config: Config, number: int, driver: Driver, partition: int, record: Entry, go: Any
) -> None:
    merge, broken = appended(world, config, partition, record)
    again, left = world._replace(merge=merge), world.left
    after = again._replace(left=left._replace(ticks=left.ticks - (record.tick > 0)))
    label = f"appends {told(record)}"
    tip = put(driver.tip, partition, len(merge[partition]))
    if not config.holds("planners read back"):
        # Believes the answer: its end is behind the offset that it was told.
        at = put(driver.at, partition, tip[partition])
        plan = tuple(zip(driver.at, at, strict=True))
        pc = "begin" if driver.run_epoch < 0 else "writers"
        go(f"{label} and plans it", after, broken, tip=tip, at=at, plan=plan, pc=pc, reports=())
    else:
        now = read(merge[partition], driver.since[partition], len(config.inputs[partition]), config)
        if now.epoch == record.epoch and now.owner in (number, -1):
            go(label, after, broken, tip=tip)
        elif not config.holds("take over again"):
            go(f"{label}, was overtaken in the merge log, stops", after, broken, error="overtaken")
        elif world.fence in (driver.epoch, driver.run_epoch):
            go(f"{label}, was overtaken, still holds the sink", after, broken, tip=tip, pc="tip")
        else:
            go(f"{label}, was overtaken, stops", after, broken, error="fenced")
    if left.lost:
        go(f"{label}, the answer is lost", again._replace(left=left._replace(lost=left.lost - 1)), broken)
    if left.copies:
        network = tuple(sorted((*world.network, (partition, record)), key=repr))
        go(
            f"sends {told(record)}, which is delayed",
            world._replace(network=network, left=left._replace(copies=left.copies - 1)),
        )


def _begin(world: World, config: Config, driver: Driver, go: Any) -> Any:
    """The sink's planner: a run of its own, and whether the plan goes on where the log has decided."""
    if world.fence > driver.epoch and config.holds("one fence"):
        return go("finds a newer FENCE, stops", error="fenced")
    epoch = world.fence + 1
    label, after = f"FENCE({epoch}), reads the decisions", world._replace(fence=epoch)
    begins = tuple(begin for begin, _ in driver.plan)
    if begins != tuple(each.end for each in world.decided) and config.holds(
        "the range begins at the decided end"
    ):
        return go(f"{label}: ReplayDiffers", after, error="differs", run_epoch=epoch)
    return go(label, after, run_epoch=epoch, ticket=world.decided, pc="writers")


def _start_tasks(world: World, number: int, driver: Driver, go: Any) -> None:
    tasks = tuple(
        Attempt(number, driver.run_epoch, partition, planned, driver.ticket[partition])
        for partition, planned in enumerate(driver.plan)
        if planned[0] < planned[1]
    )
    go(
        "fences the writers, BEGIN, starts its tasks",
        world._replace(attempts=world.attempts + tasks),
        pc="run",
    )


def _twin(world: World, number: int, driver: Driver, go: Any) -> None:
    if not world.left.twins:
        return
    for partition, planned in enumerate(driver.plan):
        reported = any(which == partition for which, _ in driver.reports)
        if planned[0] < planned[1] and not reported:
            twin = Attempt(number, driver.run_epoch, partition, planned, driver.ticket[partition])
            left = world.left._replace(twins=world.left.twins - 1)
            go(
                f"starts another attempt of partition {partition}",
                world._replace(attempts=(*world.attempts, twin), left=left),
            )


def _commit(world: World, config: Config, driver: Driver, go: Any) -> Any:
    if world.fence > driver.run_epoch:
        return go("finds its DECISION refused, stops", error="fenced")
    reported = dict(driver.reports)
    for number, each in enumerate(world.decided):
        if number not in reported and len(world.output[number]) > each.output_end:
            return go("ReplayDiffers: rows of a partition that has no task stand undecided", error="differs")
    early = not config.holds("trim below decided snapshots")
    if early:
        trimmed = _trimmed(world, tuple(reported.values())) if len(reported) == len(world.decided) else world
        if trimmed != world:
            return go("trims the changelog below the snapshot just written", trimmed)
    carried = world.decided
    if not config.holds("idle states are carried"):
        carried = tuple(each._replace(inline=()) for each in carried)
    decided = tuple(reported.get(number, each) for number, each in enumerate(carried))
    after = world._replace(decided=decided)
    pc = "trim" if config.trims and not early and _trimmed(after, decided) != after else "plan"
    return go(
        f"DECISION: ends {tuple(each.end for each in decided)}",
        after,
        judged(after, config, tuple(reported)),
        ticket=decided,
        plan=(),
        reports=(),
        pc=pc,
    )


def _trimmed(world: World, decided: tuple[Committed, ...]) -> World:
    logs = []
    for (start, messages), each in zip(world.changelog, decided, strict=True):
        below = max(start, each.changelog_from) if each.inline is None else start
        logs.append((below, messages[below - start :]))
    return world._replace(changelog=tuple(logs))
