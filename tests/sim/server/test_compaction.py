from __future__ import annotations

from random import Random

from semel.core.log.config import LogConfig, parse_config
from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.server.compaction import Compaction, seed_is_compacted


def test_one_seed_in_eight_is_compacted_and_nothing_else() -> None:
    found = [seed for seed in range(2_000) if seed_is_compacted(seed)]
    assert 180 <= len(found) <= 320
    assert not any(seed_has_flows(one) or seed_has_copies(one) or seed_has_groups(one) for one in found)


def test_what_is_drawn_is_a_topics() -> None:
    for number in range(50):
        drawn = Compaction(Random(number))
        config = parse_config(drawn.topic_config, LogConfig())
        assert isinstance(config, LogConfig)
        assert config.is_compacted


def test_a_row_that_is_sent_again_says_the_same() -> None:
    one, other = Compaction(Random(7)), Compaction(Random(7))
    values = [b"p0/0:%d" % number for number in range(100)]
    assert [one.key_of(value) for value in values] == [other.key_of(value) for value in values]
    assert [one.is_tombstone(value) for value in values] == [other.is_tombstone(value) for value in values]
    assert len({one.key_of(value) for value in values}) > 1
