"""``python -m tests.peers.stock_clients > docs/stock-clients.md``: drive the four, write the page."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from tests.peers.apache_kafka import JavaTool
from tests.peers.parts import Missing, find_java, find_kafka_jars
from tests.peers.stock_clients.cases import drive_all, stages
from tests.peers.stock_clients.clients import AIOKAFKA, KAFKA_PYTHON, LIBRDKAFKA, java_client
from tests.peers.stock_clients.page import page


def main() -> None:
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            raise SystemExit(f"no page without Kafka's own producer: {part.why}")
    assert isinstance(java, Path) and isinstance(jars, Path)
    logging.disable()  # what the clients make of it is the page
    with (
        tempfile.TemporaryDirectory() as folder,
        java_client(JavaTool(java, jars), Path(folder, "java.log")) as java_producer,
        stages() as on,
    ):
        clients = (java_producer, LIBRDKAFKA, AIOKAFKA, KAFKA_PYTHON)
        print(page({client: drive_all(client, on) for client in clients}), end="")


if __name__ == "__main__":
    main()
