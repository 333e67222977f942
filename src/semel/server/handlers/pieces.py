"""A request for many changes: each has a turn of its own, and those of others come in between.

The bound is Apache Kafka's (``QuorumController.MAX_RECORDS_PER_USER_OP``): there is no code at which every client asks
again for a part of what it asked. What is too much is refused whole, before anything of it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from semel.core.topics import Refused
from semel.errors import ErrorCode
from semel.server.operation import InTurn
from semel.server.storage.aside import Change

RECORDS_MAX: Final = 10_000  # a topic is one, and so is each of its partitions and settings

T = TypeVar("T")
R = TypeVar("R")


def refusal_of(records: int) -> Refused | None:
    """Why so much cannot be asked for in one request."""
    if records <= RECORDS_MAX:
        return None
    reason = f"{records} topics, partitions and settings in one request, the bound is {RECORDS_MAX}; nothing was done"
    return Refused(ErrorCode.POLICY_VIOLATION, reason)


async def in_pieces(items: Iterable[T], change: Callable[[T], Change[R]]) -> list[R]:
    """What became of each, in order."""
    return [await InTurn(partial(change, item)) for item in items]
