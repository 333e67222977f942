"""Batches that nobody can read, in a flow's source: each is a row of ``<flow>.bad``, and the flow goes past it."""

from __future__ import annotations

import itertools

import pytest
from tests import poison
from tests.flow.flowing import records, rows, run

import semel
from semel.flow import source
from semel.flow.replay import replay
from semel.flow.stage_ranges import Cuts

NUMBERS = itertools.count()


def passed(topic, to):
    """Without state: plain ranges of the source."""
    return source(topic, json="n bigint").filter(lambda row: True).to(to)


def counted(topic, to):
    """With a merge log over the source itself."""
    return source(topic, json="k string", key="k").count().to(to)


def fill(bootstrap, topic):
    """Two values, three batches of which nobody can read two, and two values."""
    good = poison.good(b'{"n": 1, "k": "k"}', b'{"n": 2, "k": "k"}')
    kinds = list(poison.UNREADABLE.values())
    tp = semel.TopicPartition(topic, 0)
    poison.produce(bootstrap, tp, good, kinds[0], poison.timeless(), kinds[3], good)
    return kinds[0], kinds[3]


@pytest.mark.parametrize("flow_of", [passed, counted])
@pytest.mark.parametrize(
    "cuts", [None, Cuts(rows_max=3, entries_max=2, entry_rows_max=3)], ids=["whole", "cut"]
)
def test_it_is_laid_aside_once_and_the_flow_goes_on(semel_server_session, tmp_path, flow_of, cuts):
    bootstrap, name = semel_server_session.bootstrap, f"unreadable-in-a-flow-{next(NUMBERS)}"
    first, second = fill(bootstrap, name)
    flow = flow_of(name, f"{name}-out")
    run(flow, bootstrap, tmp_path, cuts)
    found = rows(bootstrap, f"{name}-out")
    if flow_of is passed:
        assert [row["n"] for row in found] == [1, 2, 1, 2]
    else:
        assert found[-1] == {"k": "k", "count": 4}
    bad = records(bootstrap, f"{name}-out.bad")
    headers = [{pair["key"]: pair["value"].decode() for pair in row["headers"]} for row in bad]
    assert [header["semel-at"] for header in headers] == [f"{name}/0/{offset}" for offset in (3, 4, 5, 7)]
    assert bad[0]["value"][17:] == first[17:]
    assert bad[3]["value"][17:] == second[17:]
    assert "batch of offsets 2 to 3: its producer wrote them so" in headers[0]["semel-why"]
    assert "batch of offsets 6 to 7" in headers[3]["semel-why"]
    told = replay(flow.plan(), bootstrap)
    assert told.holds and told.is_at_rest and told.is_complete, told.text()
    run(flow, bootstrap, tmp_path, cuts)
    assert len(records(bootstrap, f"{name}-out.bad")) == 4
