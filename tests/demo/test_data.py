"""The demo's flights: as many as promised, each with a name of its own."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from semel.audit.store import RowStore
from semel.demo import data
from semel.demo.proof import rows_of_file
from semel.demo.story import FLIGHTS_IN_ALL
from semel.errors import ConfigError


@pytest.mark.thorough
def test_every_flight_has_a_name_of_its_own() -> None:
    names = {
        tuple(json.loads(flight.value)[field] for field in data.UNIQUE_FIELDS) for flight in data.flights()
    }
    assert len(names) == FLIGHTS_IN_ALL


def test_the_first_flight() -> None:
    (flight,) = data.flights(1)
    assert flight.key == b"UA1545"
    assert json.loads(flight.value) == {
        "time_hour": "2013-01-01T10:00:00Z",
        "carrier": "UA",
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "flight": 1545,
        "dep_delay": 2,
        "arr_delay": 11,
        "air_time": 227,
        "distance": 1400,
    }


def test_a_flight_that_never_left_has_nulls() -> None:
    cancelled = next(
        f for f in map(json.loads, (flight.value for flight in data.flights())) if not f["air_time"]
    )
    assert cancelled["arr_delay"] is None


def test_airlines() -> None:
    assert dict(data.airlines())["UA"] == "United Air Lines Inc."


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match="pip install no_such_package"):
        data.data_folder()


def test_who_installed_semel_with_spark_has_the_flights() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    wanted = project["project"]["optional-dependencies"]["spark"]
    assert any(requirement.startswith(f"{data._PACKAGE}==") for requirement in wanted)


def test_the_rows_of_the_file_keep_its_order() -> None:
    with RowStore() as store:
        rows = rows_of_file(store, 25_000)
        rows.flush()
        assert len(rows) == 25_000
        places = store.run(f"SELECT place FROM {rows.table} ORDER BY place")
        assert [rows.at(place) for (place,) in places] == [(0, offset) for offset in range(25_000)]
