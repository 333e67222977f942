"""What a destination refuses for now is no fault of the job's settings."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.copy.copying import go, plan_of, put, values

import semel
from semel.client.blocking import Cluster
from semel.copy import run_copy
from semel.errors import BrokerError, ConfigError, ErrorCode
from semel.spark.process import SinkProcess, inside


class RefusedCluster(Cluster):
    """The output cannot be made, as the broker says with this code."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def create_topics(self, topics: Any, **more: Any) -> None:
        if any(name.startswith("eu.") for name in topics):
            raise BrokerError(self.code, "create topic")
        super().create_topics(topics, **more)


@pytest.mark.parametrize(
    ("code", "told"), [(ErrorCode.KAFKA_STORAGE_ERROR, BrokerError), (ErrorCode.INVALID_CONFIG, ConfigError)]
)
def test_an_output_that_cannot_be_made(semel_server_session, code, told):
    log, topic = semel_server_session.bootstrap, f"rows-{uuid.uuid4().hex[:8]}"
    with semel.Admin(log) as admin:
        admin.create_topic(topic, 1)
    put(log, topic, [b"row"])
    plan = plan_of(log, log, topic, name=topic, prefix="eu.")

    def new_cluster(connection: Any) -> Cluster:
        made = (RefusedCluster if connection == plan.destination else Cluster)(connection.bootstrap)
        made.code = code  # type: ignore[attr-defined]
        return made

    with inside(SinkProcess("refused", "refused", new_cluster=new_cluster)), pytest.raises(told):
        run_copy(plan, until_end=True)
    go(plan)
    assert values(log, f"eu.{topic}") == [b"row"]


def test_names_that_kafka_takes_for_one_are_named(semel_server_session):
    log, name = semel_server_session.bootstrap, uuid.uuid4().hex[:8]
    with semel.Admin(log) as admin:
        for topic in (f"{name}.x_y", f"eu.{name}_x.y"):
            admin.create_topic(topic, 1)
    plan = plan_of(log, log, f"{name}.x_y", name=name, prefix="eu.")

    def new_cluster(connection: Any) -> Cluster:
        made = (RefusedCluster if connection == plan.destination else Cluster)(connection.bootstrap)
        made.code = ErrorCode.INVALID_TOPIC  # type: ignore[attr-defined]
        return made

    with (
        inside(SinkProcess("refused", "refused", new_cluster=new_cluster)),
        pytest.raises(ConfigError, match=rf"'eu.{name}_x.y' is there: Apache Kafka takes no two names"),
    ):
        run_copy(plan, until_end=True)
