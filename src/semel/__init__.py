"""semel: event streams that arrive exactly once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from semel import aio, errors
    from semel.client.admin import Admin
    from semel.client.consumer import Consumer
    from semel.client.identity import CommittedIdentity
    from semel.client.producer import Producer
    from semel.core.client.saved import SavedIdentity
    from semel.local import LocalLog
    from semel.types import TopicPartition

__all__ = [
    "Admin",
    "CommittedIdentity",
    "Consumer",
    "LocalLog",
    "Producer",
    "SavedIdentity",
    "TopicPartition",
    "__version__",
    "aio",
    "errors",
]

# Imported at first use: the server and the command line start without the client, and the other way round.
_HOMES = {
    "Admin": "semel.client.admin",
    "CommittedIdentity": "semel.client.identity",
    "Consumer": "semel.client.consumer",
    "Producer": "semel.client.producer",
    "LocalLog": "semel.local",
    "TopicPartition": "semel.types",
    "SavedIdentity": "semel.core.client.saved",
    "aio": "",
    "errors": "",
}


def __dir__() -> list[str]:
    """What completion shows: the public names, also those that are not imported yet, and no modules of ours."""
    return sorted(__all__)


if not TYPE_CHECKING:  # to a type checker every misspelled name would be there

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'semel' has no attribute {name!r}")
        return getattr(import_module(home), name) if home else import_module(f"semel.{name}")
