"""The one length of leases of servers that share their ids, as a node says it that the first of them makes.

Nobody writes it twice: whoever's write went unanswered reads what stands there, which is its own length or not.
"""

from __future__ import annotations

import json
from typing import Final

_VERSION: Final = 1


def encode_length(lease_ms: int) -> bytes:
    """What the first server writes."""
    return json.dumps({"version": _VERSION, "lease_ms": lease_ms}, separators=(",", ":")).encode()


def disagreement(content: bytes, lease_ms: int, where: str) -> str | None:
    """Why a server of leases of ``lease_ms`` cannot share ids with those of the node ``where``, if so."""
    try:
        fields = json.loads(content)
        version, shared_ms = fields["version"], fields["lease_ms"]
    except (ValueError, TypeError, KeyError):
        return f"ZooKeeper's {where} is no length of leases: {content[:100]!r}"
    if version != _VERSION or type(shared_ms) is not int or shared_ms <= 0:
        return f"ZooKeeper's {where} is of another kind: {content[:100]!r}"
    if shared_ms == lease_ms:
        return None
    return (
        f"producer.lease.ms is {lease_ms} here and {shared_ms} for the servers that share ids by ZooKeeper; "
        f"start with producer.lease.ms={shared_ms}, or change it for all: stop them, and delete {where}"
    )
