"""An operation carried out here and now: nobody else waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from semel.server.operation import Awaited, InTurn, Steps, Synced
from semel.server.outcome import Answer, Operation, Outcome
from semel.server.storage.aside import Aside


@dataclass
class CarriedOut:
    """What it came to, and all that it waited for, pieces of work within changes too."""

    answer: Answer
    waits: list[Awaited] = field(default_factory=list)

    @property
    def asides(self) -> int:
        return sum(isinstance(each, Aside) for each in self.waits)


def carry_out(outcome: Outcome) -> CarriedOut:
    """``outcome`` is an operation, or its answer already."""
    if not isinstance(outcome, Operation):
        assert isinstance(outcome, Answer), outcome
        return CarriedOut(outcome)
    waits: list[Awaited] = []
    return CarriedOut(_to_the_end(outcome.steps, waits), waits)


def _to_the_end(steps: Steps[Any], waits: list[Awaited]) -> Any:
    while True:
        try:
            awaited = steps.send(None)
        except StopIteration as ended:
            return ended.value
        waits.append(awaited)
        match awaited:
            case Aside():
                awaited.run()
            case Synced(partitions=partitions):
                for partition in partitions:
                    partition.sync()
            case InTurn():
                awaited.ended(_to_the_end(awaited.begin(), waits))
            case _:
                raise AssertionError("nothing is going to happen")
