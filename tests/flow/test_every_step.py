"""A flow whose process stops at every one of the requests by which it changes something, in turn.

All of them: its topics are made, identities raised and fenced, entries recorded in merge logs, rows and changes of
state written, decisions appended, a changelog made short. A *killed* flow stops before a request or after its effect;
a *paused* one goes on once another has taken over and finished.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import uuid
from collections import Counter, defaultdict

import pytest
from tests.flow.flowing import put, rows
from tests.spark.mortal import CHANGES, Died, MortalCluster, die, nothing
from tests.thinning import every

import semel
from semel.client.blocking import Cluster
from semel.core.flow.state import State
from semel.errors import BrokerError, ConnectionLost, ReplayDiffers, SinkFenced
from semel.flow import replayed, source, stage_state
from semel.flow.here import run_here
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts
from semel.spark.options import Connection
from semel.spark.process import SinkProcess, inside
from semel.spark.sink_log import SinkLog

pytestmark = pytest.mark.slow

NAMES = [
    f"{number:02} {'x' * 90}" for number in range(30)
]  # more than a decision takes: there is a changelog
SNAPSHOT_CHANGES_MIN = 5
TURNS = 5  # so many rows has each name
REQUESTS = 56  # that change something, from the flow's first start to its end
CUTS = Cuts(rows_max=60, entries_max=1, entry_rows_max=30)
OTHER_CUTS = Cuts(rows_max=35, entries_max=3, entry_rows_max=30)
numbers = itertools.count()


@pytest.fixture
def bootstrap(semel_server_session):
    """Of the log, where a decision log is already: the first sink of all makes it."""
    bootstrap = semel_server_session.bootstrap
    assert SinkLog(Connection(bootstrap), "any").partition
    return bootstrap


@pytest.fixture
def flow(bootstrap, monkeypatch):
    """Under a name of its own, with its input. Its snapshots come early, so that its changelog is made short."""
    monkeypatch.setattr(stage_state, "SNAPSHOT_CHANGES_MIN", SNAPSHOT_CHANGES_MIN)
    monkeypatch.setattr(
        replayed, "State", functools.partial(State, snapshot_changes_min=SNAPSHOT_CHANGES_MIN)
    )
    number = uuid.uuid4().hex[:8]
    put(bootstrap, f"names-{number}", *({"name": name} for _ in range(TURNS) for name in NAMES))
    names = source(f"names-{number}", json="name string").key_by("name", partitions=1)
    return names.count().to(f"counts-{number}")


def go(flow, bootstrap, store, cuts=CUTS, **mortality):
    """To the end, as a process of its own. ``mortality``: of its client, which is returned."""
    clusters = []

    def new_cluster(connection):
        cluster = MortalCluster(bootstrap, changes=CHANGES, **mortality) if mortality else Cluster(bootstrap)
        clusters.append(cluster)
        return cluster

    process = SinkProcess(f"process {next(numbers)}", f"family {uuid.uuid4()}", new_cluster=new_cluster)
    try:
        with inside(process):
            run_here(flow.plan(), bootstrap, store=store, until_idle=True, cuts=cuts)
    finally:
        for cluster in clusters:
            cluster.close()
    return clusters[0]


def killed_at(step, is_answered):
    """Before the request, or after its effect."""
    before, after = (nothing, die) if is_answered else (die, nothing)
    return {"at": step, "before": before, "after": after}


def check(flow, bootstrap):
    """Each name is told each of its counts once, in their order; and all is what a replay gives."""
    told = defaultdict(list)
    for row in rows(bootstrap, *flow.plan().output_topics):
        told[row["name"]].append(row["count"])
    assert told == {name: list(range(1, TURNS + 1)) for name in NAMES}
    found = replay(flow.plan(), bootstrap)
    assert found.holds, found.text()
    assert found.is_at_rest, found.text()


def changelog_start(flow, bootstrap):
    """How far it was made short."""
    changelog = semel.TopicPartition(flow.plan().stages[-1].changelog_topic, 0)
    with semel.Admin(bootstrap) as admin:
        return admin.list_offsets({changelog: -2})[changelog].offset


def test_there_is_no_further_request(flow, bootstrap, tmp_path):
    whole = go(flow, bootstrap, tmp_path, **killed_at(REQUESTS, False))
    assert whole.left == 0
    made = Counter(whole.made)
    assert {"create_topics", "init_producer_id", "produce", "delete_records"} <= made.keys(), made
    assert changelog_start(flow, bootstrap) > 0
    check(flow, bootstrap)


# What the log has behind one request, it has in front of the next: the second form is one of the process alone.
IN_FRONT = every(24, [(step, False) for step in range(REQUESTS)])
BEHIND = every(9, [(step, True) for step in range(0, REQUESTS, 5)])


@pytest.mark.parametrize(("step", "is_answered"), IN_FRONT + BEHIND)
def test_killed_at_any_request(flow, bootstrap, tmp_path, step, is_answered):
    with pytest.raises(Died):
        go(flow, bootstrap, tmp_path, **killed_at(step, is_answered))
    go(flow, bootstrap, tmp_path if step % 2 else tmp_path / "elsewhere", OTHER_CUTS)
    check(flow, bootstrap)


@pytest.mark.parametrize("step", every(12, range(1, REQUESTS, 4)))
def test_killed_and_its_successors_killed(flow, bootstrap, tmp_path, step):
    for at in (step, step * 7 % REQUESTS, step * 5 % REQUESTS, 3, 9):
        with contextlib.suppress(Died):
            go(flow, bootstrap, tmp_path, CUTS if at % 2 else OTHER_CUTS, **killed_at(at, at % 3 > 0))
    go(flow, bootstrap, tmp_path)
    check(flow, bootstrap)


@pytest.mark.parametrize("step", every(20, range(REQUESTS), first=1))
def test_paused_at_any_request_while_another_takes_over(flow, bootstrap, tmp_path, step):
    """The one that was paused stops by itself, or finds all of its work done; it changes nothing."""

    def other() -> None:
        go(flow, bootstrap, tmp_path / "other", OTHER_CUTS)

    with contextlib.suppress(SinkFenced, ReplayDiffers):
        go(flow, bootstrap, tmp_path, at=step, before=other, after=nothing)
    check(flow, bootstrap)


@pytest.mark.parametrize("step", every(9, range(0, REQUESTS, 3)))
def test_the_server_is_killed_at_a_request(flow, bootstrap, semel_server_session, tmp_path, step):
    """The flow goes on by itself, or stops because nobody answers, and goes on when it is started again."""

    def killed() -> None:
        semel_server_session.crash()
        semel_server_session.restart()

    before, after = (nothing, killed) if step % 2 else (killed, nothing)
    with contextlib.suppress(ConnectionLost, BrokerError):
        go(flow, bootstrap, tmp_path, at=step, before=before, after=after)
    go(flow, bootstrap, tmp_path, OTHER_CUTS)
    check(flow, bootstrap)
