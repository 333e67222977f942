"""Who runs the clients of transactions, and does to them what people and orchestrators do.

Clients are killed in the middle of any step, and come back under the same transactional id: soon, or only when the
transaction that they left has taken too long; at times while an older copy still runs, or stands still beyond its
time. Readers are killed, and go on from what they have committed. Topics are trimmed. And the server dies a moment
after it has said something that it should remember.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from semel.server.storage.aside import Change
from semel.server.storage.storage import Storage
from semel.sim.clients.cluster import SimulatedRuntime, drive
from semel.sim.server.machine import SimulatedServer
from semel.sim.server.operator import Operator, drawn_interval_ms
from semel.sim.transactions.client import TransactionClient
from semel.sim.transactions.ledger import OFFSETS
from semel.sim.transactions.reader import TransactionReader
from semel.sim.transactions.requests import Connections
from semel.sim.transactions.story import TransactionPlan, TransactionStory
from semel.sim.transactions.watcher import TransactionWatcher
from semel.sim.world.faults import Fault
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings

RESTART_MS: Final = (5, 1_500)
LATE_RESTART_CHANCE: Final = 0.25  # so that a transaction may take too long
LOOK_MS: Final = 100
CRASH_SOON_MS_MAX: Final = (8, 40)  # before the client has gone on, or while it does
LAST_KILL_CHANCE: Final = 0.4
LATE_MS: Final = 61_000  # a slow sync ends, a request that is under way has come
PATIENCE_MORE_MS: Final = 8_000  # a client's own pauses, and requests that it gives up
AGAIN_MS: Final = 60
LOOK_AT_SERVER_MS: Final = 1_500


@dataclass(frozen=True, slots=True)
class TransactionMix:
    """Mean times of one seed between disasters of each kind; 0: none."""

    kill_ms: int
    pause_ms: int
    twin_ms: int
    reader_ms: int
    trim_ms: int
    crash_behind_answer: float  # the server, behind an answer to a client

    @staticmethod
    def draw(random: Random) -> TransactionMix:
        def interval_ms(least: int, most: int, chance: float = 0.7) -> int:
            return drawn_interval_ms(random, least, most, chance)

        return TransactionMix(
            kill_ms=interval_ms(800, 6_000),
            pause_ms=interval_ms(1_500, 8_000),
            twin_ms=interval_ms(1_500, 6_000),
            reader_ms=interval_ms(1_000, 6_000),
            trim_ms=interval_ms(2_000, 8_000, 0.4),
            crash_behind_answer=random.choice((0.0, 0.01, 0.03, 0.1)),
        )


class TransactionOperator(Operator):
    """Of all transactional ids of one history."""

    def __init__(
        self,
        story: TransactionStory,
        server: SimulatedServer,
        random: Random,
        around: Surroundings,
        mix: TransactionMix,
    ) -> None:
        self.clients: Final[list[TransactionClient]] = []  # those that live, zombies included
        self.readers: Final[list[TransactionReader]] = []
        self._audits: list[TransactionReader] = []
        super().__init__(server, random, around)
        self._story, self._mix = story, mix
        self._watcher = around.watchers.of(TransactionWatcher)
        self._process = Process(around.scheduler)
        self._tool = Connections(story, "transactions.tool", self._process, around)
        self._runtime = SimulatedRuntime(self._process)
        self._lives = 0
        self._was_settled = False
        self._read_to = 0  # by all readers together: who reads on, however slowly, waits for nobody
        self._looked_up: set[str] = set()  # groups whose offsets were asked for at the end
        for plan in story.plans:
            self._start_later(plan)
        for number in range(story.committed_readers):
            self._start_reader(f"committed{number}", is_committed=True)
        self._start_reader("all", is_committed=False)
        for mean_ms, happen in (
            (mix.kill_ms, self._kill),
            (mix.pause_ms, self._pause),
            (mix.twin_ms, self._start_twin),
            (mix.reader_ms, self._kill_reader),
            (mix.trim_ms, self._trim),
        ):
            if mean_ms:
                self._later(mean_ms, happen)
        self._look_at_server(was_healthy=True)

    # -- the end ----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """No more disasters: clients end with their transaction; some die in it, and nobody comes in their place."""
        self._stopped_ms = self._disturbed_ms = self._around.scheduler.now_ms
        for client in list(self.clients):
            client.is_to_end = True
            if self._random.random() < LAST_KILL_CHANCE:
                client.die()
                self.clients.remove(client)
        self._look()

    def _look(self) -> None:
        """Whether all has ended, again and again."""
        if self._is_over:
            return
        assert self._stopped_ms is not None
        now_ms = self._around.scheduler.now_ms
        read_to = sum(sum(one.positions.values()) for one in (*self.readers, *self._audits))
        if not self._server.is_healthy or read_to > self._read_to:
            self._disturbed_ms = now_ms
        self._read_to = read_to
        if not self._audits and not self._what_goes_on():
            self._audits.append(self._reader("audit", None, is_committed=True))
            for plan in self._story.plans:
                drive(self._look_up(plan), _unless_a_defect)
        quiet_from_ms = max(self._stopped_ms + LATE_MS, self._disturbed_ms)
        patience_ms = max(plan.timeout_ms for plan in self._story.plans) + PATIENCE_MORE_MS
        open_still = "; ".join(self.what_is_open) or None
        self._was_settled = open_still is None
        self._watcher.transactions_waited(now_ms - quiet_from_ms, patience_ms, open_still)
        self._around.scheduler.after(LOOK_MS, self._look)

    async def _look_up(self, plan: TransactionPlan) -> None:
        while await self._tool.position(plan.group_id, plan.input) is None:
            await self._runtime.pause(AGAIN_MS)
        self._looked_up.add(plan.group_id)

    @property
    def is_settled(self) -> bool:
        """Asked for after every event: looked at closely only where it was so a moment ago."""
        return self._was_settled and not self.what_is_open

    @property
    def what_is_open(self) -> list[str]:
        return self._what_goes_on() or [*self._what_is_unread()]

    def _what_goes_on(self) -> list[str]:
        storage = self._server.storage
        if storage is None:
            return ["no server"]
        found = [f"{client.name} goes on" for client in self.clients]
        for plan in self._story.plans:
            known = storage.transactions.get(plan.transactional_id)
            if known is not None and not known.state.is_at_rest:
                found.append(f"{plan.transactional_id} is {known.state.title}")
        for tp in (*self._story.tps, OFFSETS):
            partition = storage.partition(tp.topic, tp.partition)
            assert partition is not None
            if partition.open_transactions():
                found.append(f"{tp} has {partition.open_transactions()}")
            elif tp != OFFSETS and partition.last_stable_offset != partition.log_end_offset:
                found.append(
                    f"{tp} is stable to {partition.last_stable_offset} of {partition.log_end_offset}"
                )
        return found

    def _what_is_unread(self) -> list[str]:
        found = [plan.group_id for plan in self._story.plans if plan.group_id not in self._looked_up]
        readers = [*self._audits, *(reader for reader in self.readers if reader.is_committed)]
        for reader in readers:
            for tp in self._story.tps:
                if reader.positions.get(tp) != self._server.log_end_offset(tp):
                    found.append(f"{reader.name} is at {reader.positions.get(tp)} of {tp}")
        return found if self._audits else ["no audit"]

    @property
    def processes(self) -> list[tuple[str, Process]]:
        clients = [(client.name, client.process) for client in self.clients]
        return clients + [(reader.name, reader.process) for reader in self.readers]

    def finished(self) -> None:
        assert self._server.storage is not None
        for tp in self._story.tps:
            partition = self._server.storage.partition(tp.topic, tp.partition)
            assert partition is not None
            self._story.log_starts[tp] = partition.log_start_offset
        self._watcher.history_ended(self._story)

    def end(self) -> None:
        self._is_over = True
        for client in self.clients:
            client.die()
        for reader in (*self.readers, *self._audits):
            reader.die()
        self.clients.clear()
        self.readers.clear()
        self._tool.die()
        self._process.alive = False

    # -- clients ----------------------------------------------------------------------------------------

    def _start_later(self, plan: TransactionPlan) -> None:
        delay_ms = self._random.randint(*RESTART_MS)
        if self._random.random() < LATE_RESTART_CHANCE:
            delay_ms += 2 * plan.timeout_ms
        self._around.scheduler.after(delay_ms, lambda: self._start(plan) if self.is_wanted else None)

    def _start(self, plan: TransactionPlan) -> None:
        self._lives += 1
        client = TransactionClient(
            plan,
            self._story,
            f"{plan.transactional_id}.{self._lives}",
            Random(self._random.random()),
            self._around,
            on_end=self._ended,
            on_step=self._stepped,
        )
        if not client.is_over:
            self.clients.append(client)

    def _ended(self, client: TransactionClient) -> None:
        """It was fenced. Unless a newer copy runs, another one begins."""
        if client in self.clients:
            self.clients.remove(client)
        if self.is_wanted and all(one.plan is not client.plan for one in self.clients):
            self._start_later(client.plan)

    def _stepped(self) -> None:
        """The server has answered something that matters."""
        if self.is_wanted and self._random.random() < self._mix.crash_behind_answer:
            soon_ms = self._random.randint(0, self._random.choice(CRASH_SOON_MS_MAX))
            self._around.scheduler.after(soon_ms, self._crash)

    def _look_at_server(self, *, was_healthy: bool) -> None:
        """One that stays without a log is started anew: without that of states no transaction goes on."""
        is_healthy = self._server.is_healthy or not self._server.is_up
        if not is_healthy and not was_healthy:
            self._server.kill()
        if self.is_wanted:
            self._around.scheduler.after(
                LOOK_AT_SERVER_MS, lambda: self._look_at_server(was_healthy=is_healthy)
            )

    def _kill(self) -> None:
        if self.clients and self._around.counts.bites(Fault.TRANSACTION_CLIENT_KILL, self._random, 1.0):
            client = self._random.choice(self.clients)
            self._around.trace.note(client.name, "killed")
            client.die()
            self._ended(client)

    def _pause(self) -> None:
        """Mostly until its transaction has taken too long."""
        if self.clients and self._around.counts.bites(Fault.TRANSACTION_CLIENT_PAUSE, self._random, 1.0):
            client = self._random.choice(self.clients)
            pause_ms = int(client.plan.timeout_ms * self._random.uniform(0.3, 2.5))
            client.process.stop_for(pause_ms)
            self._around.trace.note(client.name, f"stands still for {pause_ms} ms")

    def _start_twin(self) -> None:
        if self.clients and self._around.counts.bites(Fault.TRANSACTION_TWIN, self._random, 1.0):
            older = self._random.choice(self.clients)
            if self._random.random() < 0.5:  # so that it has something to say later
                older.process.stop_for(self._random.randint(100, 2 * older.plan.timeout_ms))
            self._start(older.plan)

    # -- readers ----------------------------------------------------------------------------------------

    def _reader(self, name: str, group_id: str | None, *, is_committed: bool) -> TransactionReader:
        self._lives += 1
        self._story.steady_readers.add(f"{name}.{self._lives}")
        return TransactionReader(
            self._story,
            f"{name}.{self._lives}",
            group_id,
            Random(self._random.random()),
            self._around,
            is_committed=is_committed,
        )

    def _start_reader(self, name: str, *, is_committed: bool) -> None:
        self.readers.append(self._reader(name, f"{name}.group", is_committed=is_committed))

    def _kill_reader(self) -> None:
        if self._around.counts.bites(Fault.TRANSACTION_READER_KILL, self._random, 1.0):
            reader = self._random.choice(self.readers)
            reader.die()
            self.readers.remove(reader)
            self._start_reader(reader.name.split(".")[0], is_committed=reader.is_committed)

    # -- topics -----------------------------------------------------------------------------------------

    def _trim(self) -> None:
        if self._server.storage is None or not self._around.counts.occurs(Fault.TRANSACTION_TRIMMED):
            return
        tp = self._random.choice(self._story.tps)
        share = self._random.random()

        def begin(storage: Storage, now_ms: int) -> Change[object]:
            partition = storage.partition(tp.topic, tp.partition)
            assert partition is not None
            start, end = partition.log_start_offset, partition.high_watermark
            return partition.delete_records(start + int(share * (end - start)))

        self._server.change(begin)
        self._around.counts.bit(Fault.TRANSACTION_TRIMMED)


def _unless_a_defect(result: Any, error: Exception | None) -> None:
    if error is not None:
        raise error
