"""A producer with a saved identity and position, that dies at any moment and goes on row by row.

It hands the rows of a source that can be read again: row ``n`` and its partition are functions of ``n``. What
it saves, how it resumes and which rows it drops is the client's own code (``client/resuming``,
``core/client/progress``); only its disk, a file that is replaced whole or not at all, is simulated. A newer
copy may start while the older one still runs and still saves, and an older file may be put back. Or a copy is
started on another input by mistake: it must be refused before it sends a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from semel.client.rereading import StoredRows, closed, reread
from semel.client.resuming import begin_topic, count_topic, resume_identity
from semel.core.client.batch import ProducerBatch
from semel.core.client.events import Granted, Tick
from semel.core.client.fate import Fenced, InDoubt, PartFate, Refused, Stored
from semel.core.client.fingerprint import first_row_number
from semel.core.client.progress import Progress
from semel.core.client.saved import SavedIdentity, decode_identity, encode_identity
from semel.core.client.settings import PipelineSettings
from semel.errors import CannotKnow, SemelError
from semel.record.batch import Record
from semel.sim.checkers.watchers import ProducerWatcher
from semel.sim.clients.cluster import SimulatedCluster, drive
from semel.sim.clients.sending import PipelineShell
from semel.sim.clients.session import Session
from semel.sim.world.faults import Fault
from semel.sim.world.history import OTHER_INPUT, Promise, SentRecord, Violation
from semel.sim.world.process import Process
from semel.sim.world.surroundings import Surroundings
from semel.types import ProducerGrant, TopicPartition

RESTART_MS: Final = (20, 2_000)
REQUEST_TIMEOUT_MS: Final = 8_000
SAVE_INTERVAL_MS: Final = 300
BACKUPS_MAX: Final = 60
ROW_GAP_MS_MAX: Final = 100
OTHER_ROWS_MAX: Final = 4  # in front of the saved position, of an input that is another one from there on


class SavedFile:
    """The identity's file on the client's own disk (``client.identity.IdentityKeeper``)."""

    store: Final = "the simulated file"

    def __init__(self) -> None:
        self._content: bytes | None = None
        self._first: bytes | None = None
        self._older: deque[bytes] = deque(maxlen=BACKUPS_MAX)

    async def load(self) -> SavedIdentity | None:
        return self.read()

    async def save(self, saved: SavedIdentity) -> None:
        self.write(saved)

    def read(self) -> SavedIdentity | None:
        if self._content is None:
            return None
        found = decode_identity(self._content)
        assert isinstance(found, SavedIdentity), found
        return found

    def write(self, saved: SavedIdentity) -> None:
        if self._content is not None:
            self._older.append(self._content)
        self._content = encode_identity(saved)
        self._first = self._first or self._content

    @property
    def has_backups(self) -> bool:
        return bool(self._older)

    def put_back(self, random: Random) -> None:
        """What somebody copied away some time ago, mostly at the very beginning."""
        self._content = random.choice((self._first, self._first, random.choice(self._older)))


class Source:
    """The rows, and what outlives every copy that hands them."""

    def __init__(self, name: str, row_count: int, tps: Sequence[TopicPartition], stride: int) -> None:
        self.name: Final = name
        self.row_count: Final = row_count
        self.tps: Final = tps
        self.file: Final = SavedFile()
        self.lives = 0
        self.newest_epoch = -1  # of the copies that have resumed; the one that started last may not be it
        self.is_done = False
        self._stride = stride

    def tp_of(self, row: int) -> TopicPartition:
        return self.tps[row // self._stride % len(self.tps)]

    def value_of(self, row: int) -> bytes:
        return f"{self.name}/{self.tp_of(row).partition}:{row}".encode()

    def value_elsewhere(self, row: int) -> bytes:
        """What the row with that number says in another input."""
        return f"{self.name}{OTHER_INPUT}/{self.tp_of(row).partition}:{row}".encode()

    def rows_of(self, tp: TopicPartition) -> list[int]:
        return [row for row in range(self.row_count) if self.tp_of(row) == tp]

    @property
    def saved_position(self) -> int:
        """Every row up to this one was said to be stored; -1: none."""
        saved = self.file.read()
        return -1 if saved is None or saved.position is None else int(saved.position)


class SimulatedResumer:
    """One copy: resumes, hands rows, and ends when it is done, killed, fenced or at a loss."""

    def __init__(
        self,
        source: Source,
        random: Random,
        around: Surroundings,
        on_end: Callable[[SimulatedResumer], None],
        other_input: tuple[Random, float],
    ) -> None:
        self.source: Final = source
        self.name: Final = f"{source.name}.{source.lives}"
        self.is_resuming = True
        self.process = Process(around.scheduler)
        source.lives += 1
        self._life = source.lives
        self._epoch = -1
        self._random = random
        self._around = around
        self._on_end = on_end
        self._next_row = 0
        self._other_input = other_input
        self._other_from = source.row_count  # rows from there on are another input's
        self._stored: dict[TopicPartition, StoredRows] = {}
        self._progress: Progress | None = None
        self._session = Session(self.name, self.process, around.network)
        self._cluster = SimulatedCluster(self.process, self._session, REQUEST_TIMEOUT_MS)
        self._shell = PipelineShell(
            self.process,
            self._cluster,
            PipelineSettings(
                batch_bytes=random.choice((100, 200, 400)),
                linger_ms=random.choice((0, 5, 50)),
                in_flight_max=random.choice((1, 3, 5)),
                delivery_timeout_ms=random.choice((3_000, 10_000, 60_000)),
                strict=True,
            ),
            on_settled=self._settle,
        )
        self._saved_before = source.file.read()
        drive(self._open(), self._opened)

    @property
    def is_newest(self) -> bool:
        return self._life == self.source.lives

    @property
    def _may_promise(self) -> bool:
        """No other copy has resumed since, so what this one is told of a row is the last word."""
        return self._epoch == self.source.newest_epoch

    def die(self, why: str) -> None:
        """Without a word; a newer copy may be told what this one was not."""
        if not self.process.alive:
            return
        self.process.alive = False
        self._session.die()
        self.release()
        if self._may_promise:
            for records in self._shell.open.values():
                for record in records:
                    if record.promise is Promise.OPEN:
                        record.promise = Promise.UNKNOWN
        self._around.trace.note(self.name, f"ends: {why}")
        self._on_end(self)

    def release(self) -> None:
        """Close what the rows to compare are kept in."""
        closed(self._stored.values())

    # -- resuming ---------------------------------------------------------------------------------------

    async def _open(self) -> Progress:
        file, topic = self.source.file, self.source.tps[0].topic
        saved = await resume_identity(self._cluster, file, self.source.name)  # type: ignore[arg-type]
        progress = Progress(saved, SAVE_INTERVAL_MS)
        if not progress.has_begun(topic):
            begun, topic_id = await begin_topic(self._cluster, progress.saved, topic)
            file.write(progress.note_topic(topic, begun, topic_id))
        if not progress.knows_topic(topic):
            file.write(progress.note_topic(topic, await count_topic(self._cluster, progress.saved, topic)))
        self._stored = await reread(self._cluster, progress.saved, self.source.tps)
        return progress

    def _opened(self, progress: Progress | None, error: Exception | None) -> None:
        self.is_resuming = False
        if progress is None:
            if isinstance(error, CannotKnow):
                self._give_up(error)
            elif not isinstance(error, SemelError):
                assert error is not None
                raise error
            self.die(f"cannot resume: {type(error).__name__}: {error}")
            return
        self._progress = progress
        self._next_row = 0 if progress.saved.position is None else int(progress.saved.position) + 1
        if (number := first_row_number(progress.saved.recent)) is not None:
            random, chance = self._other_input
            if self._around.counts.bites(Fault.OTHER_INPUT, random, chance):
                self._other_from = max(number, self._next_row - random.randint(1, OTHER_ROWS_MAX))
            self._next_row = number
            progress.compare_from(number)
        grant = ProducerGrant(progress.saved.producer_id, progress.saved.producer_epoch)
        self._around.watchers.of(ProducerWatcher).granted(grant, is_fresh=False)
        self._epoch = grant.producer_epoch
        self.source.newest_epoch = max(self.source.newest_epoch, grant.producer_epoch)
        totals = {tp.partition: item.stored for tp, item in progress.saved.partitions.items()}
        self._around.trace.note(self.name, f"resumes as {grant} from row {self._next_row}, stored {totals}")
        self._shell.handle(Granted(grant))
        self.process.after(1, self._hand_rows)

    def _give_up(self, error: CannotKnow) -> None:
        """Right only if the log really was trimmed beyond what had been counted, or is compacted."""
        saved, starts = self._saved_before, self._around.history.log_starts
        known = {} if saved is None else saved.partitions
        counted_to = {tp: known[tp].counted_to_offset if tp in known else 0 for tp in self.source.tps}
        if self._around.history.compaction is not None:
            self._around.counts.verdict("resume: refused, log compacted")
            self.source.is_done = True
            return
        if all(starts.get(tp, 0) <= offset for tp, offset in counted_to.items()):
            raise Violation("rows_resume_exactly", f"{self.name} gave up though nothing was trimmed: {error}")
        self._around.counts.verdict("resume: refused, rows trimmed")
        self.source.is_done = True

    # -- rows -------------------------------------------------------------------------------------------

    def _hand_rows(self) -> None:
        progress, shell, source = self._progress, self._shell, self.source
        assert progress is not None
        for _ in range(self._random.choice((1, 2, 6))):
            if self._next_row >= source.row_count or shell.pipeline.accumulator.unsettled_batches > 30:
                break
            row, tp = self._next_row, source.tp_of(self._next_row)
            self._next_row += 1
            self._around.counts.operations += 1
            is_other = row >= self._other_from
            value = source.value_elsewhere(row) if is_other else source.value_of(row)
            says = self._around.history.record_of(value, tp).as_row(0)
            progress.at(row, self.process.now_ms)
            progress.begin()
            if progress.is_comparing:
                if progress.compare(tp.topic, tp.partition, says) is not None:
                    self._refuse_input(row)
                    return
                progress.handed()
                continue
            progress.note(tp.topic, tp.partition, says)
            must_go = progress.hand(tp)
            if not must_go and not self._is_stored(tp, says):
                return
            progress.handed()
            if not must_go:
                self._around.counts.verdict("resume: row dropped, stored already")
                continue
            record = self._around.history.sent_again(value, tp)
            shell.append(record)
        shell.handle(Tick())
        if shell.pipeline.failed is not None or shell.pipeline.fenced is not None:
            return  # this copy ends
        if self._next_row >= source.row_count and not shell.pipeline.accumulator.unsettled_batches:
            self._finish(progress)
            return
        self.process.after(self._random.randint(1, ROW_GAP_MS_MAX), self._hand_rows)

    def _is_stored(self, tp: TopicPartition, row: Record) -> bool:
        """A row that is to be dropped; False once this copy has ended because of it."""
        stored = self._stored[tp]
        if stored.lost is not None:
            assert self._progress is not None
            item = self._progress.saved.partitions[tp]
            is_trimmed = self._around.history.log_starts.get(tp, 0) > item.reread_offset
            if not is_trimmed and self._around.history.compaction is None:
                raise Violation(
                    "rows_resume_exactly", f"{self.name} misses rows of {tp} though none was trimmed"
                )
            what_became = "trimmed" if is_trimmed else "compacted"
            self._around.counts.verdict(f"resume: refused, rows to compare {what_became}")
            self.source.is_done = True
            self.die("rows to compare were trimmed")
            return False
        if not stored.is_next(row.key, row.value, row.headers):
            raise Violation("rows_resume_exactly", f"{self.name} refuses {row} of {tp}, which is stored")
        return True

    def _refuse_input(self, row: int) -> None:
        """Right only if it is another one."""
        if row < self._other_from:
            raise Violation("rows_resume_exactly", f"{self.name} refuses the input that it had, at row {row}")
        self._around.counts.verdict("resume: refused, other input")
        self.die(f"another input, from row {self._other_from} on")

    def _finish(self, progress: Progress) -> None:
        progress.mark(self.process.now_ms)
        due = progress.to_save()
        if due is None:
            raise Violation(
                "rows_resume_exactly", f"{self.name} has nothing open and cannot save its position"
            )
        self.source.file.write(due)
        self.source.is_done = True
        self.die("all rows are stored")

    def _settle(self, rows: Sequence[SentRecord], batch: ProducerBatch, fate: PartFate) -> None:
        self._around.trace.note(self.name, f"{rows[0].value.decode()}+{len(rows)} {type(fate).__name__}")
        if isinstance(fate, Stored):
            for place, record in enumerate(rows):
                record.promise = Promise.STORED
                record.record_offset = None if fate.base_offset is None else fate.base_offset + place
        elif self._may_promise:
            refused = isinstance(fate, Refused) or (isinstance(fate, Fenced) and not fate.maybe_stored)
            for record in rows:
                record.promise = Promise.REFUSED if refused else Promise.UNKNOWN
        assert self._progress is not None
        self._progress.stored(batch.tp, fate, batch.record_count)
        due = self._progress.to_save()
        if due is not None:
            self.source.file.write(due)
        if isinstance(fate, (Refused, InDoubt, Fenced)):
            self.process.after(0, lambda: self.die(f"a row is {type(fate).__name__}"))
