"""A copy that stops at every one of the requests by which it changes something, in turn.

A *killed* one stops before a request or after its effect; a *paused* one goes on once another has taken over and has
come to the end.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.copy.copying import go, plan_of, put, rows
from tests.spark.mortal import Died, die, nothing
from tests.thinning import every

import semel
from semel.errors import BrokerError, ConnectionLost, ProducerFenced

REQUESTS = 11  # that change something, from the first start to the end
FIRST_WITH_AN_EPOCH = 2  # behind the journal's topic, and the epoch itself
PARTITIONS = 2


@dataclass
class Job:
    """One job, in one log or between two."""

    source: semel.LocalLog
    destination: semel.LocalLog
    where: str | None = None
    topic: str = field(default_factory=lambda: f"clicks-{uuid.uuid4().hex[:8]}")

    def __post_init__(self):
        with semel.Admin(self.source.bootstrap) as admin:
            admin.create_topic(self.topic, PARTITIONS)
        self.fill(0)

    def fill(self, first):
        for number in range(first, first + 3):
            put(self.source.bootstrap, self.topic, [b"%d-%d" % (number, row) for row in range(40)])

    def go(self, **mortality):
        ends = self.source.bootstrap, self.destination.bootstrap
        return go(plan_of(*ends, self.topic, name=self.topic, prefix="copy.", where=self.where), **mortality)[
            1
        ]

    def check(self):
        for number in range(PARTITIONS):
            sent = rows(self.source.bootstrap, self.topic, number)
            if self.where is not None:
                sent = [row for row in sent if row["value"][-1] in b"147"]
            assert sent
            assert rows(self.destination.bootstrap, f"copy.{self.topic}", number) == sent


@pytest.fixture
def job(semel_server_session):
    return Job(semel_server_session, semel_server_session)


def killed_at(step, is_sent):
    before, after = (nothing, die) if is_sent else (die, nothing)
    return {"at": step, "before": before, "after": after}


def test_there_is_no_further_request(job):
    whole = job.go(**killed_at(REQUESTS, False))
    assert whole.left == 0, whole.made
    assert {"create_topics", "init_producer_id", "produce"} <= Counter(whole.made).keys()
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("step", every(7, range(REQUESTS)))  # behind one is in front of the next
def test_killed_at_any_request(job, step, is_sent):
    with pytest.raises(Died):
        job.go(**killed_at(step, is_sent))
    job.fill(3)
    job.go()
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize("step", every(9, range(4, REQUESTS)))
def test_killed_at_any_request_with_a_condition(semel_server_session, step, is_sent):
    job = Job(semel_server_session, semel_server_session, "substr(value, -1) IN ('1', '4', '7')")
    for turn in range(3):
        with contextlib.suppress(Died):
            job.go(**killed_at(step - turn, is_sent))
        job.fill(3 * turn + 3)
    job.go()
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", every(7, range(REQUESTS)))
def test_killed_and_its_successors_killed(job, step):
    for turn, at in enumerate((step, step * 7 % REQUESTS, step * 5 % REQUESTS, 3, 9)):
        with contextlib.suppress(Died):
            job.go(**killed_at(at, at % 3 > 0))
        job.fill(3 * turn + 3)
    job.go()
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", every(7, range(REQUESTS), first=1))
def test_paused_at_any_request_while_another_takes_over(job, step):
    """The one that was paused says who has taken over, unless it comes to hold the job again itself."""

    def other() -> None:
        job.fill(3)
        job.go()

    with contextlib.suppress(ProducerFenced):
        job.go(at=step, before=other, after=nothing)
    job.check()
    job.go()
    job.check()


@pytest.mark.parametrize("is_sent", [False, True])
@pytest.mark.parametrize(
    "step", [7 if each == 7 else pytest.param(each, marks=pytest.mark.thorough) for each in range(REQUESTS)]
)
def test_cut_off_at_any_request_while_another_takes_over(job, step, is_sent):
    """Once its connection is back, it does not take the job from the newer copy: it stops, and says who that is.

    One that has no epoch yet was no older copy, and takes the job over as any first start does.
    """
    others = []

    def cut_off() -> None:
        job.fill(3)
        others.append(job.go())
        raise ConnectionLost("the network is away")

    before, after = (nothing, cut_off) if is_sent else (cut_off, nothing)
    if step < FIRST_WITH_AN_EPOCH:
        job.go(at=step, before=before, after=after)
    else:
        with pytest.raises(ProducerFenced, match="was taken over by process"):
            job.go(at=step, before=before, after=after)
    assert len(others) == 1
    job.check()
    job.go()
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", every(7, range(REQUESTS)))
def test_who_lost_its_connection_goes_on_where_nobody_came(job, step):
    def cut() -> None:
        raise ConnectionLost("cut")

    job.go(at=step, before=nothing, after=cut)
    job.check()


@pytest.mark.slow
@pytest.mark.parametrize("step", every(9, range(0, REQUESTS, 2)))
@pytest.mark.parametrize("end", ["source", "destination"])
def test_a_server_is_killed_at_a_request(semel_server_factory, step, end):
    job = Job(semel_server_factory(), semel_server_factory())

    def killed() -> None:
        getattr(job, end).crash()
        getattr(job, end).restart()

    before, after = (nothing, killed) if step % 4 else (killed, nothing)
    with contextlib.suppress(ConnectionLost, BrokerError):
        job.go(at=step, before=before, after=after)
    job.go()
    job.check()
