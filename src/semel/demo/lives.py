"""The lives of the story's processes: when each began, how it ended, and what its kill interrupted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Part(StrEnum):
    """The parts of the pipeline that get killed."""

    SERVER = "server"
    PRODUCER = "producer"
    DRIVER = "Spark driver"
    COPY = "copy"
    LANDING = "landing"


@dataclass(slots=True)
class Life:
    """One process from start to end. ``evidence`` says what a kill interrupted: it was no idle moment."""

    part: Part
    began_s: float
    ended_s: float | None = None
    killed: bool = False
    evidence: str = ""


@dataclass(slots=True)
class Lives:
    """All lives in the order of their beginning; of each part at most one goes on."""

    all: list[Life] = field(default_factory=list)

    def begin(self, part: Part, at_s: float) -> None:
        self.all.append(Life(part, at_s))

    def end(self, part: Part, at_s: float, *, killed: bool = False) -> Life:
        """The part's life that goes on ends now."""
        life = next(life for life in reversed(self.all) if life.part is part and life.ended_s is None)
        life.ended_s, life.killed = at_s, killed
        return life

    @property
    def kills(self) -> list[Life]:
        """In the order of the kills."""
        return sorted((life for life in self.all if life.killed), key=lambda life: life.ended_s or 0.0)
