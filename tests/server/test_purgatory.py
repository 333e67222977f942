from __future__ import annotations

import asyncio

import pytest

from semel.server.outcome import Answer, Delayed
from semel.server.purgatory import Purgatory
from semel.types import TopicPartition


def wait_for(partitions: int, wait_ms: int = 60_000) -> Delayed:
    names = [TopicPartition("t", n) for n in range(partitions)]
    return Delayed(names, wait_ms, lambda final: Answer((b"all there is",)) if final else None)


def test_the_largest_is_answered_when_too_much_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.server.purgatory.WATCHED_MAX", 100)

    async def scenario() -> list[int]:
        purgatory = Purgatory(asyncio.get_running_loop())
        answered: list[int] = []
        for partitions in (5, 60, 20, 50):
            purgatory.watch(wait_for(partitions), lambda answer, size=partitions: answered.append(size))
        await asyncio.sleep(0)  # one turn of the loop
        purgatory.expire_all()
        assert (len(purgatory), purgatory._watched, purgatory._watchers) == (0, 0, {})
        return answered

    answered = asyncio.run(scenario())
    assert answered[0] == 60, "and the small ones wait on"
    assert sorted(answered) == [5, 20, 50, 60]


def test_one_whose_connection_has_gone_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        one = purgatory.watch(wait_for(3), lambda answer: pytest.fail("answered"))
        purgatory.drop(one)
        purgatory.drop(one)
        purgatory.wake([TopicPartition("t", 0)])
        assert (len(purgatory), purgatory._watched) == (0, 0)

    asyncio.run(scenario())
