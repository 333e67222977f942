"""DescribeCluster's other fields: what kind of endpoint is asked for, and who is fenced."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case


def _ask(wire: Wire, version: int, endpoint_type: int, *, fenced: bool = False) -> object:
    answer = wire.ask(
        "describe_cluster",
        version,
        include_cluster_authorized_operations=True,
        endpoint_type=endpoint_type,
        include_fenced_brokers=fenced,
    )
    return {
        "error": answer.error_code.name,
        "says why": answer.error_message is not None,
        "endpoint type": answer.endpoint_type,
        "operations": answer.cluster_authorized_operations,
        "controller": answer.controller_id,
        "brokers": [(one.broker_id, one.rack, getattr(one, "is_fenced", None)) for one in answer.brokers],
    }


@case()
def brokers(wire: Wire) -> object:
    return [_ask(wire, 1, 1), _ask(wire, 2, 1), _ask(wire, 2, 1, fenced=True)]


@case()
def controllers(wire: Wire) -> object:
    return [_ask(wire, 1, 2), _ask(wire, 2, 2, fenced=True)]


@case()
def an_endpoint_type_that_there_is_not(wire: Wire) -> object:
    return [_ask(wire, 1, 0), _ask(wire, 1, 9)]
