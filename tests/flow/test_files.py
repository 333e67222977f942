"""Files with flows: what is found in them, and what is said where they cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from semel.errors import ConfigError, FlowError, SemelError
from semel.flow.example import example_text
from semel.flow.files import FlowFile, load_flows

ONE = 'from semel.flow import source\nvisits = source("a").to("visits")\n'
Load = Callable[[str], FlowFile]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """The flows of a file with this text."""

    def of(text: str) -> FlowFile:
        path = tmp_path / "flows.py"
        path.write_text(text)
        return load_flows(path)

    return of


def test_the_flows_of_a_file_are_its_top_level_variables(load: Load) -> None:
    found = load(ONE + 'other = visits.named("other")\n_hidden = visits.named("hidden")\nnumber = 3\n')
    assert set(found.flows) == {"visits", "other"}
    assert found.flow("other").name == "other"
    assert load(ONE + "same = visits\n").flow().name == "visits"


def test_a_flow_is_found_by_its_name_or_its_variable(load: Load) -> None:
    found = load(ONE.replace("visits =", "clicks_of_users ="))
    assert found.flow().name == found.flow("visits").name == found.flow("clicks_of_users").name == "visits"


def test_what_cannot_be_chosen_is_refused(load: Load) -> None:
    found = load(ONE + 'other = visits.named("other")\n')
    with pytest.raises(ConfigError, match=r"has 2 flows: say --name, one of other, visits"):
        found.flow()
    with pytest.raises(ConfigError, match="has no flow 'visit': did you mean 'visits'"):
        found.flow("visit")
    with pytest.raises(ConfigError, match="has no flow 'zzz': there are: other, visits"):
        found.flow("zzz")
    with pytest.raises(ConfigError, match="has no flow 'source'"):
        found.flow("source")


def test_two_flows_of_one_name_are_refused_with_both_lines(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"two flows called 'visits', written at \S+:2 and \S+:3"):
        load(ONE + 'other = source("b").to("visits")\n')


def test_a_file_without_a_flow_and_no_file_are_refused(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no flow: a flow is a top-level variable"):
        load("x = 1\n")
    with pytest.raises(ConfigError, match=r"there is no file .*semel flow init"):
        load_flows(tmp_path / "none.py")


def test_a_file_that_fails_says_where(load: Load) -> None:
    with pytest.raises(SemelError, match=r"flows.py:3: ZeroDivisionError: division by zero") as failed:
        load("def f():\n    pass\n1 / 0\n")
    assert not isinstance(failed.value, ConfigError)
    with pytest.raises(SemelError, match=r"flows.py:2: "):
        load("x = 1\ny = (\n")
    with pytest.raises(FlowError, match=r"flows.py:2: there is no column 'usr'"):
        load('from semel.flow import source\nsource("a", json="user string").key_by("usr")\n')


def test_a_file_is_no_main_program_and_finds_its_neighbours(load: Load, tmp_path: Path) -> None:
    (tmp_path / "beside_the_flows.py").write_text('TOPIC = "a"\n')
    found = load(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from beside_the_flows import TOPIC\nfrom semel.flow import source\n"
        "@dataclass\nclass Row:\n    word: str\n"
        "def row_of(value) -> Row:\n    return Row(value.decode())\n"
        'words = source(TOPIC).map(row_of).to("words")\n'
        'if __name__ == "__main__":\n    raise SystemExit(3)\n'
    )
    (stage,) = found.flow().plan().stages
    assert stage.inputs[0].topic == "a"
    assert stage.output.schema is not None
    assert stage.output.schema.ddl == "word string"


def test_the_example_is_a_flow(tmp_path: Path) -> None:
    path = tmp_path / "counts.py"
    path.write_text(example_text(path))
    plan = load_flows(path).flow().plan()
    assert not plan.needs_spark
    assert (plan.source_topics, plan.output_topics) == (("lines",), ("word-counts",))
    assert max(map(len, example_text(Path("counts.py")).splitlines())) <= 110
