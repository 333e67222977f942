"""The store holds decided state only: whatever it finds, a task gets the state of its ticket's decided end."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.flow.stage import ENTRIES, Entry, Stage, model

from semel.core.flow.changelog import joined
from semel.core.flow.state import Base
from semel.errors import DataLoss, ReplayUnprovable, StorageError
from semel.flow import store as stores
from semel.flow.slots import SLOTS_MAX
from semel.flow.store import PENDING_MAX, Store
from semel.types import TopicPartition

NAMES = ("flow/stage", "id-1", 3)


def store_in(folder: Path, **more: int) -> Store:
    return Store(folder, *NAMES, **more)


def everything(base: Base) -> dict[bytes, bytes]:
    return dict(base.scan(b"", None))


@dataclass
class Reading:
    """A changelog, and which parts of it were read."""

    stage: Stage
    read: list[tuple[int, int]]

    def __call__(self, from_offset: int, end_offset: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        self.read.append((from_offset, end_offset))
        for rows in self.stage.messages(from_offset, end_offset, 7):
            yield rows.keys, rows.values


def ask(store: Store, stage: Stage, end: int | None = None) -> Base:
    """The state as of a decision, the newest one if not told."""
    end = stage.decided_end if end is None else end
    decided, changelog_end = stage.decisions[end]
    return store.as_of(end, decided, changelog_end, Reading(stage, []))


def entries(count: int, first: int = 0) -> list[Entry]:
    """Each changes some of forty keys."""
    return [
        tuple(
            (b"%d" % (number * step % 40), None if number % 5 == step else b"%d" % number * 5)
            for step in range(4)
        )
        for number in range(first, first + count)
    ]


@pytest.fixture
def stage() -> Stage:
    """With a state in the changelog."""
    return Stage(inline_bytes_max=0, snapshot_changes_min=10_000).run(entries(9), [4, 9])


# --- the ways to a decided state ----------------------------------------------------------------------


def test_a_state_in_the_decision_needs_no_disk(tmp_path: Path) -> None:
    stage = Stage(inline_bytes_max=10_000).run(entries(3), [3])
    with store_in(tmp_path / "none") as store:
        assert everything(ask(store, stage, 0)) == {}
        assert everything(ask(store, stage)) == model(entries(3))
        assert store.origin == "inline"
    assert not (tmp_path / "none").exists()


def test_it_is_built_once_and_then_found(tmp_path: Path, stage: Stage) -> None:
    for origin in ("rebuilt", "found"):
        with store_in(tmp_path) as store:
            assert everything(ask(store, stage)) == model(entries(9))
            assert store.origin == origin


def test_an_older_one_is_rolled_forward_by_what_is_new(tmp_path: Path, stage: Stage) -> None:
    with store_in(tmp_path) as store:
        ask(store, stage, 4)
        decided, changelog_end = stage.decisions[9]
        reading = Reading(stage, [])
        base = store.as_of(9, decided, changelog_end, reading)
        assert store.origin == "rolled"
        assert reading.read == [(stage.decisions[4][1], changelog_end)]
        assert everything(base) == model(entries(9))
        assert base.meta == stage.base().meta


def test_a_newer_one_is_not_believed(tmp_path: Path, stage: Stage) -> None:
    with store_in(tmp_path) as store:
        ask(store, stage, 9)
        assert everything(ask(store, stage, 4)) == model(entries(4))
        assert store.origin == "rebuilt"


def test_one_of_another_life_is_not_believed(tmp_path: Path, stage: Stage) -> None:
    """The same numbers, after a reset and other inputs."""
    other = Stage(inline_bytes_max=0, snapshot_changes_min=10_000).run(entries(9, first=100), [4, 9])
    with store_in(tmp_path) as store:
        ask(store, stage)
        assert everything(ask(store, other)) == model(entries(9, first=100))
        assert store.origin == "rebuilt"
        ask(store, stage, 4)
        assert everything(ask(store, other)) == model(entries(9, first=100))  # rolling forward proves nothing
        assert store.origin == "rebuilt"


@pytest.mark.parametrize(
    "names", [("flow/other", "id-1", 3), ("flow/stage", "id-2", 3), ("flow/stage", "id-1", 4)]
)
def test_other_stages_topics_and_partitions_have_their_own(
    tmp_path: Path, stage: Stage, names: tuple[str, str, int]
) -> None:
    with store_in(tmp_path) as ours, Store(tmp_path, *names) as theirs:
        ask(ours, stage)
        ask(theirs, stage)
        assert theirs.origin == "rebuilt"


def test_entries_that_change_nothing_need_no_reading(tmp_path: Path, stage: Stage) -> None:
    with store_in(tmp_path) as store:
        ask(store, stage)
        stage.decide(*stage.attempt(stage.base(), [(), ()]), 2)
        reading = Reading(stage, [])
        store.as_of(11, stage.decided, stage.changelog_end, reading)
        assert store.origin == "found"
        assert not reading.read
        stage.decide(*stage.attempt(stage.base(), entries(1, first=50)), 1)
        assert everything(ask(store, stage)) == everything(stage.base())
        assert store.origin == "rolled"


def test_a_state_in_front_of_the_newest_snapshot_is_not_rolled_over_what_may_be_deleted(
    tmp_path: Path,
) -> None:
    stage = Stage(inline_bytes_max=0, snapshot_changes_min=0).run(entries(60), [1, 2, 58, 60])
    assert stage.decided is not None
    decided, _ = stage.decisions[1]
    assert decided is not None
    assert decided.changelog_from < stage.decided.changelog_from, "no second snapshot"
    with store_in(tmp_path) as store:
        ask(store, stage, 1)
        reading = Reading(stage, [])
        base = store.as_of(60, stage.decided, stage.changelog_end, reading)
        assert everything(base) == model(entries(60))
        assert [start for start, _ in reading.read] == [stage.decided.changelog_from]


def test_what_was_handed_out_stays_as_it_was(tmp_path: Path, stage: Stage) -> None:
    """A zombie reads on while others roll forward."""
    with store_in(tmp_path) as zombie, store_in(tmp_path) as store:
        base = ask(zombie, stage, 4)
        ask(store, stage, 4)
        ask(store, stage, 9)
        assert everything(base) == model(entries(4))


# --- pending ------------------------------------------------------------------------------------------


def test_a_finished_attempt_saves_the_reading_if_it_is_decided(tmp_path: Path, stage: Stage) -> None:
    new = entries(5, first=70)
    with store_in(tmp_path) as store:
        state, written = stage.attempt(ask(store, stage), new)
        store.keep(state, 14)
    stage.decide(state, written, 5)
    with store_in(tmp_path) as store:
        reading = Reading(stage, [])
        base = store.as_of(14, stage.decided, stage.changelog_end, reading)
        assert store.origin == "pending"
        assert not reading.read
        assert everything(base) == model(entries(9) + new)
        assert base.meta == stage.base().meta
        # And it is gone on from there, also by reading.
        stage.decide(*stage.attempt(base, entries(2, first=90)), 2)
        assert everything(ask(store, stage)) == model(entries(9) + new + entries(2, first=90))
        assert store.origin == "rolled"


def test_an_attempt_that_was_not_decided_leaves_nothing(tmp_path: Path, stage: Stage) -> None:
    """Another cut, or another attempt: what is decided counts, whatever lies beside it."""
    with store_in(tmp_path) as store:
        for count in range(1, 2 * PENDING_MAX):
            undecided, _ = stage.attempt(ask(store, stage), entries(count, first=100 * count))
            store.keep(undecided, 9 + count)
        assert everything(ask(store, stage)) == model(entries(9))
        stage.decide(*stage.attempt(ask(store, stage), entries(2, first=70)), 2)
        assert everything(ask(store, stage)) == model(entries(9) + entries(2, first=70))
        assert store.origin == "rolled"


def test_pending_changes_are_bounded(tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_in(tmp_path) as store:
        kept = [
            stage.attempt(ask(store, stage), entries(count, first=70)) for count in range(1, PENDING_MAX + 3)
        ]
        for count, (state, _) in enumerate(kept, 1):
            store.keep(state, 9 + count)
        stage.decide(*kept[-1], PENDING_MAX + 2)
        ask(store, stage)
        assert store.origin == "pending"  # the newest are kept
        monkeypatch.setattr(stores, "PENDING_BYTES_MAX", 3)
        large = stage.attempt(ask(store, stage), entries(1, first=90))
        store.keep(large[0], stage.decided_end + 1)
        stage.decide(*large, 1)
        ask(store, stage)
        assert store.origin == "rolled"


def test_nothing_is_kept_where_there_is_no_store(tmp_path: Path) -> None:
    stage = Stage(inline_bytes_max=10_000)
    with store_in(tmp_path) as store:
        state, _ = stage.attempt(ask(store, stage), entries(3))
        store.keep(state, 3)
    assert not list(tmp_path.iterdir())


# --- any course of things -----------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3)), max_size=8
)


@settings(max_examples=settings().max_examples // 2)
@given(ENTRIES, STEPS, st.integers(0, 200), st.integers(0, 8))
def test_whatever_was_there_it_is_the_state_of_the_decided_end(
    tmp_path_factory, entries, steps, inline_max, changes_min
):
    folder = tmp_path_factory.mktemp("store")
    stage = Stage(inline_max, changes_min)
    for count, is_kept, is_decided, is_closed, back in steps:
        todo = entries[stage.decided_end : stage.decided_end + count]
        store = store_in(folder)
        earlier = sorted(stage.decisions)[-back:][0]  # a zombie's ticket, maybe
        for end in (earlier, stage.decided_end):
            base = ask(store, stage, end)
            assert everything(base) == model(entries[:end])
            assert base.meta == stage.base_at(end).meta
        state, written = stage.attempt(base, todo)
        assert dict(state.scan()) == model(entries[: stage.decided_end + count])
        if is_kept:
            store.keep(state, stage.decided_end + len(todo))
        if is_decided:
            stage.decide(state, written, len(todo))
        if is_closed:
            everything(ask(store, stage))
        store.close()
    with store_in(folder) as store, store_in(folder / "fresh") as fresh:
        rolled, rebuilt = ask(store, stage), ask(fresh, stage)
        assert everything(rolled) == everything(rebuilt) == model(entries[: stage.decided_end])
        assert rolled.meta == rebuilt.meta


# --- what goes wrong ----------------------------------------------------------------------------------


def test_a_changelog_without_the_decided_state_is_told(tmp_path: Path, stage: Stage) -> None:
    decided, changelog_end = stage.decisions[9]
    assert decided is not None

    def without_the_last(from_offset: int, end_offset: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        yield from Reading(stage, [])(from_offset, end_offset - 2)

    with store_in(tmp_path) as store:
        with pytest.raises(
            ReplayUnprovable, match=r"flow/stage, partition 3.*changelog.*Nothing was written"
        ):
            store.as_of(9, decided, changelog_end, without_the_last)
        ask(store, stage, 4)
        with pytest.raises(ReplayUnprovable):
            store.as_of(9, decided, changelog_end, without_the_last)
        assert everything(ask(store, stage, 4)) == model(entries(4))
        assert store.origin == "found"


def test_an_error_of_the_reading_leaves_the_store_as_it_was(tmp_path: Path, stage: Stage) -> None:
    def trimmed(from_offset: int, end_offset: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        yield from Reading(stage, [])(from_offset, from_offset + 2)
        raise DataLoss(TopicPartition("changelog", 3), from_offset, end_offset, "trimmed")

    with store_in(tmp_path) as store:
        ask(store, stage, 4)
        with pytest.raises(DataLoss):
            store.as_of(9, *stage.decisions[9], trimmed)
        ask(store, stage, 4)
        assert store.origin == "found"


def test_a_full_map_grows(tmp_path: Path, stage: Stage) -> None:
    big = [tuple((b"%d" % number, b"x" * 900) for number in range(300))]
    stage.decide(*stage.attempt(stage.base(), big), 1)
    for _ in range(2):
        with store_in(tmp_path, map_bytes=2**16) as store:
            assert everything(ask(store, stage)) == model(entries(9) + big)


def test_a_map_that_may_not_grow_is_an_error_in_words(
    tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAP_BYTES_MAX", 2**16)
    big = [tuple((b"%d" % number, b"x" * 900) for number in range(300))]
    stage.decide(*stage.attempt(stage.base(), big), 1)
    with store_in(tmp_path, map_bytes=2**16) as store, pytest.raises(StorageError, match="nothing is lost"):
        ask(store, stage)


@pytest.mark.parametrize("damage", ["header", "cut", "tag"])
def test_a_damaged_store_is_built_anew(tmp_path: Path, stage: Stage, damage: str) -> None:
    with store_in(tmp_path) as store:
        ask(store, stage)
        if damage == "tag":
            with store._env.begin(write=True) as txn:
                txn.put(b"tag", b"\xc1")
    (database,) = tmp_path.rglob("data.mdb")
    if damage == "header":
        database.write_bytes(b"\x55" * 8192 + database.read_bytes()[8192:])
    if damage == "cut":
        os.truncate(database, database.stat().st_size - 4096)
    with store_in(tmp_path) as store:
        assert everything(ask(store, stage)) == model(entries(9))
        assert store.origin == "rebuilt"


def test_a_folder_that_is_none_is_an_error_in_words(tmp_path: Path, stage: Stage) -> None:
    (tmp_path / "file").write_text("")
    with store_in(tmp_path / "file") as store, pytest.raises(StorageError, match="nothing is lost"):
        ask(store, stage)


# --- processes ----------------------------------------------------------------------------------------

TASK = """
import pickle, resource, signal, sys, time
from pathlib import Path
from semel.flow.store import Store
from semel.errors import StorageError

