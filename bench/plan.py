"""How long and how often: the quick plan says what the full one says, with more noise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """``warm_up_s`` is spent on the same work before the first measurement, by each contender alike."""

    name: str
    command: str
    rounds: int
    seconds: float
    warm_up_s: float
    starts: int  # of each server, for the time to ready
    ceiling_rounds: int
    filled_requests: int  # 64 KB batches a partition, to fetch from
    memory_requests: int  # 1 MB batches a connection; of the smaller ones more
    producer_rows: int
    spark_rows: int
    tiny_batches: int


QUICK = Plan(
    name="quick",
    command="python -m bench --quick",
    rounds=1,
    seconds=1.0,
    warm_up_s=2.0,
    starts=1,
    ceiling_rounds=1,
    filled_requests=1_000,
    memory_requests=100,
    producer_rows=1_000_000,
    spark_rows=1_000_000,
    tiny_batches=15,
)
FULL = Plan(
    name="full",
    command="make bench",
    rounds=3,
    seconds=4.0,
    warm_up_s=15.0,
    starts=5,
    ceiling_rounds=2,
    filled_requests=4_000,
    memory_requests=500,
    producer_rows=3_000_000,
    spark_rows=2_000_000,
    tiny_batches=40,
)
