"""A loading program is killed and run again, each time with another batch size, linger and codec."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.loops.loader import PARTITIONS, TOPIC
from tests.loops.rounds import RoundResult, breaches, create_topic, read_back

import semel

ROWS = 60_000
KILLS_MAX = 3
RUN_TIMEOUT_S = 60.0


def producer_round(dice: random.Random) -> RoundResult:
    """One load, killed 1 to 3 times; what is stored at the end must be every number, once, in order."""
    kills = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        semel.LocalLog(Path(folder) / "log") as log,
    ):
        create_topic(log.bootstrap, TOPIC, PARTITIONS)
        for _ in range(dice.randint(1, KILLS_MAX)):
            kills += _load(log.bootstrap, Path(folder), dice, kill_after_s=dice.uniform(0.0, 0.6))
        _load(log.bootstrap, Path(folder), dice, kill_after_s=None)
        stored = read_back(log.bootstrap, TOPIC, PARTITIONS)
    expected = {partition: range(partition, ROWS, PARTITIONS) for partition in range(PARTITIONS)}
    return RoundResult(rows=ROWS, kills=kills, breaches=breaches(stored, expected=expected))


def _load(bootstrap: str, folder: Path, dice: random.Random, *, kill_after_s: float | None) -> int:
    """Run the loader, to the end or to a kill that many seconds into its loading; the kills dealt: 0 or 1."""
    batch_bytes = dice.choice([1_000, 16_384, 200_000])
    settings = (str(batch_bytes), str(dice.choice([0, 2, 10])), dice.choice(["none", "lz4", "zstd"]))
    arguments = (bootstrap, str(folder / "store"), str(ROWS), *settings)
    command = [sys.executable, "-m", "tests.loops.loader", *arguments]
    loader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with loader:
        assert loader.stdout is not None and loader.stderr is not None
        assert loader.stdout.readline() == "loading\n", loader.stderr.read()
        try:
            loader.wait(kill_after_s if kill_after_s is not None else RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            loader.kill()
            if kill_after_s is None:
                raise
            return 1
        assert loader.returncode == 0, loader.stderr.read()
    return 0
