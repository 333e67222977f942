"""What the checkers are shown of a sink's rows, when not every log can be read."""

from __future__ import annotations

import pytest

from semel.core.sink.journal import SINKS_TOPIC
from semel.sim.sinks.checkers import SinkRowsOnce
from semel.sim.sinks.view import SinkView
from semel.sim.world.history import Violation
from semel.types import TopicPartition

BATCH = [(0, number) for number in range(8)]


def test_rows_of_two_names_are_told_apart_by_the_decision_log_alone(make_world):
    world = make_world()
    checkpoint = world.checkpoint()
    world.die_before_the_decision(checkpoint)
    world.story.sink_ids.append(f"{world.story.sink_id}.1")
    checkpoint = world.checkpoint("r")
    new = world.driver(checkpoint)
    world.until_committed(checkpoint, 1)
    world.finish(new)
    assert world.output() == BATCH + BATCH

    whole = SinkView(world.story, world.logs, {})
    assert (len(whole.rows), len(whole.rows_left)) == (8, 8)
    readable = {tp: batches for tp, batches in world.logs.items() if tp.topic != SINKS_TOPIC}
    lacking = SinkView(world.story, readable, {})
    assert not lacking.is_whole
    assert (len(lacking.rows), len(lacking.rows_left)) == (0, 16)
    SinkRowsOnce().sink_logs([whole, lacking])

    out = TopicPartition("out", 0)
    twice = SinkView(world.story, readable | {out: [*readable[out], readable[out][-1]]}, {})
    with pytest.raises(Violation, match="sink_rows_once"):  # of one producer id: no name explains that
        SinkRowsOnce().sink_logs([twice])
