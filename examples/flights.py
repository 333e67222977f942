"""Delays of the flights that left New York in 2013, by carrier and hour, and what rain had to do with them.

docs/examples/flights.md has the picture, and the same in pandas.
"""

from dataclasses import dataclass
from typing import Any

from semel.flow import source


@dataclass
class Delays:
    carrier: str
    hour: int
    flights: int = 0
    minutes: int = 0  # of delay, all flights together
    in_rain: int = 0  # flights
    minutes_in_rain: int = 0


@dataclass
class Departure:
    carrier: str
    hour: int
    delay: int
    is_wet: bool


def departure(row: Any) -> Departure:
    return Departure(row.carrier, row.hour, row.dep_delay, (row.precip or 0) > 0)


def delays_of(delays: Delays | None, row: Any) -> tuple[Delays, Delays]:
    before = delays or Delays(row.carrier, row.hour)
    now = Delays(
        row.carrier,
        row.hour,
        before.flights + 1,
        before.minutes + row.delay,
        before.in_rain + row.is_wet,
        before.minutes_in_rain + row.delay * row.is_wet,
    )
    return now, now


flights = source("flights", json="carrier string, origin string, time_hour string, hour int, dep_delay int")
weather = source(
    "weather", json="origin string, time_hour string, precip double", key=("origin", "time_hour")
)

delays = (
    flights.where("dep_delay IS NOT NULL")  # Spark's; cancelled flights have none
    .key_by("origin", "time_hour")
    .join(weather.as_table("origin", "time_hour"), how="left")
    .map(departure)
    .key_by("carrier", "hour")
    .fold(delays_of)
    .to("delays")
)
