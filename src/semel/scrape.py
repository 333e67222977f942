"""``/metrics`` of a job, for Prometheus to scrape: what flows, copies and landing jobs serve theirs with.

Prometheus' library is imported only when metrics are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from semel.config import Address
from semel.errors import ConfigError


def serve_collector(address: str, collector: Collector) -> Callable[[], None]:
    """Serve its page on ``host:port`` until what is returned is called.

    :class:`~semel.errors.ConfigError` for what is no address, and for one that is taken.
    """
    place = Address.parse(address)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(place.port, addr=place.host, registry=registry)
    except OSError as error:
        raise ConfigError(f"cannot serve metrics on {address}: {error}. Take another address") from error

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
