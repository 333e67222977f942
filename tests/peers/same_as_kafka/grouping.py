"""A consumer group as cases see it: its requests in any version, and its member ids by the order of their coming.

A server makes up its member ids: what is shown of an answer has the part that was made up as a number.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from tests.core.group.members import subscription
from tests.peers.same_as_kafka.wire import Wire, plain

_MADE_UP: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIMEOUT_S: Final = 30.0
_SEVERAL_LEAVE_FROM: Final = 3
_GROUPS_FROM: Final = 8
SUBSCRIPTION: Final = subscription(["read"])
OTHER_SUBSCRIPTION: Final = subscription(["read", "read too"])
SHORT_MS: Final = (
    800  # of rebalances that a case waits for; a group's are as long as its most patient member says
)


class Group:
    """One group over one connection; :meth:`another` is the same group over another one."""

    def __init__(self, wire: Wire, group_id: str | None = None) -> None:
        self.wire = wire
        self.id = wire.name("group") if group_id is None else group_id
        self._ids: dict[str, str] = {}
        self._clock: list[str] = []
        self.wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=["g"])  # makes the topic
        wire.coordinated(lambda: self.committed(None))  # a heartbeat succeeds even while the group loads

    def another(self) -> Group:
        other = object.__new__(Group)
        other.wire, other.id, other._ids, other._clock = self.wire.another(), self.id, self._ids, self._clock
        return other

    def shown(self, answer: Any, *left_out: str) -> Any:
        """An answer, or a part of it, as something plain. Members are in no order: Apache Kafka hashes them."""
        return _in_order(self._renamed(plain(answer, *left_out)))

    def _renamed(self, value: Any) -> Any:
        match value:
            case str():
                return _MADE_UP.sub(lambda found: self._name_of(found[0]), value)
            case dict():
                return {name: self._renamed(each) for name, each in value.items()}
            case list() | tuple():
                return [self._renamed(each) for each in value]
        return value

    def _name_of(self, made_up: str) -> str:
        return self._ids.setdefault(made_up, f"#{len(self._ids) + 1}")

    # -- members

    def send_join(self, member_id: str = "", version: int = 9, **given: Any) -> None:
        asked = {
            "group_id": self.id,
            "session_timeout": 60_000,
            "rebalance_timeout": 60_000,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": protocols("range"),
            "reason": None,
        }
        self.wire.send("join_group", version, **asked | given)

    def join(self, member_id: str = "", version: int = 9, **given: Any) -> Any:
        """Ask once; the answer."""
        self.send_join(member_id, version, **given)
        answer = self.wire.receive()
        self._renamed(answer.member_id)
        return answer

    def enter(self, version: int = 9, **given: Any) -> Any:
        """Join as clients do: again, with the id, where the first answer only was that."""
        answer = self.join("", version, **given)
        if answer.error_code.name == "member_id_required":
            answer = self.join(answer.member_id, version, **given)
        return answer

    def send_enter(self, version: int = 9, **given: Any) -> str:
        """The same, up to the request that waits for others; the member's id."""
        member_id = self.join("", version, **given).member_id
        self.send_join(member_id, version, **given)
        assert isinstance(member_id, str)
        return member_id

    def send_sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: Mapping[str, bytes] | None = None,
        version: int = 5,
        **given: Any,
    ) -> None:
        asked = {
            "group_id": self.id,
            "generation_id": generation_id,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [
                {"member_id": name, "assignment": data} for name, data in (assignments or {}).items()
            ],
        }
        self.wire.send("sync_group", version, **asked | given)

    def sync(self, *given: Any, **named: Any) -> Any:
        self.send_sync(*given, **named)
        return self.wire.receive()

    def settle(self, **given: Any) -> Any:
        """One member, with all there is; the answer to its join."""
        answer = self.enter(**given)
        assert answer.error_code.name == "none", answer
        synced = self.sync(
            answer.member_id,
            answer.generation_id,
            {answer.member_id: b"all"},
            protocol_type=given.get("protocol_type", "consumer"),
            protocol_name=answer.protocol_name,
        )
        assert synced.error_code.name == "none", synced
        return answer

    def heartbeat(self, member_id: str, generation_id: int, version: int = 4, **given: Any) -> Any:
        asked = {
            "group_id": self.id,
            "generation_id": generation_id,
            "member_id": member_id,
            "group_instance_id": None,
        }
        return self.wire.ask("heartbeat", version, **asked | given).error_code.name

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Any:
        """By member id and instance id, each."""
        if version < _SEVERAL_LEAVE_FROM:
            return self.wire.ask("leave_group", version, group_id=self.id, member_id=members[0][0])
        named = [
            {"member_id": one, "group_instance_id": instance, "reason": None} for one, instance in members
        ]
        return self.wire.ask("leave_group", version, group_id=self.id, members=named)

    # -- offsets

    def commit(
        self,
        topic: str,
        offset: int = 5,
        member_id: str = "",
        generation_id: int = -1,
        version: int = 9,
        **given: Any,
    ) -> list[str]:
        """The codes."""
        partition = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "m",
        }
        asked = {
            "group_id": self.id,
            "generation_id_or_member_epoch": generation_id,
            "member_id": member_id,
            "group_instance_id": None,
            "retention_time": -1,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        answer = self.wire.ask("offset_commit", version, **asked | given)
        return [one.error_code.name for each in answer.topics for one in each.partitions]

    def committed(self, topics: Sequence[str] | None, version: int = 9, **given: Any) -> Any:
        """Of partition 0 of these topics, or of all that there is; the group's part of the answer."""
        named = topics and [{"name": topic, "partition_indexes": [0]} for topic in topics]
        if version < _GROUPS_FROM:
            asked = {"group_id": self.id, "topics": named, "require_stable": False}
            return self.wire.ask("offset_fetch", version, **asked | given)
        group = {"group_id": self.id, "topics": named, "member_id": None, "member_epoch": -1, **given}
        return self.wire.ask("offset_fetch", version, groups=[group], require_stable=True).groups[0]

    def delete_offsets(self, *topics: str, partition: int = 0) -> Any:
        """The code of all, and that of each partition."""
        named = [{"name": topic, "partitions": [{"partition_index": partition}]} for topic in topics]
        answer = self.wire.ask("offset_delete", 0, group_id=self.id, topics=named)
        codes = [
            (one.partition_index, one.error_code.name) for each in answer.topics for one in each.partitions
        ]
        return answer.error_code.name, codes

    # -- as administrators see it

    def catch_up(self) -> None:
        """Apache Kafka writes what it has decided a little later, and tells administrators only of what is written."""
        if not self._clock:
            self._clock.append(self.wire.new_topic())
        assert self.commit(self._clock[0], group_id=f"{self.id}-clock") == ["none"]

    def described(self, version: int = 6, *, operations: bool = False) -> Any:
        self.catch_up()
        answer = self.wire.ask(
            "describe_groups", version, groups=[self.id], include_authorized_operations=operations
        )
        return self.shown(answer.groups[0])

    def listed(self, version: int = 5, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
        """What a list says of this group."""
        self.catch_up()
        answer = self.wire.ask("list_groups", version, states_filter=states, types_filter=types)
        assert answer.error_code.name == "none", answer
        return [self.shown(one) for one in answer.groups if one.group_id == self.id]

    def delete(self, version: int = 2) -> str:
        answer = self.wire.ask("delete_groups", version, groups_names=[self.id])
        (result,) = answer.results
        name = result.error_code.name
        assert isinstance(name, str)
        return name


def _in_order(shown: Any) -> Any:
    if isinstance(shown, dict) and "members" in shown:
        return shown | {"members": sorted(shown["members"], key=itemgetter("member_id"))}
    return shown


def protocols(*names: str, metadata: bytes = SUBSCRIPTION) -> list[dict[str, Any]]:
    """Assignors, the best first."""
    return [{"name": name, "metadata": metadata} for name in names]


def rebalanced(first: Group, second: Group, first_id: str, **given: Any) -> tuple[Any, Any]:
    """A second member joins, and the first one again; both answers."""
    second.send_enter(**given)
    wait_until_called(first, first_id)
    first.send_join(first_id)
    return first.wire.receive(), second.wire.receive()


def wait_until_called(group: Group, member_id: str, generation_id: int = 1) -> None:
    """Until the member is told to join again: a request that waits shows by nothing else."""
    give_up_s = time.monotonic() + _TIMEOUT_S
    while group.heartbeat(member_id, generation_id) == "none":
        assert time.monotonic() < give_up_s, "nobody called it"
        time.sleep(0.002)


def two(wire: Wire) -> tuple[Group, str, Group, str]:
    """A stable group of two, in generation 2: each one's connection and id, the leader's first."""
    first = Group(wire)
    leader = first.settle().member_id
    second = first.another()
    led, followed = rebalanced(first, second, leader)
    second.send_sync(followed.member_id, 2)
    first.sync(leader, 2, {leader: b"to the first", followed.member_id: b"to the second"})
    second.wire.receive()
    assert led.generation_id == 2
    return first, leader, second, followed.member_id


def two_in_a_hurry(wire: Wire, **second_given: Any) -> tuple[Group, str, Group, str]:
    """A stable group of two whose rebalances do not wait for long."""
    first = Group(wire)
    first.catch_up()  # what it needs of the server takes its time, once
    leader = first.settle().member_id
    second = first.another()
    if "group_instance_id" in second_given:
        second.send_join("", rebalance_timeout=SHORT_MS, **second_given)
    else:
        second.send_enter(rebalance_timeout=SHORT_MS)
    wait_until_called(first, leader)
    first.send_join(leader, rebalance_timeout=SHORT_MS)
    first.wire.receive()
    follower = second.wire.receive().member_id
    second.send_sync(follower, 2, **second_given)
    first.sync(leader, 2, {leader: b"to the first", follower: b"to the second"})
    second.wire.receive()
    assert isinstance(follower, str)
    return first, leader, second, follower
