"""A few rounds of each crash loop; ``python -m tests.loops.run`` plays more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from tests.loops.rounds import RoundResult, breaches
from tests.loops.run import play
from tests.loops.transaction_rounds import judge
from tests.loops.turnstile import Step, Turnstile

import semel
from semel.errors import ConnectionLost

ROUNDS = 5
ROUNDS_OF_A_CLUSTER = 3  # each of half a minute, on two cores


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kind", ["server", "producer", "land", pytest.param("driver", marks=pytest.mark.spark)]
)
def test_every_row_is_stored_once_and_in_order(kind: str) -> None:
    results: list[RoundResult] = []
    play(kind, range(ROUNDS), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * ROUNDS
    assert sum(result.kills for result in results) > 0


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("spark")  # which replays, and is not to be made by the loop in another way
@pytest.mark.parametrize(("kind", "rounds"), [("flow", ROUNDS), ("cluster", ROUNDS_OF_A_CLUSTER)])
def test_a_flow_equals_a_replay_of_its_records(kind: str, rounds: int) -> None:
    results: list[RoundResult] = []
    play(kind, range(rounds), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * rounds
    assert sum(result.kills for result in results) > 0


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_group_reads_every_row_and_its_positions_never_go_back() -> None:
    results: list[RoundResult] = []
    play("group", range(ROUNDS), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * ROUNDS
    assert sum(result.kills for result in results) > 0


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["copy", pytest.param("copy-on-kafka", marks=pytest.mark.kafka)])
def test_a_copy_is_its_source(kind: str) -> None:
    results: list[RoundResult] = []
    play(kind, range(ROUNDS), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * ROUNDS
    assert sum(result.kills for result in results) > 0


@pytest.mark.loops
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kind", ["transactions", pytest.param("transactions-on-kafka", marks=pytest.mark.kafka)]
)
def test_transactions_are_atomic_and_exact(kind: str) -> None:
    results: list[RoundResult] = []
    play(kind, range(ROUNDS), on_round=lambda _number, result: results.append(result))
    assert [result.breaches for result in results] == [()] * ROUNDS
    assert sum(result.kills for result in results) > 0


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({0: [(0, 1), (1, 1)]}, "stored twice"),
        ({0: [(0, 2), (1, 1)]}, "row 1 stands after row 2"),
        ({0: [(0, 1), (1, 3)]}, "where 3 is"),
        ({0: [(0, 1)]}, "where nothing is"),
    ],
)
def test_the_audit_sees_each_breach(stored: dict[int, list[tuple[int, int]]], says: str) -> None:
    found = breaches(stored, acknowledged={0: {0: stored[0][0][1], 1: 2}})
    assert any(says in breach for breach in found), found


def test_the_audit_names_what_is_missing() -> None:
    assert "first missing [2]" in breaches({0: [(0, 1)]}, expected={0: [1, 2]})[0]
    assert breaches({0: [(0, 1), (1, 2)]}, expected={0: [1, 2]}) == ()


def transactions(**changed: list[str]) -> dict[str, dict[int, list[tuple[int, str]]]]:
    """Two topics with a row in each of two partitions, as two transactions wrote them."""
    rows = {"first": ["0 a.1", "1 a.2"], "second": ["0 a.1", "1 a.2"]} | changed
    return {
        topic: {partition: [(0, value)] if value else [] for partition, value in enumerate([*values, ""])}
        for topic, values in rows.items()
    }


@pytest.mark.parametrize(
    ("kept", "told", "says"),
    [
        (transactions(), {"committed": {"a.1"}, "aborted": {"a.3"}}, None),
        (transactions(second=["0 a.1", ""]), {}, "second: partition 1: 0 rows of 1"),
        (transactions(second=["0 a.1", "1 a.3"]), {}, "partition 1: other transactions are in second"),
        (transactions(), {"committed": {"a.4"}}, "told to be committed, and not there"),
        (transactions(), {"aborted": {"a.2"}}, "told to be aborted, and there"),
    ],
)
def test_the_audit_of_transactions_sees_each_breach(
    kept: dict[str, dict[int, list[tuple[int, str]]]], told: dict[str, set[str]], says: str | None
) -> None:
    found = judge(kept, 2, {"committed": set(), "aborted": set()} | told)
    assert found == [] if says is None else any(says in breach for breach in found), found


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_turnstile_stops_at_a_step(
    semel_server_factory: Callable[..., semel.LocalLog], is_sent: bool
) -> None:
    with closing(Turnstile()) as turnstile, ThreadPoolExecutor(1) as other:
        server = semel_server_factory(advertised=turnstile.address)
        turnstile.target = server.bootstrap
        with semel.Admin(turnstile.address) as admin, semel.Admin(server.bootstrap) as beside:
            step = Step(1, is_sent)
            turnstile.stop_at(step)
            admin.create_topic("first")
            stopped = other.submit(admin.create_topic, "second")
            assert step.reached.wait(20)
            assert step.what == "CREATE_TOPICS"
            assert ("second" in beside.list_topics()) == is_sent
            turnstile.let_go()
            with pytest.raises(ConnectionLost):
                stopped.result(60)