folder, mode = Path(sys.argv[1]), sys.argv[2]
end, decisions, log = pickle.load(sys.stdin.buffer)
decided, changelog_end = decisions[end]

def read(from_offset, end_offset):
    for at in range(from_offset, end_offset, 3):
        rows = log.slice(at, min(3, end_offset - at))
        yield rows.column("key").combine_chunks(), rows.column("value").combine_chunks()
        if mode == "stuck":
            print("reading", flush=True)
            time.sleep(60)

if mode == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
store = Store(folder, "flow/stage", "id-1", 3)
if mode == "restless":
    print("begun", flush=True)
    while True:
        for end, (decided, changelog_end) in sorted(decisions.items())[1:]:
            store.as_of(end, decided, changelog_end, read)
try:
    base = store.as_of(end, decided, changelog_end, read)
except StorageError as error:
    print(error, flush=True)
else:
    print(store.origin, flush=True)
    if mode == "holds":
        time.sleep(60)
"""


@pytest.fixture
def task(stage: Stage, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """A task in a process of its own, which wants the state as of 9."""
    started = []

    def start(mode: str, end: int = 9) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", TASK, str(tmp_path), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(process)
        log = joined(stage.log)
        assert process.stdin is not None
        table = pa.table({"key": log.keys, "value": log.values})
        process.stdin.write(pickle.dumps((end, stage.decisions, table)))
        process.stdin.close()
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def said(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


@pytest.mark.thorough
@pytest.mark.parametrize("before", [None, 4])
def test_a_kill_in_the_middle_of_a_roll_forward_changes_nothing(tmp_path, stage, task, before) -> None:
    if before is not None:
        with store_in(tmp_path) as store:
            ask(store, stage, before)
    process = task("stuck")
    assert said(process) == "reading"
    process.send_signal(signal.SIGKILL)
    process.wait()
    with store_in(tmp_path) as store:
        if before is not None:
            assert everything(ask(store, stage, before)) == model(entries(before))
            assert store.origin == "found"
        assert everything(ask(store, stage)) == model(entries(9))


@pytest.mark.slow
def test_a_zombie_sits_on_its_copy_and_nobody_waits(tmp_path, stage, task) -> None:
    zombie = task("holds", 4)
    assert said(zombie) == "rebuilt"
    zombie.send_signal(signal.SIGSTOP)
    stuck = task("stuck")
    assert said(stuck) == "reading"
    for origin in ("rebuilt", "found"):
        with store_in(tmp_path) as store:
            assert everything(ask(store, stage)) == model(entries(9))
            assert store.origin == origin
    zombie.kill()
    zombie.wait()
    stuck.kill()
    stuck.wait()
    with store_in(tmp_path) as store:  # of three copies the newest, and the others are gone
        ask(store, stage)
        assert store.origin == "found"
        assert len(list(tmp_path.rglob("data.mdb"))) == 1


def test_no_more_than_a_few_copies(tmp_path: Path, stage: Stage) -> None:
    held = [store_in(tmp_path) for _ in range(SLOTS_MAX)]
    for store in held:
        ask(store, stage)
    with store_in(tmp_path) as store, pytest.raises(StorageError, match="End the processes that hang"):
        ask(store, stage)
    held[2].close()
    with store_in(tmp_path) as store:
        ask(store, stage)
        assert store.origin == "found"
    for store in held:
        store.close()


@pytest.mark.thorough
def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, stage, task) -> None:
    stage.decide(*stage.attempt(stage.base(), [tuple((b"%d" % n, b"x" * 900) for n in range(200))]), 1)
    with store_in(tmp_path) as store:
        ask(store, stage, 4)
    process = task("full", 10)
    told = said(process)
    process.wait()
    assert "nothing is lost" in told and "flow/stage, partition 3" in told
    with store_in(tmp_path) as store:
        ask(store, stage, 4)
        assert store.origin == "found"
        assert everything(ask(store, stage)) == everything(stage.base())


def test_a_fork_leaves_its_parents_store_alone(tmp_path: Path, stage: Stage) -> None:
    with store_in(tmp_path) as store:
        base = ask(store, stage)
        child = os.fork()
        if not child:
            code = 1
            try:
                store.close()
                with store_in(tmp_path) as own:
                    code = 0 if everything(ask(own, stage)) == model(entries(9)) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert everything(base) == model(entries(9))
        assert everything(ask(store, stage, 4)) == model(entries(4))


@pytest.mark.thorough
@pytest.mark.loops
def test_kills_at_any_moment(
    tmp_path: Path, stage: Stage, task: Callable[..., subprocess.Popen[bytes]]
) -> None:
    rng = random.Random(1)
    for _ in range(5):
        process = task("restless")
        assert said(process) == "begun"
        time.sleep(rng.uniform(0, 0.2))
        process.kill()
        process.wait()
        with store_in(tmp_path) as store:
            for end in (4, 9):
                assert everything(ask(store, stage, end)) == model(entries(end))
            assert everything(ask(store, stage, 9)) == model(entries(9))
            assert store.origin == "found"
