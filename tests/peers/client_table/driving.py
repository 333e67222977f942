"""Each client on both servers, and the page that says what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.peers.client_table.clients import CLIENTS, Client, java_tool
from tests.peers.client_table.features import FEATURES
from tests.peers.client_table.log import Log, of_apache_kafka, of_semel
from tests.peers.client_table.page import Column, page
from tests.peers.parts import Missing


def column(client: Client, semel: Log, kafka: Log, features: Iterable[str] = FEATURES) -> Column:
    """The client on both, side by side: most of the time somebody waits for somebody."""
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(lambda log: client.probe(log, features), (semel, kafka))
    return Column(client.name, client.version(semel), *both)


def made_page(folder: Path) -> str:
    """The page, with all clients on it."""
    tool = java_tool()
    clients = [find(folder) for find in CLIENTS.values()]
    for part in (tool, *clients):
        if isinstance(part, Missing):
            raise SystemExit(f"no page without all clients: {part.why}")
    assert not isinstance(tool, Missing)
    columns = []
    with of_semel(folder) as semel, of_apache_kafka(tool, folder) as kafka:
        for client in clients:
            assert isinstance(client, Client)
            began_s = time.monotonic()
            columns.append(column(client, semel, kafka))
            print(f"{time.monotonic() - began_s:4.0f} s: {client.name}", file=sys.stderr, flush=True)
    of_kafka = next(one.version for one in columns if one.name == "Kafka's tools")
    return page(columns, of_kafka)
