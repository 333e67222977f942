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
    settle_s: float  # after its start a server still loads and compiles, before it counts as idle
    ceiling_rounds: int
    filled_requests: int  # 64 KB batches a partition, to fetch from
    memory_requests: int  # 1 MB batches a connection; of the smaller ones more
    producer_rows: int
    spark_rows: int
    tiny_batches: int
    flow_rows: int
    flow_keys: int  # of the state that is restored
    known_producers: int
    seeds: int  # of the simulator
    audit_rows: int  # of each topic


QUICK = Plan(
    name="quick",
    command="python -m bench --quick",
    rounds=1,
    seconds=1.0,
    warm_up_s=1.0,
    starts=1,
    settle_s=1.0,
    ceiling_rounds=1,
    filled_requests=500,
    memory_requests=50,
    producer_rows=500_000,
    spark_rows=400_000,
    tiny_batches=12,
    flow_rows=200_000,
    flow_keys=100_000,
    known_producers=1_000_000,
    seeds=30,
    audit_rows=1_000_000,
)
FULL = Plan(
    name="full",
    command="make bench",
    rounds=3,
    seconds=3.0,
    warm_up_s=15.0,
    starts=5,
    settle_s=3.0,
    ceiling_rounds=2,
    filled_requests=4_000,
    memory_requests=400,
    producer_rows=2_000_000,
    spark_rows=2_000_000,
    tiny_batches=40,
    flow_rows=1_000_000,
    flow_keys=1_000_000,
    known_producers=1_000_000,
    seeds=60,
    audit_rows=10_000_000,
)
