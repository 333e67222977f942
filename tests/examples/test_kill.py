"""A few rounds of killing each example; ``python -m examples.kill`` plays more."""

from __future__ import annotations

import pytest
from examples.kill import Settings, play

ROUNDS = 5


def _play(settings: Settings) -> None:
    told: list[str] = []
    outcome = play(settings, told.append)
    assert outcome.breaches == [], "\n".join(told)
    assert sum(outcome.kills.values()) == settings.rounds
    assert outcome.replay is not None


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["word_count", "sessions", "orders"])
def test_an_example_that_is_killed_in_one_process_is_exactly_once(name: str) -> None:
    _play(Settings(name, ROUNDS, where="here", delete_checkpoint=True, random_cuts=True))


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("spark")  # the session that flights are replayed in
@pytest.mark.parametrize("name", ["word_count", "flights"])
def test_an_example_that_is_killed_on_spark_and_moved_is_exactly_once(name: str) -> None:
    _play(Settings(name, ROUNDS, delete_checkpoint=True, random_cuts=True))


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_an_example_that_is_killed_on_apache_kafka_is_exactly_once() -> None:
    _play(Settings("word_count", ROUNDS, where="here", random_cuts=True, server="kafka"))
