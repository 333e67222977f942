"""Which brokers there are, one connection each, and the version of every message that both sides speak."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from semel.client.connection import Connection
from semel.client.model import BrokerAddress
from semel.errors import BrokerError, ConfigError, ConnectionLost, ErrorCode
from semel.wire import api_versions
from semel.wire.api import ApiKey
from semel.wire.frames import Buffer

PORT_DEFAULT: Final = 9092
BOOTSTRAP: Final = -1  # in place of a node id: any broker will do

# The version of each message that the client writes; every one is served by semel and by Apache Kafka >= 2.8.
CLIENT_VERSION: Final[dict[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,  # the newest that names topics by name
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 10,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 7,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,  # the newest for clients
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
}
# Of these the newest that both sides know is written: what a version adds is optional.
VERSION_RANGE: Final[dict[ApiKey, tuple[int, int]]] = {
    ApiKey.JOIN_GROUP: (2, 9),
    ApiKey.SYNC_GROUP: (1, 5),
    ApiKey.HEARTBEAT: (1, 4),
    ApiKey.LEAVE_GROUP: (1, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (3, 5),  # before 3 nobody says as whom, so nobody is refused (KIP-447)
    ApiKey.LIST_TRANSACTIONS: (0, 1),
}
# Of a transaction; 5 of EndTxn and of TxnOffsetCommit, and 12 of Produce, speak the other protocol (KIP-890, part 2).
VERSION_MAX_BEFORE_V2: Final[dict[ApiKey, int]] = {
    ApiKey.PRODUCE: 11,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
PRODUCE_IN_V2: Final = 12  # the newest that names topics by name
FETCH_BY_ID: Final = 13  # the first that names topics by id; served by semel and by Apache Kafka >= 3.1


def check_security(security_protocol: str) -> None:
    """Refuse what is not there yet, rather than talk in the clear to a log that was to be reached by TLS."""
    if security_protocol.upper() != "PLAINTEXT":
        raise ConfigError(
            f"security_protocol={security_protocol!r}: TLS and SASL are not there yet, semel speaks PLAINTEXT only so "
            f"far; name a listener of that protocol"
        )


def parse_bootstrap(bootstrap: str | list[str]) -> list[BrokerAddress]:
    """``"host:port,host:port"``, or a list of ``"host:port"``; IPv6 hosts in brackets. Without a port: 9092."""
    entries = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    found = []
    for entry in (entry.strip() for entry in entries):
        host, colon, port = entry.rpartition(":")
        if entry.endswith("]") or not colon:
            host, port = entry, str(PORT_DEFAULT)
        if not port.isdigit() or not 0 < int(port) < 65536 or not host or "/" in host:
            raise ConfigError(f"bootstrap address {entry!r} is not HOST:PORT")
        found.append(BrokerAddress(BOOTSTRAP, host.strip("[]"), int(port)))
    if not found:
        raise ConfigError("no bootstrap address was given")
    return found


class Brokers:
    """Connections by node id. Not bound to a loop until first used, and then to that one only."""

    def __init__(
        self,
        bootstrap: str | list[str],
        *,
        client_id: str,
        request_timeout_ms: int,
        connect_timeout_ms: int = 10_000,
    ) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self.client_id = client_id
        self.request_timeout_ms = request_timeout_ms
        self.connect_timeout_ms = connect_timeout_ms
        self.addresses: dict[int, BrokerAddress] = {}
        self._connections: dict[int, Connection] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._served: dict[int, tuple[int, int]] | None = None
        self._features: dict[str, tuple[int, int]] = {}
        self._finalized: dict[str, int] = {}
        self.connections_opened = 0  # a broker that was away, or is another one now, is on a new connection
        self._closed = False
        self._process_id = os.getpid()

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def were_reached(self) -> bool:
        """Whether any has ever answered."""
        return self._served is not None

    def serves(self, api_key: ApiKey) -> bool:
        """Whether the brokers said that they serve this API in our version (once any was connected to)."""
        return self.serves_version(api_key, CLIENT_VERSION[api_key])

    def serves_version(self, api_key: ApiKey, version: int) -> bool:
        """The same of another version than ours."""
        low, high = (self._served or {}).get(api_key, (1, 0))
        return low <= version <= high

    def newest(self, api_key: ApiKey, name: str, version_max: int | None = None) -> int:
        """The newest version of this API that both sides know (once any was connected to), and none above the bound."""
        oldest, newest = VERSION_RANGE[api_key]
        newest = newest if version_max is None else min(newest, version_max)
        low, high = (self._served or {}).get(api_key, (1, 0))
        version = min(newest, high)
        if version < max(oldest, low):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{name} does not serve {api_key.name} in a version of {oldest} to {newest}",
            )
        return version

    def has_feature(self, name: str) -> bool:
        """Whether the brokers said that they support this one of semel's features (once any was connected to)."""
        return name in self._features

    def finalized_level(self, feature: str) -> int:
        """Up to which level the cluster has switched a feature on; 0: not at all (once any was connected to)."""
        return self._finalized.get(feature, 0)

    async def ask(
        self,
        node_id: int,
        api_key: ApiKey,
        parts: list[Buffer],
        *,
        wait_ms: int = 0,
        version: int | None = None,
    ) -> memoryview:
        """One request, one answer. ``wait_ms`` is what the broker itself may take its time for.

        ``version``: that the request is written in, where it is not the usual one; the caller knows that it is served.
        """
        connection = await self.connection(node_id)
        if version is None:
            version = CLIENT_VERSION[api_key]
            self.check(api_key, connection.name)
        return await connection.ask(api_key, version, parts, self.request_timeout_ms + wait_ms)

    def check(self, api_key: ApiKey, name: str) -> None:
        if not self.serves(api_key):
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{name} does not serve {api_key.name} version {CLIENT_VERSION[api_key]}",
            )

    async def connection(self, node_id: int) -> Connection:
        """The one connection to a node, opened if need be. First come, first served: keeps call order."""
        if self._closed:
            raise ConnectionLost("the client is closed")
        if os.getpid() != self._process_id:
            raise ConfigError("this client was made before a fork; make a new one in the child process")
        lock = self._locks.setdefault(node_id, asyncio.Lock())
        async with lock:
            known = self._connections.get(node_id)
            if known is not None and not known.is_lost:
                return known
            connection = self._connections[node_id] = await self._open(node_id)
            self.connections_opened += 1
            return connection

    async def _open(self, node_id: int) -> Connection:
        address = self.addresses.get(node_id)
        candidates = [address] if address is not None else [*self.bootstrap, *self.addresses.values()]
        if node_id != BOOTSTRAP and address is None:
            raise ConnectionLost(f"broker {node_id} is not known")
        failures = []
        unknown_hosts = others = 0
        for candidate in candidates:
            name = f"broker {candidate.host}:{candidate.port}"
            try:
                async with asyncio.timeout(self.connect_timeout_ms / 1000):
                    return await self._connect(candidate, name)
            except TimeoutError:
                failures.append(f"{name}: no connection within {self.connect_timeout_ms} ms")
            except OSError as error:
                failures.append(f"{name}: {_reason(error)}")
                unknown_hosts += isinstance(error, socket.gaierror)
            except ConnectionLost as error:
                failures.append(str(error))
                others += error.not_kafka
        lost = ConnectionLost("; ".join(failures))
        lost.no_such_host = unknown_hosts == len(candidates)
        lost.not_kafka = others == len(candidates)
        raise lost

    async def _connect(self, address: BrokerAddress, name: str) -> Connection:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            lambda: Connection(self.client_id, name), address.host, address.port
        )
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        version = CLIENT_VERSION[ApiKey.API_VERSIONS]
        try:
            body = await connection.ask(
                ApiKey.API_VERSIONS,
                version,
                [api_versions.encode_request(version, "semel", "0.1.0")],
                self.request_timeout_ms,
            )
            answer = api_versions.decode_response(version, body)
        except BaseException:
            connection.fail("the greeting failed")
            raise
        if answer.error_code:
            connection.fail("the greeting was refused")
            raise BrokerError(answer.error_code, f"{name} refused ApiVersions")
        self._served, self._features, self._finalized = answer.ranges, answer.features, answer.finalized
        return connection

    async def close(self) -> None:
        """Close every connection; open requests are lost."""
        self._closed = True
        for connection in self._connections.values():
            connection.fail("the client is closed")
        await asyncio.sleep(0)  # lets the transports tell their protocols


def _reason(error: OSError) -> str:
    """The system's own words: asyncio's name the address once more, and not what is wrong with it."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error.strerror or error)
