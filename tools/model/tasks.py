"""What an attempt of a task does: it finds the decided state, folds its entries and writes."""

from __future__ import annotations

from typing import Any

from tools.model.config import Config
from tools.model.explore import Step
from tools.model.merge_log import read
from tools.model.state import META, Pairs, Store, base_of, is_inline, run
from tools.model.world import Attempt, Driver, World, put


def attempt_steps(world: World, config: Config, number: int, attempt: Attempt, out: list[Step]) -> None:
    twin = sum(
        (other.driver, other.partition, other.range) == (attempt.driver, attempt.partition, attempt.range)
        for other in world.attempts[:number]
    )
    name = f"D{attempt.driver}'s task {attempt.partition} of {attempt.range[0]}..{attempt.range[1]}"
    name += f", attempt {twin + 1}," if twin else ""

    def go(label: str, after: World = world, violation: str | None = None, **changes: Any) -> None:
        changed = attempt._replace(**changes)
        if changed.pc == "write" and changed.done == len(changed.rows):
            changed = changed._replace(pc="over")
            after, label = _reported(after, changed), f"{label}, has done all"
        if changed.pc == "over":  # nothing of it matters any more
            changed = changed._replace(rows=(), done=0, result=None)
        out.append(
            Step(f"{name} {label}", after._replace(attempts=put(after.attempts, number, changed)), violation)
        )

    def stop(label: str, why: str, after: World = world) -> None:
        driver = after.drivers[attempt.driver]
        if driver.pc == "run" and _is_of(driver, attempt) and not driver.error:
            after = after._replace(drivers=put(after.drivers, attempt.driver, driver._replace(error=why)))
        go(label, after, pc="over")

    if attempt.pc == "write":
        _write(world, config, attempt, go, stop)
    else:
        _open(world, config, attempt, go, stop)


def _is_of(driver: Driver, attempt: Attempt) -> bool:
    return driver.run_epoch == attempt.run_epoch and driver.plan[
        attempt.partition : attempt.partition + 1
    ] == (attempt.range,)


def _reported(world: World, attempt: Attempt) -> World:
    driver = world.drivers[attempt.driver]
    told = dict(driver.reports)
    if driver.pc != "run" or driver.error or not _is_of(driver, attempt) or attempt.partition in told:
        return world
    assert attempt.result is not None
    told[attempt.partition] = attempt.result
    busy = sum(begin < end for begin, end in driver.plan)
    driver = driver._replace(
        reports=tuple(sorted(told.items())), pc="commit" if len(told) == busy else driver.pc
    )
    return world._replace(drivers=put(world.drivers, attempt.driver, driver))


def _open(world: World, config: Config, attempt: Attempt, go: Any, stop: Any) -> Any:
    """Finds the decided state. The rows are written once its entries are folded."""
    partition, decided = attempt.partition, attempt.decided
    store, changelog = world.store[partition], world.changelog[partition]
    if attempt.pc == "opened":
        assert store is not None
        return _fold(world, config, attempt, store.state, go)
    if world.left.elsewhere and store is not None and decided.inline is None:
        based = base_of(config, decided, changelog, None)
        if based is not None:
            left = world.left._replace(elsewhere=world.left.elsewhere - 1)
            _fold(world._replace(left=left), config, attempt, based[0], go, is_elsewhere=True)
    based = base_of(config, decided, changelog, store)
    if based is None:
        return stop("finds the changelog trimmed, stops", "trimmed")
    base, opened = based
    after = world._replace(store=put(world.store, partition, opened))
    if opened is not None and opened != store and not config.holds("tag and rows together"):
        torn = opened._replace(state=() if store is None else store.state)
        killed = world._replace(store=put(world.store, partition, torn))
        stop("writes the store's tag and dies", "killed", killed)
    if not config.holds("one snapshot of the store") and decided.inline is None:
        return go("sees that the store is as of its decision", after, pc="opened")
    return _fold(after, config, attempt, base, go)


