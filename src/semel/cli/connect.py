"""How a command gets its connection: with a patience that fits a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.client.blocking import Cluster

REQUEST_TIMEOUT_MS: Final = 10_000
GREETING_TIMEOUT_MS: Final = 2_000


def open_cluster(bootstrap: str) -> Cluster:
    """The low-level client, imported only now, once a server has answered."""
    from semel.client.blocking import Cluster

    greet(bootstrap)
    return Cluster(bootstrap, client_id="semel-cli", request_timeout_ms=REQUEST_TIMEOUT_MS)


def greet(bootstrap: str) -> None:
    """See that a server answers; :class:`~semel.errors.ConnectionLost` after ``GREETING_TIMEOUT_MS``.

    A client waits for a server that restarts, for as long as a request may take. A person who forgot to start
    one should not.
    """
    from semel.client.blocking import Cluster

    with Cluster(bootstrap, client_id="semel-cli", request_timeout_ms=GREETING_TIMEOUT_MS) as cluster:
        cluster.metadata([])
