"""Settings of a topic that Apache Kafka knows, and that change nothing here: checked, kept and told.

Whoever makes topics from a description, or mirrors them with their settings, could make none that has such a setting
otherwise. What semel does instead of each is in :mod:`semel.core.log.described`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_REPLICAS: Final = re.compile(r"\s*\d+\s*:\s*\d+\s*")  # partition:broker


class Kept(NamedTuple):
    """``refusal``: what is wrong with a value, or None."""

    default: str
    refusal: Callable[[str], str | None]


def whole(low: int, high: int) -> Callable[[str], str | None]:
    """The check of a whole number."""

    def refusal(text: str) -> str | None:
        try:
            value = int(text)
        except ValueError:
            return f"{text!r} is not a whole number"
        return None if low <= value <= high else f"{value} is not within {low} to {high}"

    return refusal


def boolean(text: str) -> str | None:
    """The check of a boolean: what is wrong with it, or None."""
    return None if text.strip().lower() in ("true", "false") else f"must be true or false, not {text!r}"


def _throttled(text: str) -> str | None:
    is_list = all(_REPLICAS.fullmatch(one) for one in text.split(","))
    return (
        None
        if not text.strip() or text.strip() == "*" or is_list
        else f"{text!r} is no list of partition:broker"
    )


KEPT: Final = {
    "file.delete.delay.ms": Kept("60000", whole(0, _INT64_MAX)),
    "flush.messages": Kept(str(_INT64_MAX), whole(1, _INT64_MAX)),
    "flush.ms": Kept(str(_INT64_MAX), whole(0, _INT64_MAX)),
    "follower.replication.throttled.replicas": Kept("", _throttled),
    "leader.replication.throttled.replicas": Kept("", _throttled),
    "local.retention.bytes": Kept("-2", whole(-2, _INT64_MAX)),
    "local.retention.ms": Kept("-2", whole(-2, _INT64_MAX)),
    "preallocate": Kept("false", boolean),
    "remote.log.copy.disable": Kept("false", boolean),
    "remote.log.delete.on.disable": Kept("false", boolean),
    "segment.index.bytes": Kept("10485760", whole(4, _INT32_MAX)),
    "segment.jitter.ms": Kept("0", whole(0, _INT64_MAX)),
    "unclean.leader.election.enable": Kept("false", boolean),
}
