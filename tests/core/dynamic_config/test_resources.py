from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from semel.core.decision import StateRecord
from semel.core.dynamic_config.resources import ALL_BROKERS, AlterResource, Kind, Resources
from semel.core.topics import Refused
from semel.errors import ErrorCode

AGE, SIZE, SESSION = "log.retention.ms", "log.segment.bytes", "consumer.session.timeout.ms"


def alter(
    resources: Resources, kind: Kind, name: str, changes: Mapping[str, str | None], *, replaces: bool = False
) -> Mapping[str, str] | Refused:
    decision = resources.decide(AlterResource(kind, name, changes, replaces), 0)
    for record in decision.records:
        assert resources.apply(record)
    return decision.response


def test_one_brokers_settings_go_before_those_of_all() -> None:
    resources = Resources()
    alter(resources, Kind.BROKER, ALL_BROKERS, {AGE: "5", SIZE: "2048"})
    alter(resources, Kind.BROKER, "1", {AGE: "6"})
    alter(resources, Kind.BROKER, "2", {AGE: "7"})
    assert resources.in_force(1) == {AGE: "6", SIZE: "2048"}
    assert resources.in_force(3) == {AGE: "5", SIZE: "2048"}


def test_what_is_refused_changes_nothing() -> None:
    resources = Resources()
    alter(resources, Kind.BROKER, "1", {AGE: "6"})
    refused = alter(resources, Kind.BROKER, "1", {SIZE: "2048", "log.dirs": "/"})
    assert isinstance(refused, Refused)
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert resources.get(Kind.BROKER, "1") == {AGE: "6"}
    assert not resources.decide(AlterResource(Kind.BROKER, "1", {AGE: "6"}), 0).records, "nothing is new"


def test_a_resource_without_settings_is_gone() -> None:
    resources = Resources()
    alter(resources, Kind.GROUP, "a/b", {SESSION: "50000"})
    assert resources.names(Kind.GROUP) == ["a/b"]
    alter(resources, Kind.GROUP, "a/b", {}, replaces=True)
    assert resources.names(Kind.GROUP) == list(resources.live_records()) == []


def test_there_is_a_bound_on_resources(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("semel.core.dynamic_config.resources.RESOURCES_MAX", 2)
    resources = Resources()
    answers = [alter(resources, Kind.GROUP, name, {SESSION: "50000"}) for name in "abca"]
    assert [isinstance(each, Refused) for each in answers] == [False, False, True, False]


def test_a_record_of_another_state_is_not_taken() -> None:
    assert not Resources().apply(StateRecord(b"topic/t", b"{}"))


CHANGES = st.dictionaries(
    st.sampled_from([AGE, SIZE, SESSION]), st.sampled_from([None, "50000", "51000"]), max_size=3
)
REQUESTS = st.builds(
    AlterResource, st.sampled_from(Kind), st.sampled_from(["", "1", "g"]), CHANGES, st.booleans()
)


@given(st.lists(REQUESTS, max_size=12))
def test_any_history_is_its_records_and_its_live_records(history: list[AlterResource]) -> None:
    resources, replayed, compacted = Resources(), Resources(), Resources()
    for request in history:
        for record in resources.decide(request, 0).records:
            resources.apply(record)
            replayed.apply(record)
    for record in resources.live_records():
        compacted.apply(record)
    for kind in Kind:
        for name in ("", "1", "g"):
            assert resources.get(kind, name) == replayed.get(kind, name) == compacted.get(kind, name)
