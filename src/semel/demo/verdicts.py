"""The server's verdicts on batches, from its ``/metrics``, summed over its lives: a kill takes the counters."""

from __future__ import annotations

import re
import socket
from collections import Counter
from http.client import HTTPConnection, HTTPException
from typing import Final

from semel.errors import SemelError

_VERDICT: Final = re.compile(
    r'^semel_verdicts_total\{error="[^"]*",of="batch",verdict="([^"]+)"\} ([0-9.e+]+)$', re.MULTILINE
)
_TIMEOUT_S: Final = 10.0


def free_address() -> str:
    """An address of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class VerdictCounts:
    """Read before each kill of the server, and at the end; what it counts in between is lost with it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._earlier_lives: Counter[str] = Counter()
        self._this_life: Counter[str] = Counter()

    def read(self) -> None:
        """Take what the running server has counted."""
        connection = HTTPConnection(self._address, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        except (OSError, HTTPException) as error:
            raise SemelError(f"the server's metrics on {self._address} cannot be read: {error}") from error
        finally:
            connection.close()
        self._this_life = Counter()
        for verdict, count in _VERDICT.findall(page):
            self._this_life[verdict] += int(float(count))

    def life_is_over(self) -> None:
        """The server was killed: the next one counts from 0."""
        self._earlier_lives += self._this_life
        self._this_life = Counter()

    @property
    def duplicate_batches(self) -> int:
        """Batches that came again, and were not stored again."""
        return (self._earlier_lives + self._this_life)["Duplicate"]
