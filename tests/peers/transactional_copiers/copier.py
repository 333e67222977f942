"""A transactional copier in a process of its own, to be killed; and what it has told so far."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.peers.group_members.member import Member


@dataclass(frozen=True, slots=True)
class How:
    """What is asked of a copier besides copying."""

    rows: int = 5  # of a transaction, at most
    abort_every: int = 0  # each so-manieth transaction is aborted, and its rows are copied by another one
    hold_at: int = 0  # the transaction that it holds open until it is told to go on
    hold_before: Literal["offsets", "commit"] = "commit"  # what it holds back; the rows are written by then


class Copier(Member):
    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        super().__init__(command, _read_event, environment, stdin=subprocess.PIPE)

    def tells(self, what: str) -> list[dict[str, Any]]:
        """Its events of a kind."""
        return [event for event in self.events if what in event]

    def go_on(self) -> None:
        """Where it holds."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        super().kill()
        assert self._process.stdin is not None
        self._process.stdin.close()


class ToolsCopier(Member):
    """Kafka's TransactionalMessageCopier: it aborts some transactions at random, and ends when all is copied."""

    def __init__(self, command: Sequence[str]) -> None:
        self.copied = 0
        super().__init__(command, _read_stage)

    def exit_code(self) -> int | None:
        """None while it goes on."""
        return self._process.poll()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)


Start: TypeAlias = Callable[[str, str, str, str, str, How], Copier]
"""Of (bootstrap, source, target, group, transactional_id, how)."""


def _read_event(copier: Member, line: str) -> None:
    assert isinstance(copier, Copier)
    if line.startswith("{"):
        copier.events.append(json.loads(line))


def _read_stage(copier: Member, line: str) -> None:
    assert isinstance(copier, ToolsCopier)
    if line.startswith("{"):
        copier.copied = json.loads(line)["totalProcessed"]
