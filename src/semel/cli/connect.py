"""How a command gets its connection: with a patience that fits a person at a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from semel.cli.output import note
from semel.errors import ConnectionLost

if TYPE_CHECKING:
    from semel.client.blocking import Cluster

REQUEST_TIMEOUT_MS: Final = 10_000
GREETING_TIMEOUT_MS: Final = 2_000
_PAUSE_MS: Final = 500


def open_cluster(bootstrap: str, *, patience_ms: int = 0) -> Cluster:
    """The low-level client, imported only now, once a server has answered.

    ``patience_ms``: so long a server is waited for that is away, by what runs on its own.
    """
    from semel.client.blocking import Cluster

    await_greeting(bootstrap, patience_ms)
    return Cluster(bootstrap, client_id="semel-cli", request_timeout_ms=REQUEST_TIMEOUT_MS)


def greet(bootstrap: str) -> None:
    """See that a server answers; :class:`~semel.errors.ConnectionLost` after ``GREETING_TIMEOUT_MS``.

    A client waits for a server that restarts, for as long as a request may take. A person who forgot to start
    one should not.
    """
    from semel.client.blocking import Cluster

    with Cluster(bootstrap, client_id="semel-cli", request_timeout_ms=GREETING_TIMEOUT_MS) as cluster:
        cluster.metadata([])


def await_greeting(bootstrap: str, patience_ms: int) -> None:
    """The same for what runs on its own: a server that is away now may come, a host that is none will not."""
    deadline_s = time.monotonic() + patience_ms / 1000
    is_told = False
    while True:
        try:
            greet(bootstrap)
            return
        except ConnectionLost as error:
            if error.no_such_host or error.not_kafka or time.monotonic() >= deadline_s:
                raise
            if not is_told:
                note(f"semel: {error}; waiting for it, for {patience_ms // 1000} s at most")
                is_told = True
        time.sleep(_PAUSE_MS / 1000)
