"""Cases, what two servers made of each, and whether that is the same."""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tests.peers.same_as_kafka.wire import Wire

Look: TypeAlias = Callable[[Wire], object]
_NOT_SAID: Final = object()


@dataclass(frozen=True, slots=True)
class Case:
    """One look at a server; ``because`` explains a difference that is known, and both sides of it."""

    name: str
    look: Look
    because: str | None = None
    semel: Any = _NOT_SAID
    kafka: Any = _NOT_SAID


@dataclass(frozen=True, slots=True)
class Crashed:
    """A case that did not come to an observation."""

    why: str

    def __str__(self) -> str:
        return f"crashed: {self.why}"


@dataclass(frozen=True, slots=True)
class Compared:
    """What both sides made of a case."""

    case: Case
    semel: object
    kafka: object

    @property
    def verdict(self) -> str:
        """``same``, ``explained`` or ``differs``."""
        case = self.case
        if isinstance(self.semel, Crashed) or isinstance(self.kafka, Crashed):
            return "differs"
        if case.because is None:
            return "same" if self.semel == self.kafka else "differs"
        holds = self.semel == case.semel != case.kafka == self.kafka
        return "explained" if holds else "differs"

    @property
    def what_differs(self) -> str:
        """Where both sides differ, and each of them there in full."""
        lines = [f"{self.case.name}:"]
        for where, semel, kafka in differences(self.semel, self.kafka):
            lines += [f"  {where}".rstrip(), f"    semel        {semel}", f"    Apache Kafka {kafka}"]
        if self.case.because is not None:
            lines += [
                f"  explained: {self.case.because}",
                f"  semel should be        {self.case.semel}",
                f"  Apache Kafka should be {self.case.kafka}",
            ]
        return "\n".join(lines)


def differences(semel: object, kafka: object, where: str = "") -> Iterator[tuple[str, object, object]]:
    """The smallest parts that are not the same, each with the way to it."""
    if isinstance(semel, dict) and isinstance(kafka, dict) and semel.keys() == kafka.keys():
        pairs = [(f"{where}[{key!r}]", semel[key], kafka[key]) for key in semel]
    elif isinstance(semel, list | tuple) and isinstance(kafka, list | tuple) and len(semel) == len(kafka):
        pairs = [(f"{where}[{n}]", *both) for n, both in enumerate(zip(semel, kafka, strict=True))]
    else:
        pairs = []
        if semel != kafka:
            yield where, semel, kafka
    for place, one, other in pairs:
        yield from differences(one, other, place)


_found: dict[str, Case] = {}


def case(
    *, because: str | None = None, semel: Any = _NOT_SAID, kafka: Any = _NOT_SAID
) -> Callable[[Look], Look]:
    """Make a function a case; with ``because``, what each side is known to answer."""
    assert (because is None) == (semel is _NOT_SAID) == (kafka is _NOT_SAID), (
        "because, semel and kafka go together"
    )

    def take(look: Look) -> Look:
        theme = look.__module__.rpartition(".")[2]
        name = f"{theme}.{look.__name__}"
        assert name not in _found, f"two cases are called {name}"
        _found[name] = Case(name, look, because, semel, kafka)
        return look

    return take


def all_cases() -> list[Case]:
    """Every case of ``cases/``, in the order of its modules' names and of their lines."""
    from tests.peers.same_as_kafka import cases

    for module in sorted(one.name for one in pkgutil.iter_modules(cases.__path__)):
        importlib.import_module(f"{cases.__name__}.{module}")
    return list(_found.values())


def topic_prefix(case: Case) -> str:
    """What the names of a case's topics begin with; Kafka takes "a.b" and "a_b" for too much alike."""
    return f"same-{case.name.replace('_', '-').replace('.', '-')}-"


def look(case: Case, bootstrap: str) -> object:
    """What the case sees of the server at this address."""
    try:
        with Wire(bootstrap, topic_prefix(case)) as wire:
            return case.look(wire)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        line = next((one.lineno for one in where if one.name == case.look.__name__), None)
        return Crashed(f"{type(error).__name__} at line {line}: {error}")