def _fold(
    world: World, config: Config, attempt: Attempt, base: Pairs, go: Any, is_elsewhere: bool = False
) -> None:
    """Reads the entries of its range, and makes all that it will write of them."""
    partition, decided = attempt.partition, attempt.decided
    store, changelog = world.store[partition], world.changelog[partition]
    left_over = None
    if world.memory[partition] is not None:
        if config.holds("tasks start from the decision"):
            left_over = world.memory[partition]
        else:
            base = world.memory[partition]
    begin, end = attempt.range
    inputs = config.inputs[partition]
    entries = read(world.merge[partition][:end], begin, len(inputs), config).entries
    recorded = read(world.merge[partition], 0, len(inputs), config).entries
    violation = None
    if entries != tuple((offset, entry) for offset, entry in recorded if begin <= offset < end):
        violation = "read otherwise"
    elif _without_meta(base) != _without_meta(decided.whole):
        violation = "wrong start"
    for version in config.changes_of:
        made = run(
            config,
            inputs,
            base,
            entries,
            begin=begin,
            end=end,
            version=version,
            life=decided.life,
            left_over=left_over,
        )
        counts = {"output": decided.output_end, "changelog": decided.changelog_end}
        rows = []
        for log, content in made.messages:
            rows.append((log, counts[log], content))
            counts[log] += 1
        named_from = decided.changelog_end
        if not config.holds("snapshots are named from below"):
            named_from = changelog[0] + len(changelog[1])
        is_whole = is_inline(made.state)
        result = decided._replace(
            end=end,
            inline=made.state if is_whole else None,
            changelog_from=named_from if made.snapshot_begun else decided.changelog_from,
            digest=made.digest,
            born=decided.born or attempt.run_epoch,
            output_end=counts["output"],
            changelog_end=counts["changelog"],
            changelog_top=max(counts["changelog"], changelog[0] + len(changelog[1])),
            whole=made.state,
        )
        memory = world.memory
        if made.marks is not None:
            memory = put(memory, partition, made.marks)
        if not config.holds("tasks start from the decision"):
            memory = put(memory, partition, made.state)
        stores = [store]
        if config.has_store and not is_whole and not is_elsewhere:
            if not config.holds("overlays apart"):
                stores = [Store(end, result.born, made.state, counts["changelog"])]
            elif store is not None and decided.inline is None:
                stores.append(store._replace(pending=(begin, end, made.digest, made.changes)))
        for left in stores:
            after = world._replace(memory=memory, store=put(world.store, partition, left))
            label = "on another executor " if is_elsewhere else ""
            label += f"folds entries {[offset for offset, _ in entries]}"
            label += f" (makes version {version})" if len(config.changes_of) > 1 else ""
            label += ", leaves its changes in the store" if left is not store else ""
            go(label, after, violation, pc="write", rows=tuple(rows), result=result)


def _without_meta(state: Pairs) -> Pairs:
    return tuple((key, value) for key, value in state if key != META)


def _write(world: World, config: Config, attempt: Attempt, go: Any, stop: Any) -> Any:
    partition = attempt.partition
    log, index, content = attempt.rows[attempt.done]
    if attempt.run_epoch < world.writer_epoch:
        return stop("is fenced", "fenced")
    if log == "output":
        start, there = 0, world.output[partition]
    else:
        start, there = world.changelog[partition]
    if index < start:
        return go(f"finds its {log} row {index} trimmed, and so decided", done=attempt.done + 1)
    if index < start + len(there):
        if there[index - start] != content and not config.compactions:
            return stop(f"meets another {log} row {index}: NonDeterministicReplay", "not deterministic")
        return go(f"meets its {log} row {index}", done=attempt.done + 1)
    if index > start + len(there):
        return stop("leaves a gap", "gap")
    if world.decided[partition].end > attempt.decided.end:
        return stop("is late: its micro-batch is decided", "late")
    there = (*there, content)
    if log == "output":
        after = world._replace(output=put(world.output, partition, there))
    else:
        after = world._replace(changelog=put(world.changelog, partition, (start, there)))
    return go(f"writes {log} row {index}: {content}", after, done=attempt.done + 1)
