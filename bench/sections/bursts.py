"""Two contenders in pairs of short bursts, for differences of a few percent.

They are looked for on a machine whose speed moves by more than that from one second to the next. So connections
stay open, the contenders take turns in bursts of some hundredths of a second, and what counts is the server's own
processor time. A page says how sure the middle of the pairs is.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.figures import interval_of_median
from bench.load import Load
from bench.load.__main__ import drive
from bench.load.connections import ProduceConnection
from bench.pinning import LOAD_CPUS, SERVER_CPU, pin_process
from bench.servers import Server

PAIRS_A_ROUND = 40
_WARM_UP_S_MAX = 3.0  # there is no JVM here


@dataclass(frozen=True, slots=True)
class Side:
    """One contender: a server, and who writes to it; the other may be the same server with other writers."""

    server: Server
    connections: Sequence[ProduceConnection]

    @classmethod
    def of(cls, server: Server, load: Load) -> Side:
        """Writers who are connected, and have sent nothing yet."""
        return cls(
            server, [ProduceConnection(server.bootstrap, load, number) for number in range(load.connections)]
        )

    def cost_us(self, burst: int) -> float:
        """The server's processor time for one request, over ``burst`` of them on each connection."""
        for each in self.connections:
            each.allow(burst)
        cpu_s = self.server.cpu_s
        drive(self.connections, 0)
        return 1e6 * (self.server.cpu_s - cpu_s) / (burst * len(self.connections))

    def close(self) -> None:
        for each in self.connections:
            each.sock.close()


def in_pairs(
    sides: Mapping[str, Side], *, pairs: int, burst: int, warm_up_s: float = 0.0
) -> dict[str, list[float]]:
    """What a request cost the server in each pair of bursts, by contender, in microseconds.

    A B B A, then B A A B: whatever drifts meanwhile, drifts for both.
    """
    warm_at_s = time.monotonic() + min(warm_up_s, _WARM_UP_S_MAX)
    while time.monotonic() < warm_at_s:
        for side in sides.values():
            side.cost_us(burst)
    costs_us: dict[str, list[float]] = defaultdict(list)
    for number in range(pairs):
        os.sync()
        first, second = sides if number % 2 == 0 else reversed(list(sides))
        of_pair: dict[str, float] = defaultdict(float)
        for name in (first, second, second, first):
            of_pair[name] += sides[name].cost_us(burst) / 2
        for name, cost_us in of_pair.items():
            costs_us[name].append(cost_us)
    return costs_us


@contextmanager
def generating_here() -> Iterator[None]:
    """This process is the load generator: on the load's core, and without a collector's pauses."""
    pin_process(os.getpid(), LOAD_CPUS[0])
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        pin_process(os.getpid(), SERVER_CPU, *LOAD_CPUS)


def note(work: str, baseline_us: Sequence[float], other_us: Sequence[float], *, both: tuple[str, str]) -> str:
    """How much more a request costs the other contender; ``both`` says of each what it is."""
    pairs = list(zip(baseline_us, other_us, strict=True))
    more_us = interval_of_median([its - other for other, its in pairs])
    share = interval_of_median([100 * (its / other - 1) for other, its in pairs])
    return (
        f"{work}: a request costs {statistics.median(baseline_us):.1f} µs of processor time {both[0]}, and "
        f"{more_us.median:.2f} µs more {both[1]} ({more_us.least:.2f} to {more_us.greatest:.2f}): "
        f"{share.median:.1f} % ({share.least:.1f} to {share.greatest:.1f}); here the brackets hold the median "
        f"with a certainty of 95 %, by {len(pairs)} pairs"
    )
