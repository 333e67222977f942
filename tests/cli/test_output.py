"""Printed rows: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json

import pytest

from semel.cli.output import Format, print_document, print_rows, yaml_lines

ROWS = [
    {"name": "flights", "partitions": 4, "internal": False, "configs": {"retention.ms": "-1"}},
    {"name": "no", "partitions": 12, "internal": True, "configs": {}},
]


def test_a_table_aligns_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ["name", "partitions", "internal"], Format.TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "NAME     PARTITIONS  INTERNAL",
        "flights           4        no",
        "no               12       yes",
    ]


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, ["name"], Format.JSON)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_yaml_quotes_what_would_not_be_a_string() -> None:
    assert yaml_lines({"rows": ROWS}) == [
        "rows:",
        "  - name: flights",
        "    partitions: 4",
        "    internal: false",
        "    configs:",
        '      "retention.ms": "-1"',
        '  - name: "no"',
        "    partitions: 12",
        "    internal: true",
        "    configs: {}",
    ]


def test_a_mapping_is_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"name": "flights", "partition_count": 4}, Format.TABLE)
    assert capsys.readouterr().out.splitlines() == ["name             flights", "partition-count  4"]
