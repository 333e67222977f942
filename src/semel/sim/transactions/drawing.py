"""Which seeds have transactions, and which."""

from __future__ import annotations

from random import Random
from typing import Final

from semel.sim.copies.drawing import seed_has_copies
from semel.sim.flows.drawing import seed_has_flows
from semel.sim.groups.drawing import seed_has_groups
from semel.sim.server.compaction import seed_is_compacted
from semel.sim.sinks.drawing import seed_has_sinks
from semel.sim.transactions.story import Protocol, TransactionPlan, TransactionStory
from semel.types import PRODUCER_EPOCH_MAX, ProducerGrant, TopicPartition

VETERAN_CHANCE: Final = 0.3
VETERAN_IDS_FROM: Final = 1 << 42
EPOCHS_LEFT: Final = (1, 40)  # fewer than a history takes, often
TRANSACTION_CHANCE: Final = 0.28  # of the seeds that have nothing else: one in twelve of all
PROTOCOLS: Final = (
    (Protocol.NEWER,),
    (Protocol.NEWER,),
    (Protocol.NEWER,),
    (Protocol.OLDER,),
    (Protocol.NEWER, Protocol.OLDER),
)


def seed_has_transactions(seed: int) -> bool:
    """Whether the simulation of ``seed`` has any: none that has flows, copies, groups, sinks or compaction."""
    has = Random(f"{seed}/transactions").random() < TRANSACTION_CHANCE
    return has and not (
        seed_has_flows(seed)
        or seed_has_copies(seed)
        or seed_has_groups(seed)
        or seed_has_sinks(seed)
        or seed_is_compacted(seed)
    )


def _draw_veteran(number: int, random: Random) -> ProducerGrant | None:
    """One whose epochs run out in this history."""
    if random.random() >= VETERAN_CHANCE:
        return None
    return ProducerGrant(VETERAN_IDS_FROM + number, PRODUCER_EPOCH_MAX - random.randint(*EPOCHS_LEFT))


def draw_transactions(random: Random) -> TransactionStory:
    """Two or three transactional ids, which read and write one or two topics."""
    topics = {name: random.choice((1, 2, 3)) for name in ("t0", "t1")[: random.choice((1, 2))]}
    tps = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
    protocols = random.choice(PROTOCOLS)
    config = {"segment.bytes": str(random.choice((1_200, 3_000, 20_000))), "retention.ms": "-1"}
    config["retention.bytes"] = random.choice(("-1", "-1", "-1", "6000"))
    return TransactionStory(
        plans=tuple(
            TransactionPlan(
                f"x{number}",
                f"x{number}.group",
                random.choice(tps),
                timeout_ms=random.choice((1_500, 3_000, 6_000)),
                protocols=protocols,
                rows_max=random.choice((2, 5, 9)),
                commits=random.choice((0.5, 0.75, 0.9)),
                first=_draw_veteran(number, random),
            )
            for number in range(random.choice((2, 2, 3)))
        ),
        topics=topics,
        config=config,
        committed_readers=random.choice((1, 2)),
    )
