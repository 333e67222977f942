"""The examples do what they say: their own tests, and their input against plain Python and pandas."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from examples.cases import NAMES, case
from tests.flow.flowing import put, rows

from examples import topics
from semel.cli.main import run as semel_command
from semel.flow.files import load_flows
from semel.flow.here import run_here
from semel.flow.plan import Plan
from semel.flow.replay import replay
from semel.local import LocalLog

FOLDER = Path(topics.__file__).parent
TESTS = [
    pytest.param(function, id=f"{name}-{function.__name__}")
    for name in NAMES
    for function in vars(load_flows(FOLDER / f"{name}.py").module).values()
    if callable(function) and getattr(function, "__name__", "").startswith("test_")
]


def _plan(name: str) -> Plan:
    return load_flows(FOLDER / f"{name}.py").flow().plan()


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_file_of_one_flow_with_a_page(name: str) -> None:
    page = (FOLDER.parent / "docs/examples" / f"{name}.md").read_text()
    assert f"python -m examples.kill {name}" in page
    assert f"semel flow run examples/{name}.py" in page
    assert case(name).flow in vars(load_flows(FOLDER / f"{name}.py").module)
    assert set(case(name).topics) == set(_plan(name).source_topics)


@pytest.mark.parametrize("test", TESTS)
def test_its_own_tests(test: Callable[[Any], None], semel_server: LocalLog, tmp_path: Path) -> None:
    def run(flow: Any, given: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        plan = flow.plan()
        for read in (read for stage in plan.stages for read in stage.inputs):
            if read.topic in given:
                key = read.key[0].name if read.is_promised else None
                keys = None if key is None else [row[key].encode() for row in given[read.topic]]
                put(semel_server.bootstrap, read.topic, *given[read.topic], keys=keys)
        run_here(plan, semel_server.bootstrap, store=tmp_path, until_idle=True)
        return {topic: rows(semel_server.bootstrap, topic) for topic in plan.output_topics}

    test(run)


@pytest.mark.parametrize(
    "name", [*(name for name in NAMES if name != "flights"), pytest.param("flights", marks=pytest.mark.spark)]
)
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_its_output_is_what_plain_python_makes_of_its_input(
    name: str, semel_server: LocalLog, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bootstrap, of, plan = semel_server.bootstrap, case(name), _plan(name)
    topics.create(bootstrap, of.topics)
    topics.put(bootstrap, of.first())
    for number in range(2):
        topics.put(bootstrap, of.rows(random.Random(number), number))
    topics.put(bootstrap, of.last())
    spark = None
    if plan.needs_spark:
        from semel.flow.run import run_flow

        spark = request.getfixturevalue("spark")
        run_flow(plan, bootstrap, spark=spark, once=True, store=tmp_path)
    else:
        run_here(plan, bootstrap, store=tmp_path, until_idle=True)
    assert of.wrong(bootstrap) == []
    found = replay(plan, bootstrap, spark=spark)
    assert found.holds, found.text()
    assert found.is_complete, found.text()
    assert found.is_at_rest, found.text()


def test_what_is_wrong_is_seen(semel_server: LocalLog, tmp_path: Path) -> None:
    bootstrap, of = semel_server.bootstrap, case("word_count")
    topics.create(bootstrap, of.topics)
    topics.put(bootstrap, [topics.Given("lines", {"line": "a b"})])
    run_here(_plan("word_count"), bootstrap, store=tmp_path, until_idle=True)
    topics.put(bootstrap, [topics.Given("lines", {"line": "a"})])
    assert of.wrong(bootstrap) == ["word a: 1 instead of 2"]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_takes_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert semel_command(["flow", "check", str(FOLDER / f"{name}.py")]) == 0
    assert _plan(name).flow in capsys.readouterr().out
