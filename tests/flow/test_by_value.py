"""User's functions and classes in a process that cannot import where they are written."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
import threading

import pytest

from semel.core.flow.steps import Filter, Map
from semel.errors import FlowError
from semel.flow.by_value import shipped
from semel.flow.files import load_flows

pytest.importorskip("pyspark")

FLOW_FILE = """
from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

import msgspec
from beside import shout

from semel.flow import source


class Level(Enum):
    LOW = 1


@dataclass
class Visit:
    user: str
    at: datetime | None = None
    tags: list[str] = field(default_factory=list)


class Seen(msgspec.Struct, frozen=True, rename="camel"):
    visit_count: int = 0
    last: Visit | None = None

    def after(self, visit: Visit) -> Seen:
        return Seen(self.visit_count + 1, visit)


class SeenTwice(Seen, frozen=True, tag="twice", kw_only=True):
    level: int
    names: list[str] = []


GREETING = "hello"


def visit_of(row) -> Visit:
    seen = msgspec.json.decode(b'{"visitCount": 1}', type=Seen).after(Visit(shout(row)))
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=Seen)
    twice = SeenTwice(level=Level.LOW.value, visit_count=kept.visit_count)
    twice.names.append(kept.last.user)
    return Visit(f"{GREETING} {twice.names} {twice.visit_count} {msgspec.json.encode(twice).decode()}")


def with_closure(factor):
    return lambda row: row * factor


TRIPLE = with_closure(3)
PARTIAL = functools.partial(lambda first, row: first + row, "1")
flow = source("in").map(visit_of).to("out")
visit_of("x")  # msgspec keeps what it finds out of a class in the class
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The flow file, loaded by its path."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "beside.py").write_text("MARK = '!'\ndef shout(text): return text + MARK\n")
    path = tmp_path / "visits.py"
    path.write_text(FLOW_FILE)
    yield load_flows(path).module
    sys.modules.pop("beside", None)


def elsewhere(value, expression: str, tmp_path) -> str:
    """What another process says of the value, which has no more than what is installed."""
    import pickle

    (tmp_path / "value").write_bytes(pickle.dumps(value))
    program = f"""
    import pickle
    shipped = pickle.load(open({str(tmp_path / "value")!r}, "rb"))
    value = shipped.value
    assert shipped.value is value and pickle.loads(pickle.dumps(shipped)).value is value
    print({expression})
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_classes_of_a_flow_file_go_with_its_functions(module, tmp_path):
    step = Map.of(module.visit_of)
    found = elsewhere(shipped(step, [step]), 'value.f("you").user', tmp_path)
    assert found == module.visit_of("you").user
    assert found == (
        """hello ['you!'] 2 {"type":"twice","visitCount":2,"last":null,"level":1,"names":["you!"]}"""
    )


@pytest.mark.slow
def test_lambdas_closures_and_partials_go(module, tmp_path):
    for function, expected in ((module.TRIPLE, "xxx"), (module.PARTIAL, "1x")):
        step = Map.of(function)
        assert elsewhere(shipped(step, [step]), 'value.f("x")', tmp_path) == expected


@pytest.mark.slow
def test_annotations_that_are_text_are_found_there(module, tmp_path):
    """As a fold's state is: msgspec asks the class's module what they mean."""
    step = Map.of(module.visit_of)
    expression = (
        '__import__(\'msgspec\').json.decode(b\'{"user": "a", "at": "2026-01-01T00:00:00Z"}\', '
        "type=value.f.__globals__['Visit']).at.year"
    )
    assert elsewhere(shipped(step, [step]), expression, tmp_path) == "2026"


def test_what_stands_beside_a_flow_and_has_no_part_in_it_stays_here(module, tmp_path):
    """Its annotations may name what cannot be sent, or what the other process cannot import."""
    (tmp_path / "apart.py").write_text(
        "from __future__ import annotations\nimport threading\nHELD = threading.Lock()\n"
        "class Apart:\n    held: HELD\n"
    )
    importlib.import_module("apart")
    step = Map.of(module.visit_of)
    try:
        assert shipped(step, [step]).value.f("you").user == module.visit_of("you").user
    finally:
        del sys.modules["apart"]


def test_what_cannot_be_sent_is_named_with_its_place():
    lock = threading.Lock()

    def guarded(row):
        with lock:
            return True

    good, bad = Filter.of(lambda row: True), Filter.of(guarded)
    with pytest.raises(FlowError) as refused:
        shipped([good, bad], [good, bad])
    assert refused.value.step == "filter guarded"
    assert refused.value.where.startswith(f"{__file__}:")
    assert "'lock', which it uses, cannot be pickled" in str(refused.value)
