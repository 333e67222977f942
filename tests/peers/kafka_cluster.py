"""Three real brokers of Apache Kafka and their controller; each broker can be killed, or cut off from the others.

There are four processes on loopback ports. A broker reaches the controller, and each other broker, through a cable
that a test can pull; clients reach every broker directly. No cable can be gone round: the controller has a listener
for each broker, and so has each broker. The advertised address of a listener is that of its cable, and a broker only
ever looks for the listeners that bear its own number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tests.peers.apache_kafka import JavaTool, Node, free_ports, new_cluster_id
from tests.peers.cable import Cable
from tests.peers.same_as_kafka.wire import Wire

from semel.types import TopicPartition

BROKERS: Final = (1, 2, 3)
CONTROLLER: Final = 100
NOBODY: Final = -1
HEAP_MB: Final = 256
# For a machine on which four processes of Java start beside other work.
READY_TIMEOUT_S: Final = 300.0
SETTLED_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.05
_T = TypeVar("_T")
_Link = tuple[int, int]  # who calls, and who is called

_SETTINGS: Final = {
    # The controller soon sees that a broker is gone, but gives one that is slow its time: of the session half for a
    # heartbeat, of the interval half for the answer.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "200",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "1",
    "num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",  # a leader only moves for what a test does
    "num.network.threads": "1",  # of each listener
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
}


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, as one broker says; of two that brokers name, the higher epoch is newer."""

    node: int
    leader_epoch: int


NONE_YET: Final = Leader(NOBODY, -1)


class KafkaCluster:
    """A running cluster: ``bootstrap`` names its three brokers, whose ids are 1, 2 and 3.

    A cut holds until :meth:`heal`, also when the broker is started again: then it does not come up.
    """

    def __init__(self, tool: JavaTool, folder: Path) -> None:
        links = [(caller, called) for called in (CONTROLLER, *BROKERS) for caller in BROKERS]
        ports = iter(free_ports(len(BROKERS) + len(links)))
        self._addresses = {broker: f"127.0.0.1:{next(ports)}" for broker in BROKERS}
        self.bootstrap = ",".join(self._addresses.values())
        listening = {link: f"127.0.0.1:{next(ports)}" for link in links}
        # A broker calls itself, too: with what it writes as a transaction's coordinator.
        self._cables = {link: Cable(listening[link]) for link in links if link[0] != link[1]}
        advertised = listening | {link: cable.address for link, cable in self._cables.items()}
        clients = {broker: {"PLAINTEXT": address} for broker, address in self._addresses.items()}
        self._nodes = {
            node: Node(
                tool,
                folder / str(node),
                _SETTINGS
                | _own_settings(node, advertised)
                | {
                    "listeners": _urls(clients.get(node, {}) | _listeners(node, listening)),
                    "advertised.listeners": _urls(clients.get(node, {}) | _listeners(node, advertised)),
                    "log.dirs": str(folder / str(node) / "data"),
                },
                heap_mb=HEAP_MB,
            )
            for node in (CONTROLLER, *BROKERS)
        }

    def __enter__(self) -> Self:
        cluster_id = new_cluster_id()
        self._nodes[CONTROLLER].format(cluster_id)
        for broker in BROKERS:
            self._nodes[broker].join(cluster_id)
        try:
            with ThreadPoolExecutor(len(self._nodes)) as threads:  # brokers wait for the controller
                list(threads.map(lambda node: node.start(READY_TIMEOUT_S), self._nodes.values()))
            self.await_whole()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes at once: the folder is scratch."""
        for node in self._nodes.values():
            node.kill()
        for cable in self._cables.values():
            cable.close()

    def address(self, broker: int) -> str:
        """Where clients reach this broker, cut off or not."""
        return self._addresses[broker]

    # What is done to a broker.

    def kill(self, broker: int) -> None:
        """``kill -9``."""
        self._nodes[broker].kill()

    def stop(self, broker: int) -> None:
        """A clean stop: others lead before it ends."""
        self._nodes[broker].stop()

    def start(self, broker: int) -> None:
        """Start it again, with its ports and folder. It then serves, but may not be in sync yet."""
        self._nodes[broker].start(READY_TIMEOUT_S)

    def cut_off_from_controller(self, broker: int) -> None:
        """It does not hear any more who leads. The other brokers still reach it, and it reaches them."""
        self._cables[broker, CONTROLLER].pull()

    def cut_off_from_brokers(self, broker: int) -> None:
        """No broker follows it, and it follows none. It still reaches the controller."""
        for cable in self._between_brokers(broker):
            cable.pull()

    def isolate(self, broker: int) -> None:
        """Only clients reach it."""
        self.cut_off_from_brokers(broker)
        self.cut_off_from_controller(broker)

    def heal(self, broker: int) -> None:
        """Undo all cuts. Until it has caught up takes a moment: see :meth:`await_whole`."""
        for cable in (self._cables[broker, CONTROLLER], *self._between_brokers(broker)):
            cable.plug_in()

    def restore(self) -> None:
        """Heal all brokers, start those that do not run, and wait until the cluster is whole."""
        for broker in BROKERS:
            self.heal(broker)
        for broker in BROKERS:
            if not self._nodes[broker].is_running:
                self.start(broker)
        self.await_whole()

    # What brokers say.

    def leader(self, tp: TopicPartition) -> Leader:
        """The newest of the leaders that running brokers name; waits for one that runs, and knows that it leads."""
        return self.await_leader_after(tp, NONE_YET)

    def leader_by(self, broker: int, tp: TopicPartition) -> Leader:
        """The leader that this broker names to its clients: ``NONE_YET`` where it does not know the partition."""
        return _leaders(self._metadata(broker, tp.topic)).get(tp, NONE_YET)

    def await_leader_after(self, tp: TopicPartition, leader: Leader) -> Leader:
        """Wait until a broker runs, and knows, that leads in a newer epoch than ``leader``'s."""

        def newer() -> Leader | None:
            running = [broker for broker in BROKERS if self._nodes[broker].is_running]
            named = {broker: self.leader_by(broker, tp) for broker in running}
            newest = max(named.values(), key=lambda each: each.leader_epoch)
            leads = newest.leader_epoch > leader.leader_epoch and named.get(newest.node) == newest
            return newest if leads else None

        return _awaited(newer, f"{tp} has no leader after {leader}")

    def await_whole(self) -> None:
        """Wait until all brokers name the same leaders, and all replicas of all partitions are in sync."""
        _awaited(lambda: self._is_whole() or None, "the cluster is not whole")

    def _is_whole(self) -> bool:
        answers = [self._metadata(broker) for broker in BROKERS]
        return all(
            len(answer.brokers) == len(BROKERS)
            and _leaders(answer) == _leaders(answers[0])
            and all(
                partition.leader_id != NOBODY and set(partition.isr_nodes) == set(partition.replica_nodes)
                for topic in answer.topics
                for partition in topic.partitions
            )
            for answer in answers
        )

    def _metadata(self, broker: int, *topics: str) -> Any:
        """A broker's answer about these topics, or about all."""
        with Wire(self.address(broker), topic_prefix="") as wire:
            return wire.ask(
                "metadata",
                12,
                topics=[{"name": name, "topic_id": None} for name in topics] or None,
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )

    def _between_brokers(self, broker: int) -> list[Cable]:
        return [cable for link, cable in self._cables.items() if broker in link and CONTROLLER not in link]


