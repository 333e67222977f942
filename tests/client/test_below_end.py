"""What a resume reads of a log is whole, or it says so: it never asks for the same answer for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import semel
from semel.client.cluster import Cluster
from semel.client.model import Fetched
from semel.client.resuming import scan
from semel.errors import UnreadableBatch
from semel.types import TopicPartition

TP = TopicPartition("t", 0)
Damage = Callable[[bytearray], None]


class OnTheWay(Cluster):
    """Real answers of a real server, whose records take damage on their way."""

    def __init__(self, bootstrap: str, damage: Damage) -> None:
        super().__init__(bootstrap, request_timeout_ms=5_000)
        self._damage = damage

    async def fetch(self, *args: Any, **settings: Any) -> dict[TopicPartition, Fetched]:
        answers = await super().fetch(*args, **settings)
        damaged = {}
        for tp, item in answers.items():
            records = bytearray(item.records)
            if records:
                self._damage(records)
            damaged[tp] = replace(item, records=memoryview(records))
        return damaged


def a_length_past_the_end(records: bytearray) -> None:
    records[9] ^= 1


def an_offset_below_what_was_asked_for(records: bytearray) -> None:
    records[0:8] = bytes(8)


@pytest.mark.parametrize("damage", [a_length_past_the_end, an_offset_below_what_was_asked_for])
def test_an_answer_that_leads_no_further_is_an_error(semel_server: semel.LocalLog, damage: Damage) -> None:
    with semel.Producer(semel_server.bootstrap, linger_ms=0) as producer:
        for value in ("a", "b", "c"):
            producer.send("t", value).result(10)

    async def read() -> None:
        async with OnTheWay(semel_server.bootstrap, damage) as cluster:
            await scan(cluster, 1, TP, 2, 3)

    with pytest.raises(UnreadableBatch, match="offset 2"):
        asyncio.run(asyncio.wait_for(read(), 10))
