"""Which versions both serve: nothing that semel advertises is newer than what Apache Kafka has."""

from __future__ import annotations

from tests.peers.same_as_kafka import Wire, case


@case()
def newest_versions(wire: Wire) -> object:
    """Those of the tools' APIs; semel begins some others later, or ends them earlier, on purpose."""
    return _ranges(wire, 29, 30, 31, 33, 35, 43, 45, 46, 74, 75)


@case()
def versions_of_groups_by_the_classic_protocol(wire: Wire) -> object:
    return _ranges(wire, 8, 9, 11, 12, 13, 14, 15, 16, 42, 47)


@case(
    because="semel has no groups by the newer protocol (KIP-848): whoever asks for them must hear so",
    semel={68: None, 69: None},
    kafka={68: (0, 1), 69: (0, 1)},
)
def versions_of_groups_by_the_newer_protocol(wire: Wire) -> object:
    return _ranges(wire, 68, 69)


def _ranges(wire: Wire, *keys: int) -> dict[int, tuple[int, int] | None]:
    found = {one.api_key: (one.min_version, one.max_version) for one in wire.ask("api_versions", 0).api_keys}
    return {key: found.get(key) for key in keys}
