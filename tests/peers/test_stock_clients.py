"""The page about stock clients says what the clients do, and what the verdicts count on is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.apache_kafka import JavaTool
from tests.peers.parts import ROOT
from tests.peers.stock_clients.cases import CASES, Stages, drive_all, stages
from tests.peers.stock_clients.clients import AIOKAFKA, KAFKA_PYTHON, LIBRDKAFKA, StockClient, java_client
from tests.peers.stock_clients.page import PROSE, digest_row, line, sent_again, table

from semel.errors import ErrorCode

PAGE = ROOT / "docs" / "stock-clients.md"
FINAL = (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.INVALID_RECORD)


@pytest.fixture(scope="module")
def on() -> Iterator[Stages]:
    with stages() as running:
        yield running


def check(client: StockClient, on: Stages) -> None:
    outcomes = drive_all(client, on)
    assert table(outcomes).splitlines() == documented(client.name)
    assert line(digest_row(client, outcomes)) in PAGE.read_text().splitlines()
    for case, outcome in zip(CASES, outcomes, strict=True):
        if case.error_code in FINAL:
            assert not sent_again(case, outcome), (
                f"{client.name} repeats a batch that got {case.error_code.name}"
            )


def documented(name: str) -> list[str]:
    """The lines of a client's table in the page."""
    section = re.search(rf"^## {re.escape(name)} .*\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert section is not None, f"{PAGE.name} has no table of {name}"
    return section[1].splitlines()


def test_the_page_has_the_words_of_the_command() -> None:
    page = PAGE.read_text()
    assert [text for text in PROSE if text not in page] == []


@pytest.mark.thorough
@pytest.mark.parametrize("client", [LIBRDKAFKA, AIOKAFKA, KAFKA_PYTHON], ids=lambda client: client.name)
def test_the_page_says_what_the_client_does(client: StockClient, on: Stages) -> None:
    check(client, on)


@pytest.mark.slow
@pytest.mark.kafka
def test_the_page_says_what_kafkas_own_producer_does(java_tool: JavaTool, on: Stages, tmp_path: Path) -> None:
    with java_client(java_tool, tmp_path / "java.log") as client:
        check(client, on)
