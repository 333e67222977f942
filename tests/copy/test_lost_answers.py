"""A request that was carried out, and its answer lost, while a later one was answered."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from typing import Any

from tests.copy.copying import plan_of, values

import semel
from semel.client.blocking import Cluster
from semel.client.model import Produced
from semel.copy import run_copy
from semel.errors import ErrorCode
from semel.spark.process import SinkProcess, inside


class DeafCluster(Cluster):
    """Misses the answer to its first request that does not wait; the next one goes when that one is stored."""

    missed = 0

    def begin_produce(self, batches: Any, **options: Any) -> Future[dict[Any, Produced]]:
        answer = super().begin_produce(batches, **options)
        if self.missed:
            return answer
        self.missed += 1
        answer.result()
        lost: Future[dict[Any, Produced]] = Future()
        lost.set_result(
            {tp: Produced(ErrorCode.NETWORK_EXCEPTION, -1, -1, -1, "no answer") for tp in batches}
        )
        return lost


def test_an_answer_that_overtakes_a_lost_one_is_no_loss_of_the_end(semel_server_session):
    log, topic = semel_server_session.bootstrap, f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(topic, 1)
    for number in range(6):
        with semel.Producer(log) as producer:  # a batch each
            producer.send(topic, b"%d" % number)
    plan = plan_of(log, log, topic, name=topic, prefix="eu.")
    made: list[DeafCluster] = []

    def new_cluster(connection: Any) -> Cluster:
        if connection != plan.destination:
            return Cluster(connection.bootstrap)
        made.append(DeafCluster(connection.bootstrap))
        return made[-1]

    with inside(SinkProcess("deaf", "deaf", new_cluster=new_cluster)):
        run_copy(plan, until_end=True)
    assert made[0].missed
    assert values(log, f"eu.{topic}") == [b"%d" % number for number in range(6)]
