"""How long and how often: the quick plan says what the full one says, with more noise."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """``warm_up_s`` is spent on the same work before the first measurement, by each contender alike."""

    name: str
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
    rounds=2,
    seconds=2.0,
    warm_up_s=4.0,
    starts=2,
    ceiling_rounds=1,
    filled_requests=2_000,
    memory_requests=250,
    producer_rows=1_000_000,
    spark_rows=1_000_000,
    tiny_batches=20,
)
FULL = Plan(
    name="full",
    rounds=5,
    seconds=5.0,
    warm_up_s=15.0,
    starts=5,
    ceiling_rounds=3,
    filled_requests=4_000,
    memory_requests=1_000,
    producer_rows=4_000_000,
    spark_rows=4_000_000,
    tiny_batches=60,
)
