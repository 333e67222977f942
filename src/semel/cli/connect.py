"""How a command gets its connection: with a patience that fits a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.client.blocking import Cluster

REQUEST_TIMEOUT_MS: Final = 10_000


def open_cluster(bootstrap: str) -> Cluster:
    """The low-level client, imported only now."""
    from semel.client.blocking import Cluster

    return Cluster(bootstrap, client_id="semel-cli", request_timeout_ms=REQUEST_TIMEOUT_MS)
