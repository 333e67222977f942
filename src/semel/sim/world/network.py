"""The network: byte streams between clients and one server, each breakable in every way that TCP is.

Invariants: one direction of one connection delivers in order and at most once (it is TCP), so reordering and
replay happen across connections only, as they do in life: an old request still under way on a connection
that its client has given up is delivered late, and a middlebox may deliver it again on a connection of its
own. A broken direction stays broken; each side learns of a break late or (half-open) never.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import Struct
from typing import Final, Protocol

from semel.sim.world.faults import Counts, Fault, FaultMix
from semel.sim.world.scheduler import Scheduler
from semel.sim.world.trace import Trace
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, LENGTH_BYTES

LATENCY_MS_MAX: Final = 12
SLOW_DELIVERY_MS: Final = (1_500, 12_000)
_REQUEST: Final = Struct(">hhi")  # API key, version, correlation id
_WRITES: Final = {
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_COMMIT,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
}
REPLAY_MS_MAX: Final = (100, 1_000, 20_000)  # soon, what was sent beside it is under way still


class Endpoint(Protocol):
    """One process's end of its connections."""

    def bytes_arrived(self, link: Link, data: bytes) -> None: ...

    def link_closed(self, link: Link) -> None: ...


class Link:
    """One side of one connection."""

    __slots__ = ("_network", "arrives_ms", "broken", "endpoint", "name", "open", "peer", "writes")

    def __init__(self, network: Network, name: str, endpoint: Endpoint) -> None:
        self._network = network
        self.name = name
        self.endpoint: Final = endpoint
        self.peer: Link = self
        self.open = True
        self.broken = False  # what this side sends reaches nobody
        self.arrives_ms = 0  # when the last bytes sent so far arrive: later ones may not overtake
        self.writes: set[int] = set()  # requests that are to change the log, and are not answered yet

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        if self.open:
            self._network.carry(self, frame)

    def close(self) -> None:
        """Close in good order: what was sent still arrives."""
        if self.open:
            self.open = False
            self._network.closed(self)

    def vanish(self) -> None:
        """The process behind this side died: nothing it had not yet sent out is sent."""
        self.open = False


