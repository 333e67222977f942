"""Which seeds have a decision log that is compacted, and how."""

from __future__ import annotations

from random import Random

from semel.core.log.config import LogConfig, parse_config
from semel.sim.campaign.simulation import Simulation
from semel.sim.flows.stories import Stories
from semel.sim.sinks.log_compaction import SinkLogCompaction, draw_sink_log, seed_sweeps
from semel.spark.sink_log import DECISION_LOG_CONFIG
from semel.types import SINKS_TOPIC


def test_sinks_sweep_in_one_seed_of_four() -> None:
    found = [seed for seed in range(2_000) if seed_sweeps(seed)]
    assert 400 <= len(found) <= 650
    for seed in found[:3]:
        stories = Simulation(seed).stories
        assert stories.sinks
        assert stories.sink_log is not None


def test_what_is_drawn_is_a_decision_logs() -> None:
    for number in range(50):
        config = parse_config(
            DECISION_LOG_CONFIG | SinkLogCompaction(Random(number)).topic_config, LogConfig()
        )
        assert isinstance(config, LogConfig)
        assert config.is_compacted
        assert config.segment_bytes < 50_000


def test_where_none_is_drawn_it_is_an_older_one_that_is_kept_whole() -> None:
    kept = next(seed for seed in range(100) if draw_sink_log(seed) is None and Simulation(seed).stories.sinks)
    (config,) = [config for topic, _, config in Simulation(kept).stories.topics if topic == SINKS_TOPIC]
    assert config["cleanup.policy"] == "delete"
    assert Stories().topics == []