def _own_settings(node: int, advertised: Mapping[_Link, str]) -> dict[str, str]:
    """A node's part in the cluster, and by which listeners it calls and is called."""
    if node == CONTROLLER:
        of_controller, addresses = [*_listeners(node, advertised)], [*_listeners(node, advertised).values()]
        settings = {"process.roles": "controller"}
    else:
        of_controller, addresses = [_listener(node, CONTROLLER)], [advertised[node, CONTROLLER]]
        settings = {"process.roles": "broker", "inter.broker.listener.name": _listener(node, node)}
    names = {"PLAINTEXT", *of_controller, *_listeners(BROKERS[0], advertised)}
    return settings | {
        "node.id": str(node),
        "controller.listener.names": ",".join(of_controller),
        "controller.quorum.voters": f"{CONTROLLER}@{addresses[0]}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in sorted(names)),
    }


def _listeners(node: int, addresses: Mapping[_Link, str]) -> dict[str, str]:
    """Where a node is called, by the names of its listeners."""
    return {_listener(*link): address for link, address in addresses.items() if link[1] == node}


def _listener(caller: int, called: int) -> str:
    """The listener that is for ``caller`` alone; it has the same name at every broker."""
    return f"CONTROLLER_FOR_{caller}" if called == CONTROLLER else f"BROKER_FOR_{caller}"


def _urls(listeners: Mapping[str, str]) -> str:
    return ",".join(f"{name}://{address}" for name, address in listeners.items())


def _leaders(metadata: Any) -> dict[TopicPartition, Leader]:
    return {
        TopicPartition(topic.name, partition.partition_index): Leader(
            partition.leader_id, partition.leader_epoch
        )
        for topic in metadata.topics
        for partition in topic.partitions
    }


def _awaited(look: Callable[[], _T | None], what: str) -> _T:
    give_up_s = time.monotonic() + SETTLED_TIMEOUT_S
    while (found := look()) is None:
        assert time.monotonic() < give_up_s, what
        time.sleep(_POLL_S)
    return found
