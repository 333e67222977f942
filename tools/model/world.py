"""All that there is in the model: what is stored, and what runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from tools.model.config import Config
from tools.model.merge_log import Entry, Head, Log, broken_order, read
from tools.model.state import Changelog, Committed, Store, run

LOG_MAX = 12  # records of a merge log: a planner that goes round in circles is stuck here
Range = tuple[int, int]


class Left(NamedTuple):
    """How often something may yet happen."""

    drivers: int
    twins: int
    copies: int
    lost: int
    ticks: int
    resets: int
    compactions: int
    elsewhere: int


class Driver(NamedTuple):
    """``pc`` is what it does next; tuples are by stage partition."""

    pc: str
    epoch: int = -1  # of its source's FENCE
    run_epoch: int = -1
    since: tuple[int, ...] = ()  # the decided ends that it began at
    at: tuple[int, ...] = ()  # planned up to
    tip: tuple[int, ...] = ()  # of the merge log, read up to
    plan: tuple[Range, ...] = ()
    ticket: tuple[Committed, ...] = ()
    reports: tuple[tuple[int, Committed], ...] = ()
    error: str | None = None


class Attempt(NamedTuple):
    """One attempt of one task; it has done ``done`` of ``rows``, which are (log, index, content)."""

    driver: int
    run_epoch: int
    partition: int
    range: Range
    decided: Committed
    pc: str = "open"  # "opened", "write", "over"
    rows: tuple[tuple[str, int, Any], ...] = ()
    done: int = 0
    result: Committed | None = None


class World(NamedTuple):
    """All that lasts, and all that runs."""

    merge: tuple[Log, ...]
    fence: int
    writer_epoch: int
    decided: tuple[Committed, ...]
    output: tuple[tuple[Any, ...], ...]
    changelog: tuple[Changelog, ...]
    store: tuple[Store | None, ...]
    memory: tuple[Any, ...]  # what a worker has left over from an attempt
    drivers: tuple[Driver, ...]
    attempts: tuple[Attempt, ...]
    network: tuple[tuple[int, Head | Entry], ...]
    left: Left


def init(config: Config) -> World:
    """Nothing has run."""
    count = len(config.inputs)
    left = Left(
        config.drivers - 1,
        config.twins,
        config.copies,
        config.lost,
        config.ticks,
        config.resets,
        config.compactions,
        config.elsewhere,
    )
    world = World(
        merge=((),) * count,
        fence=0,
        writer_epoch=0,
        decided=(Committed(),) * count,
        output=((),) * count,
        changelog=((0, ()),) * count,
        store=(None,) * count,
        memory=(None,) * count,
        drivers=(new_driver(config),),
        attempts=(),
        network=(),
        left=left,
    )
    return _warmed(world, config) if config.is_warm else world


def _warmed(world: World, config: Config) -> World:
    """All rows of the one input recorded, each as an entry; the first one decided, its state in changelog and store."""
    log = tuple(Entry(0, (row,), (row + 1,)) for row in range(len(config.inputs[0][0])))
    made = run(config, config.inputs[0], (), ((0, log[0]),), begin=0, end=1)
    output = tuple(content for log, content in made.messages if log == "output")
    changelog = tuple(content for log, content in made.messages if log == "changelog")
    count = len(changelog)
    decided = Committed(1, None, 0, made.digest, 1, len(output), count, count, whole=made.state)
    store = Store(1, 1, made.state, count) if config.has_store else None
    return world._replace(
        merge=(log,), decided=(decided,), output=(output,), changelog=((0, changelog),), store=(store,)
    )


def new_driver(config: Config) -> Driver:
    return Driver("fence" if config.holds("fence, then read") else "read")


def put(values: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return (*values[:index], value, *values[index + 1 :])


def told(record: Head | Entry) -> str:
    if isinstance(record, Head):
        return f"Head({record.epoch}) from {record.starts}"
    ranges = ", ".join(
        f"{begin}..{end}" if begin is not None else "-"
        for begin, end in zip(record.froms, record.ends, strict=True)
    )
    return f"Entry({record.epoch}: {ranges}{f', tick {record.tick}' if record.tick else ''})"


def appended(
    world: World, config: Config, partition: int, record: Head | Entry
) -> tuple[tuple[Log, ...], str | None]:
    """The merge logs with ``record``, and what that breaks."""
    before = world.merge[partition]
    inputs = len(config.inputs[partition])
    after = (*before, record)
    was, now = read(before, 0, inputs, config).entries, read(after, 0, inputs, config).entries
    broken = "the recorded order changes" if now[: len(was)] != was else broken_order(now, inputs)
    return put(world.merge, partition, after), broken
