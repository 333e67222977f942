"""Groups as administrators see them: ListGroups, DescribeGroups, DeleteGroups, and their settings."""

from __future__ import annotations

from collections.abc import Callable

from tests.peers.same_as_kafka import Wire, case, plain
from tests.peers.same_as_kafka.grouping import Group, protocols, two, wait_until_called


def _in_each_state(wire: Wire, look: Callable[[Group], object]) -> dict[str, object]:
    """What ``look`` sees of a group that is not there, and so on through its life."""
    topic = wire.new_topic()
    simple = Group(wire)
    simple.commit(topic)
    found = {"simple": look(simple)}
    group = Group(wire)
    found["unknown"] = look(group)
    member_id = group.join().member_id
    found["pending"] = look(group)
    group.join(member_id)
    found["completing"] = look(group)
    group.sync(member_id, 1, {member_id: b"all"})
    found["stable"] = look(group)
    second = group.another()
    follower = second.send_enter()
    wait_until_called(group, member_id)
    found["preparing"] = look(group)
    group.leave((member_id, None), (follower, None))
    found["empty"] = look(group)
    return found


@case()
def described_in_each_state(wire: Wire) -> object:
    return _in_each_state(wire, lambda group: [group.described(version) for version in (5, 6)])


@case()
def described_in_every_version(wire: Wire) -> object:
    Group(wire, "").delete()  # Apache Kafka takes offsets of it, for the sake of old clients
    first, leader, *_ = two(wire)
    first.leave((leader, None))
    group = Group(wire)
    group.settle(protocols=protocols("range", "sticky"), group_instance_id="one")
    empty, unknown = Group(wire, ""), Group(wire)
    return {
        version: [one.described(version) for one in (first, group, empty, unknown)] for version in range(7)
    }


@case()
def operations_that_are_allowed(wire: Wire) -> object:
    Group(wire, "").delete()  # Apache Kafka takes offsets of it, for the sake of old clients
    group = Group(wire)
    group.settle()
    return [
        one.described(version, operations=asked)["authorized_operations"]
        for one in (group, Group(wire), Group(wire, ""))
        for version in (3, 6)
        for asked in (False, True)
    ]


@case()
def several_described(wire: Wire) -> object:
    Group(wire, "").delete()  # Apache Kafka takes offsets of it, for the sake of old clients
    first, second = Group(wire), Group(wire)
    first.settle()
    named = [second.id, first.id, first.id, ""]
    answer = wire.ask("describe_groups", 6, groups=named, include_authorized_operations=False)
    nobody = wire.ask("describe_groups", 6, groups=[], include_authorized_operations=False)
    told = sorted({(one.group_id, one.error_code.name, one.group_state) for one in answer.groups})
    return told, plain(nobody)


@case()
def listed_in_each_state(wire: Wire) -> object:
    return _in_each_state(wire, lambda group: [group.listed(version) for version in range(6)])


@case()
def listed_by_state(wire: Wire) -> object:
    names = (
        "Stable",
        "stable",
        "EMPTY",
        "PreparingRebalance",
        "CompletingRebalance",
        "Dead",
        "Assigning",
        "x",
    )
    filters = [*((name,) for name in names), ("Stable", "Empty", "CompletingRebalance"), ("",)]
    return _in_each_state(wire, lambda group: [len(group.listed(states=states)) for states in filters])


@case()
def listed_by_type(wire: Wire) -> object:
    group = Group(wire)
    group.settle()
    filters = (("classic",), ("Classic",), ("consumer",), ("share",), ("x",), ("consumer", "classic"), ("",))
    return [len(group.listed(types=types)) for types in filters], [
        len(group.listed(states=("stable",), types=types)) for types in (("classic",), ("consumer",))
    ]


@case()
def deleted_in_each_state(wire: Wire) -> object:
    found = _in_each_state(wire, lambda group: group.delete() if group.listed(states=["Stable"]) else "")
    group = Group(wire)
    member_id = group.enter().member_id
    codes = [group.delete(version) for version in range(3)]
    group.leave((member_id, None))
    return found, codes, [group.delete(version) for version in range(3)], group.described(), group.listed()


@case()
def deleted_with_its_offsets(wire: Wire) -> object:
    topic = wire.new_topic()
    group = Group(wire)
    group.commit(topic)
    return group.delete(), group.delete(), group.shown(group.committed([topic])), group.listed()


@case()
def a_group_whose_member_has_only_an_id_is_deleted(wire: Wire) -> object:
    group = Group(wire)
    member_id = group.join().member_id
    return group.delete(), group.shown(group.join(member_id)), group.listed()


@case()
def several_deleted(wire: Wire) -> object:
    Group(wire, "").delete()  # Apache Kafka takes offsets of it, for the sake of old clients
    full, other = Group(wire), Group(wire)
    full.settle()
    named = [full.id, other.id, "", other.id]
    answer = wire.ask("delete_groups", 2, groups_names=named)
    nobody = wire.ask("delete_groups", 2, groups_names=[])
    return sorted({(one.group_id, one.error_code.name) for one in answer.results}), plain(nobody)


# Settings


def _settings(wire: Wire, name: str) -> object:
    asked = [{"resource_type": 32, "resource_name": name, "configuration_keys": None}]
    answer = wire.ask(
        "describe_configs", 4, resources=asked, include_synonyms=True, include_documentation=False
    )
    (told,) = answer.results
    return told.error_code.name, sorted((one.name, one.value) for one in told.configs)


@case()
def settings_of_a_group(wire: Wire) -> object:
    return _settings(wire, wire.name("group"))


@case()
def settings_of_a_group_without_a_name(wire: Wire) -> object:
    return _settings(wire, "")


def _altered(wire: Wire, name: str, setting: str, value: str) -> object:
    asked = {
        "resource_type": 32,
        "resource_name": name,
        "configs": [{"name": setting, "config_operation": 0, "value": value}],
    }
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=True)
    (told,) = answer.responses
    return told.error_code.name


@case()
def a_setting_of_a_group_is_altered(wire: Wire) -> object:
    return _altered(wire, wire.name("group"), "consumer.session.timeout.ms", "50000")


@case()
def settings_that_no_group_has(wire: Wire) -> object:
    return [_altered(wire, name, "session.timeout.ms", "50000") for name in (wire.name("group"), "")]
