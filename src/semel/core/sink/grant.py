"""From a grant of the sink's identity to its FENCE, and to the knowledge that it stands.

A broker forgets names: Apache Kafka forgets a transactional id that rested for ``transactional.id.expiration.ms``
(KIP-98, ``TransactionStateManager``), and grants the name anew with another producer id at epoch 0. So a grant is
held against the FENCE before it: the same producer id and a higher epoch, else the name was forgotten. Then the next
generation begins (:mod:`semel.core.sink.epochs`), whose name nobody had before, or only who never came to a FENCE.

What counts is the FENCEs' order in the log, where each must follow the one before it
(:meth:`semel.core.sink.journal.Fence.follows`). Of two drivers that find a name forgotten at once, whatever each had
read by then, the log has one first; the other learns that by reading its own FENCE back, and asks again or stops.
"""

from __future__ import annotations

from typing import Final

from semel.core.sink.epochs import generation_of, sink_epoch_of
from semel.core.sink.history import SinkHistory
from semel.core.sink.journal import Fence
from semel.core.sink.refusal import Refusal
from semel.types import ProducerGrant

GRANTS_MAX: Final = 100  # of one take-over: each one more than three is another driver's at the same time


def generation_to_ask(history: SinkHistory) -> int:
    """Whose name to ask for first."""
    return 0 if history.fence is None else generation_of(history.fence.sink_epoch)


def fence_of(
    history: SinkHistory, generation: int, grant: ProducerGrant, owner: str, query: str = ""
) -> Fence | None:
    """The FENCE that a grant of ``generation``'s name is good for; ``None``: the name was forgotten, take the next."""
    sink_epoch = sink_epoch_of(generation, grant.producer_epoch)
    fence = Fence(history.sink_id, sink_epoch, owner, query, grant.producer_id)
    return fence if fence.follows(history.fence) else None


def stands(history: SinkHistory, fence: Fence) -> bool | Refusal:
    """With the log read up to behind ``fence``: does its driver hold the sink; ``False``: it has to ask again.

    That is where another FENCE came first with as high an epoch, of an identity that the broker had given the same
    name: the log has no order for the two but its own.
    """
    if history.fence == fence:
        return True
    return history.fenced_by_other(fence.sink_epoch) or False
