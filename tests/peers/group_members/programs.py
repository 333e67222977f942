"""The clients' programs that are members of a group: how each is started, and how what it prints is read."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.peers.apache_kafka import JavaTool
from tests.peers.group_members.member import Member
from tests.peers.group_members.python import HEARTBEAT_MS, SESSION_MS

_KAFKAJS_PROGRAM: Final = Path(__file__).with_name("kafkajs") / "member.js"
_VERIFIABLE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
_CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_JAVAS_ASSIGNORS: Final = "org.apache.kafka.clients.consumer"


@dataclass(frozen=True, slots=True)
class How:
    """What is asked of a member besides reading; nothing is what its client does by default."""

    cooperative: bool = False
    instance_id: str | None = None
    session_ms: int = SESSION_MS


Start: TypeAlias = Callable[[str, str, str, How], Member]  # of (bootstrap, topic, group, how)


def python_member(client: str) -> Start:
    return _json_member(sys.executable, "-m", "tests.peers.group_members.python", client)


def franz_go_member(program: Path) -> Start:
    return _json_member(str(program))


def kafkajs_member(node_path: Path) -> Start:
    """It has neither of what may be asked."""
    return _json_member("node", str(_KAFKAJS_PROGRAM), environment={"NODE_PATH": str(node_path)})


def kcat_member(kcat: Path) -> Start:
    def start(bootstrap: str, topic: str, group: str, how: How) -> Member:
        settings = {
            "session.timeout.ms": how.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": 100,
            "reconnect.backoff.max.ms": 200,
            "auto.offset.reset": "earliest",
        }
        if how.cooperative:
            settings["partition.assignment.strategy"] = "cooperative-sticky"
        if how.instance_id is not None:
            settings["group.instance.id"] = how.instance_id
        given = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
        return Member(
            [str(kcat), "-b", bootstrap, *given, "-E", "-u", "-f", r"%p %o\n", "-G", group, topic], _read_kcat
        )

    return start


def java_member(java_tool: JavaTool, folder: Path) -> Start:
    """Kafka's own consumer, in the program by which Kafka's tests watch it."""
    settings = folder / "member.properties"
    settings.write_text(f"heartbeat.interval.ms={HEARTBEAT_MS}\nfetch.max.wait.ms=100\n")

    def start(bootstrap: str, topic: str, group: str, how: How) -> Member:
        given = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        given += ["--session-timeout", str(how.session_ms), "--consumer.config", str(settings)]
        if how.cooperative:
            given += ["--assignment-strategy", f"{_JAVAS_ASSIGNORS}.CooperativeStickyAssignor"]
        if how.instance_id is not None:
            given += ["--group-instance-id", how.instance_id]
        return Member(java_tool.command(_VERIFIABLE_CONSUMER, *given), _read_verifiable)

    return start


def console_member(java_tool: JavaTool) -> Start:
    """Kafka's console consumer: it tells what it reads, and nothing of its partitions."""

    def start(bootstrap: str, topic: str, group: str, how: How) -> Member:
        settings = [
            f"session.timeout.ms={how.session_ms}",
            f"heartbeat.interval.ms={HEARTBEAT_MS}",
            "auto.commit.interval.ms=100",
        ]
        if how.cooperative:
            settings.append(f"partition.assignment.strategy={_JAVAS_ASSIGNORS}.CooperativeStickyAssignor")
        if how.instance_id is not None:
            settings.append(f"group.instance.id={how.instance_id}")
        given = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
        given += [word for each in settings for word in ("--consumer-property", each)]
        given += ["--property", "print.partition=true", "--property", "print.offset=true"]
        return Member(java_tool.command(_CONSOLE_CONSUMER, *given), _read_console)

    return start


def _json_member(*program: str, environment: dict[str, str] | None = None) -> Start:
    def start(bootstrap: str, topic: str, group: str, how: How) -> Member:
        return Member(
            [*program, bootstrap, topic, group, json.dumps(asdict(how))], _read_json, environment or {}
        )

    return start


def _read_json(member: Member, line: str) -> None:
    """What the programs in this folder print."""
    if not line.startswith("{"):
        return
    told = json.loads(line)
    if "read" in told:
        member.rows.add(tuple(told["read"]))
    elif "assigned" in told:
        member.assigned = frozenset(told["assigned"])


def _read_kcat(member: Member, line: str) -> None:
    if re.fullmatch(r"\d+ \d+\n", line):
        partition, offset = line.split()
        member.rows.add((int(partition), int(offset)))
    elif "assigned:" in line:
        member.assigned = frozenset(int(number) for number in re.findall(r"\[(\d+)\]", line))
    elif "revoked:" in line:
        member.assigned = frozenset()


def _read_verifiable(member: Member, line: str) -> None:
    if not line.startswith("{"):
        return
    told = json.loads(line)
    if told["name"] == "record_data":
        member.rows.add((told["partition"], told["offset"]))
    elif told["name"] == "partitions_assigned":
        member.assigned |= {one["partition"] for one in told["partitions"]}
    elif told["name"] == "partitions_revoked":
        member.assigned -= {one["partition"] for one in told["partitions"]}


def _read_console(member: Member, line: str) -> None:
    found = re.match(r"Partition:(\d+)\tOffset:(\d+)\t", line)
    if found:
        member.rows.add((int(found[1]), int(found[2])))
