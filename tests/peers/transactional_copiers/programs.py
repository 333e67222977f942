"""The clients' programs that copy in transactions, and how each is started."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.peers.apache_kafka import JavaTool
from tests.peers.transactional_copiers.copier import Copier, How, Start, ToolsCopier

_HERE: Final = Path(__file__).parent
_TRANSACTIONAL_MESSAGE_COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"


def python_copier(client: str) -> Start:
    return _started(sys.executable, "-m", "tests.peers.transactional_copiers.python", client)


def java_copier(java_tool: JavaTool) -> Start:
    return _started(*java_tool.command(str(_HERE / "Copy.java")))


def kafkajs_copier(node_path: Path) -> Start:
    environment = {"NODE_PATH": str(node_path)}
    return _started("node", str(_HERE / "kafkajs" / "copier.js"), environment=environment)


def franz_go_copier(program: Path) -> Start:
    return _started(str(program), "copy")


def tools_copier(
    java_tool: JavaTool, bootstrap: str, source: str, target: str, group: str, transactional_id: str
) -> ToolsCopier:
    """The program with which Kafka's own tests look at transactions."""
    given = ["--broker-list", bootstrap, "--input-topic", source, "--output-topic", target]
    given += ["--consumer-group", group, "--transactional-id", transactional_id, "--use-group-metadata"]
    given += ["--group-mode", "--input-partition", "-1"]  # any, but it must be told one
    given += ["--transaction-size", str(How().rows), "--enable-random-aborts"]
    return ToolsCopier(java_tool.command(_TRANSACTIONAL_MESSAGE_COPIER, *given))


def _started(*program: str, environment: Mapping[str, str] | None = None) -> Start:
    def start(
        bootstrap: str, source: str, target: str, group: str, transactional_id: str, how: How
    ) -> Copier:
        where = [bootstrap, source, target, group, transactional_id]
        return Copier([*program, *where, json.dumps(asdict(how))], environment)

    return start
