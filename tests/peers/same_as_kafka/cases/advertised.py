"""Which versions both serve: nothing that semel advertises is newer than what Apache Kafka has."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case


@case()
def newest_versions(wire: Wire) -> object:
    """Those of the tools' APIs; semel begins some others later, or ends them earlier, on purpose."""
    wanted = (33, 35, 43, 45, 46, 74, 75)
    found = {one.api_key: (one.min_version, one.max_version) for one in wire.ask("api_versions", 0).api_keys}
    return {key: found.get(key) for key in wanted}
