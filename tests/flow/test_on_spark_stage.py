"""What a stage's source does in the driver, without a driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from semel.flow.on_spark_run import Stopping
from semel.spark.process import SinkProcess, inside


@dataclass
class Paused:
    """A clock that keeps how long it was asked to pause."""

    pauses_ms: list[int] = field(default_factory=list)

    def now_ms(self) -> int:
        return 0

    def elapsed_ms(self) -> int:
        return 0

    def pause(self, pause_ms: int) -> None:
        self.pauses_ms.append(pause_ms)


@dataclass
class Ends:
    """Ranges that end where they are told to, one after the other."""

    ends: list[int]

    def fix_target(self) -> None: ...

    def next_end(self, start: Any) -> Any:
        return {"t": self.ends.pop(0)}


@pytest.fixture
def reader(tmp_path: Path) -> Any:
    stage = pytest.importorskip("semel.flow.on_spark_stage")
    return stage.StageReader(SimpleNamespace(stopping=Stopping(tmp_path), name="s"))


def ask(reader: Any, ends: list[int]) -> list[int]:
    """Where each of them was the end; for how long it paused in all."""
    reader._planning = Ends(ends)
    clock, at = Paused(), {"t": 0}
    with inside(SinkProcess("test", "", clock=clock)):
        while ends:
            at = reader.latestOffset(at, None)
    return clock.pauses_ms


def test_a_stage_at_rest_asks_seldom_and_at_once_again_when_something_came(reader: Any) -> None:
    assert ask(reader, [0, 0, 0, 0, 0, 0]) == [10, 20, 40, 80, 100, 100]
    assert ask(reader, [1, 2, 2, 3]) == [10]


def test_a_run_to_what_is_there_now_does_not_wait_for_more(reader: Any) -> None:
    reader._planning = Ends([])
    reader.prepareForTriggerAvailableNow()
    assert ask(reader, [1, 1, 1]) == []