class Network:
    """Carries frames between the clients and whoever listens."""

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        random_of_replays: Random,
        trace: Trace,
        counts: Counts,
        mix: Callable[[], FaultMix],
    ) -> None:
        self._scheduler = scheduler
        self._random = random
        self._random_of_replays = random_of_replays
        self._trace = trace
        self.counts: Final = counts
        self._cut_from_clients = False
        self._cut_until_ms = 0
        self._mix = mix
        self._connections = 0
        self.listener: Endpoint | None = None

    def connect(
        self, endpoint: Endpoint, connected: Callable[[Link], None], refused: Callable[[], None]
    ) -> None:
        """Answers later, one way or the other."""
        delay_ms = self._random.randint(1, LATENCY_MS_MAX)
        if self.counts.bites(Fault.REFUSED, self._random, self._mix().refused):
            self._scheduler.after(delay_ms, refused)
            return

        def arrive() -> None:
            if self.listener is None:
                refused()
                return
            near, far = self._pair(endpoint, self.listener)
            del far
            connected(near)

        self._scheduler.after(delay_ms, arrive)

    def _pair(self, endpoint: Endpoint, listener: Endpoint) -> tuple[Link, Link]:
        self._connections += 1
        near = Link(self, f"c{self._connections}", endpoint)
        far = Link(self, f"s{self._connections}", listener)
        near.peer, far.peer = far, near
        return near, far

    def cut(self, *, from_clients: bool, until_ms: int) -> None:
        """Until then nothing that is sent in this one direction arrives, and nobody is told."""
        self._cut_from_clients, self._cut_until_ms = from_clients, until_ms

    def carry(self, link: Link, frame: bytes) -> None:
        if link.broken:
            return
        random, mix, bites = self._random, self._mix(), self.counts.bites
        from_client = link.endpoint is not self.listener
        executed = False
        if from_client:
            if len(frame) >= LENGTH_BYTES + _REQUEST.size:  # or no request at all, from who speaks no Kafka
                api_key, _, correlation_id = _REQUEST.unpack_from(frame, LENGTH_BYTES)
                if api_key in _WRITES:
                    link.peer.writes.add(correlation_id)
        else:
            (correlation_id,) = INT32.unpack_from(frame, LENGTH_BYTES)
            executed = correlation_id in link.writes
            link.writes.discard(correlation_id)
        if self._scheduler.now_ms < self._cut_until_ms and from_client == self._cut_from_clients:
            self._trace.note(link.name, "half-open by a one-way cut")
            link.broken = True
        elif executed and bites(Fault.RESET_AFTER_APPEND, random, mix.reset_after_append):
            self._break(link, frame, 0, "answer lost")
        elif bites(Fault.LOST_FRAME, random, mix.lost_frame):
            self._break(link, frame, 0, "frame lost")
        elif len(frame) > 1 and bites(Fault.CUT_MID_FRAME, random, mix.cut_mid_frame):
            self._break(link, frame, random.randrange(1, len(frame)), "cut in mid-frame")
        elif bites(Fault.HALF_OPEN, random, mix.half_open):
            self._trace.note(link.name, "half-open from here")
            link.broken = True
        else:
            self._deliver(link, frame, self._delay_ms(mix))
            if from_client and random.random() < mix.replay and self.counts.occurs(Fault.REPLAY):
                self._replay(frame)

    def _delay_ms(self, mix: FaultMix) -> int:
        if self.counts.bites(Fault.SLOW_DELIVERY, self._random, mix.slow_delivery):
            return self._random.randint(*SLOW_DELIVERY_MS)
        return self._random.randint(1, LATENCY_MS_MAX)

    def _deliver(self, link: Link, data: bytes, delay_ms: int) -> None:
        peer = link.peer
        link.arrives_ms = max(self._scheduler.now_ms + delay_ms, link.arrives_ms)

        def arrive() -> None:
            if peer.open:
                peer.endpoint.bytes_arrived(peer, data)

        self._scheduler.after(link.arrives_ms - self._scheduler.now_ms, arrive)

    def _break(self, link: Link, frame: bytes, arrives_bytes: int, why: str) -> None:
        """Reset the connection while ``frame`` is under way; its first ``arrives_bytes`` still arrive."""
        self._trace.note(link.name, f"{why}, {arrives_bytes} of {len(frame)} bytes arrive")
        if arrives_bytes:
            self._deliver(link, frame[:arrives_bytes], self._random.randint(1, LATENCY_MS_MAX))
        link.broken = link.peer.broken = True
        self._tell(link, 1)
        self._tell(link.peer, max(1, link.arrives_ms - self._scheduler.now_ms))

    def closed(self, link: Link) -> None:
        """``link`` was closed by its owner: the peer learns of it after all that was sent."""
        if not link.broken:
            delay_ms = self._random.randint(1, LATENCY_MS_MAX)
            self._tell(link.peer, max(delay_ms, link.arrives_ms - self._scheduler.now_ms))

    def died(self, link: Link) -> None:
        """The process behind ``link`` is gone; the peer learns of it by a reset, or (power cut) never."""
        link.vanish()
        link.broken = True
        self._tell(link.peer, self._random.randint(1, LATENCY_MS_MAX))

    def _tell(self, link: Link, delay_ms: int) -> None:
        def closed() -> None:
            if link.open:
                link.open = False
                link.endpoint.link_closed(link)

        self._scheduler.after(delay_ms, closed)

    def _replay(self, frame: bytes) -> None:
        """Deliver ``frame`` once more, later, on a connection whose answers nobody reads."""

        def arrive() -> None:
            if self.listener is not None:
                self.counts.bit(Fault.REPLAY)
                near, far = self._pair(_NOBODY, self.listener)
                near.open = False
                self._trace.note(far.name, f"replay of {len(frame)} bytes")
                self.listener.bytes_arrived(far, frame)

        random = self._random_of_replays
        self._scheduler.after(random.randint(1, random.choice(REPLAY_MS_MAX)), arrive)


class _Nobody:
    """The sender of a replayed frame: long gone."""

    def bytes_arrived(self, link: Link, data: bytes) -> None:
        pass

    def link_closed(self, link: Link) -> None:
        pass


_NOBODY: Final = _Nobody()
