"""docs/clients.md says what each client does, on semel and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from tests.peers.apache_kafka import JavaTool
from tests.peers.client_table.clients import CLIENTS, Client
from tests.peers.client_table.driving import column
from tests.peers.client_table.features import FEATURES, OF_MEMBERS, Tried, outcome
from tests.peers.client_table.log import Log, of_apache_kafka, of_semel
from tests.peers.client_table.page import Column, cell, documented, on_semel, page
from tests.peers.parts import ROOT

PAGE = ROOT / "docs" / "clients.md"
QUICK = [name for name in FEATURES if name not in OF_MEMBERS]  # members of groups have tests of their own
NEEDS = {name: name.replace("-", "_") for name in ("kcat", "kafkajs", "franz-go")}
NEEDS |= dict.fromkeys(("java", "kafkas-tools"), "java_tool")
MARKS: dict[str, Any] = {
    "java": pytest.mark.kafka,
    "kafkas-tools": pytest.mark.kafka,
    "kcat": pytest.mark.kcat,
}


def each_client(*thorough: str) -> list[ParameterSet]:
    return [
        pytest.param(
            name,
            marks=[
                *([MARKS[name]] if name in MARKS else []),
                *([pytest.mark.thorough] if name in thorough else []),
            ],
        )
        for name in CLIENTS
    ]


@pytest.fixture(scope="module")
def semels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with of_semel(tmp_path_factory.mktemp("semel")) as log:
        yield log


@pytest.fixture(scope="module")
def kafkas(java_tool: JavaTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    with of_apache_kafka(java_tool, tmp_path_factory.mktemp("kafka")) as log:
        yield log


@pytest.fixture
def client(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    if name in NEEDS:
        request.getfixturevalue(NEEDS[name])
    found = CLIENTS[name](tmp_path)
    assert isinstance(found, Client)
    return found


def in_page(client: Client) -> dict[str, str]:
    return documented(PAGE.read_text(encoding="utf-8"), client.name)


def test_a_page_can_be_read_again() -> None:
    outcomes = dict.fromkeys(FEATURES, "yes")
    fewer = outcomes | {"consume": "no: its: own; words", "produce": "–"}
    one = Column("one", "1.2, lib 3", fewer, fewer)
    other = Column("other", "4", outcomes | {"consume": "no: its: own; words"}, fewer)
    text = page([one, other], "4.1.0")
    assert documented(text, "one") == fewer
    told = documented(text, "other")
    assert (told["produce"], told["list topics"]) == ("semel: yes; Kafka: –", "yes")
    assert told["consume"] == "no: its: own; words"
    assert on_semel(told["produce"]) == "yes"
    assert text.count("no (2)") == 1, "clients have notes of their own"


@pytest.mark.parametrize("name", CLIENTS)
def test_the_page_has_every_client_and_every_feature(name: str, tmp_path: Path) -> None:
    found = CLIENTS[name](tmp_path)
    if isinstance(found, Client):
        assert list(in_page(found)) == list(FEATURES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["confluent-kafka"])
def test_a_client_that_says_so_without_doing_it_is_found_out(client: Client, semels: Log) -> None:
    with client.driver(semels) as driver:

        def forgets_one(do: str, **what: Any) -> Any:
            if do == "produce":
                what["rows"] = what["rows"][:-1]
            done = driver.ask(do, **what)
            return done[1:] if do == "consume" else done

        def does_nothing(do: str, **what: Any) -> Any:
            return None

        lying = Tried(forgets_one, semels, None, frozenset())
        assert outcome(FEATURES["produce"], lying) == "no: the log has other rows"
        assert outcome(FEATURES["consume"], lying) == "no: other rows were read"
        idle = Tried(does_nothing, semels, None, frozenset())
        found = {name: outcome(FEATURES[name], idle) for name in ("produce", "offset of a time")}
        assert found == {"produce": "no: the log has other rows", "offset of a time": "no: None, not 7"}
        assert outcome(FEATURES["divide anew cooperatively"], idle) == "–"


@pytest.mark.thorough
@pytest.mark.parametrize("name", each_client("kafkas-tools"))
def test_the_page_says_what_a_client_does_on_semel(client: Client, semels: Log) -> None:
    told = in_page(client)
    assert client.probe(semels, QUICK) == {name: on_semel(told[name]) for name in QUICK}


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.thorough
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", each_client())
def test_the_page_says_what_a_client_does_on_both(client: Client, semels: Log, kafkas: Log) -> None:
    found = column(client, semels, kafkas)
    assert {name: cell(found.on_semel[name], found.on_kafka[name]) for name in FEATURES} == in_page(client)
