"""Waits that are drawn: the same on every machine, and long on average as asked."""

from pathlib import Path
from random import Random

import pytest

import semel.sim
from semel.sim.world.waiting import drawn_wait_ms


def test_waits_are_these_on_every_machine() -> None:
    random = Random("waits")
    assert [drawn_wait_ms(random, 1_000) for _ in range(8)] == [3344, 282, 245, 96, 271, 166, 82, 185]


@pytest.mark.parametrize("mean_ms", [1, 30, 7_000])
def test_waits_have_their_mean_and_vary(mean_ms: int) -> None:
    random = Random(0)
    waits = [drawn_wait_ms(random, mean_ms) for _ in range(20_000)]
    assert min(waits) >= 1
    assert abs(sum(waits) / len(waits) - 1 - mean_ms) < 0.6 + 0.05 * mean_ms
    assert max(waits) > 5 * mean_ms


def test_no_part_of_the_simulator_asks_the_c_library_for_a_random_number() -> None:
    """Those of ``random`` that need a logarithm, a root or a cosine."""
    libm = ("expovariate", "gauss", "normalvariate", "lognormvariate", "betavariate", "gammavariate", "math")
    for path in Path(semel.sim.__file__).parent.rglob("*.py"):
        words = set(path.read_text().replace(".", " ").replace("(", " ").split())
        assert not words & set(libm) or path.name == "waiting.py", path
