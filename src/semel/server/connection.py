"""One client's connection: bytes in, whole frames to the broker, answers out in the order of the requests.

Invariants
- Requests take effect in the order in which they were sent (:mod:`semel.server.in_order`).
- Memory is bounded: reads land in one scratch buffer shared by all connections (:mod:`semel.server.turn`); only a
  frame that does not arrive at once gets a buffer of its own, and counts against the server's budget.
- Nothing is handled while the client does not read its answers, has too many open, or the budget is spent:
  then the connection stops reading, and TCP tells the client.
- A frame with a length that cannot be, or that does not arrive in time, closes this connection and no other.
- Before its first good request a client gets small frames only.
- A connection that is held for an offence is neither read nor answered, and holds nothing but its socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from semel.config import Address
from semel.server.answers import Answers, Owed
from semel.server.arriving import Arriving
from semel.server.bounded_log import shown
from semel.server.durability import Syncable
from semel.server.in_order import InOrder
from semel.server.offenders import delay_s
from semel.server.outcome import (
    AfterSync,
    Answer,
    AnswerInFiles,
    Compressing,
    Delayed,
    Disconnect,
    Handled,
    NotServed,
    Operation,
    framed,
)
from semel.server.outlet import Outlet
from semel.server.purgatory import DelayedOperation
from semel.server.router import handle_next, plain_at_head
from semel.server.shell import Shell
from semel.wire.api import ApiKey
from semel.wire.frames import INT32, LENGTH_BYTES, Buffer, MalformedMessage

REQUESTS_OPEN_MAX: Final = 64  # answers that one connection may be owed
WRITE_BUFFER_HIGH_BYTES: Final = 1024 * 1024
JOINED_BYTES_MAX: Final = 16 * 1024  # larger ones gain nothing by company, and lie in a fresh cache
REQUEST_BYTES_MIN: Final = 8  # API key, version, correlation id
_PRODUCE: Final = int(ApiKey.PRODUCE)


class Connection(asyncio.BufferedProtocol):
    """The shell of one connection; every decision is the broker's."""

    __slots__ = (
        "_answers",
        "_arriving",
        "_backlog",
        "_closing",
        "_delayed",
        "_flush_scheduled",
        "_good",
        "_in_order",
        "_in_turn",
        "_is_held",
        "_outlet",
        "_partial",
        "_reading",
        "_shell",
        "_software",
        "_transport",
        "_unsent_bytes",
        "_unsent_since_s",
        "_waiting",
        "_write_paused",
        "active_at_s",
        "dialled",
        "peer_host",
    )

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._partial = b""  # the start of a frame of which not even the length is whole
        self._arriving = Arriving(shell.frame_pool, shell.budget)
        self._backlog = b""  # bytes that were read but may not be handled yet
        self._answers = Answers()
        self._in_order = InOrder()
        self._in_turn: Owed | None = None  # the answer to what is appended when the turn ends
        self._waiting: bool | None = None  # the next request may not begin yet; whether it is a produce
        self._delayed: set[DelayedOperation] = set()
        self._flush_scheduled = False
        self._reading = True
        self._write_paused = False
        self._unsent_bytes = 0
        self._unsent_since_s = 0.0
        self._good = False
        self._closing = False
        self._is_held = False  # for an offence: it is closed, but later
        self._software = "software unknown"
        self.active_at_s = 0.0
        self.peer_host = ""
        self.dialled = Address("", 0)

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "writelines")
        self._transport = transport  # type: ignore[assignment]
        self._outlet = Outlet(self._transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if not peer or not own:  # it closed before it was accepted
            self._transport.abort()
            return
        self.peer_host = str(peer[0])
        self.dialled = Address(str(own[0]), int(own[1]))
        self.active_at_s = self._shell.loop.time()
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)
        refusal = self._shell.admit(self)
        if refusal is not None:
            why = f"refused a connection from {self.peer_host}: {refusal}"
            self._shell.lines.tell(logging.WARNING, self.peer_host, "refused", why)
            self._closing = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._outlet.let_go()
        self._let_go_of_requests()
        self._count_unsent(0)
        self._shell.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        arriving = self._arriving
        if arriving.frame is not None:
            return arriving.frame[arriving.filled_bytes :]
        return self._shell.turn.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at_s = self._shell.loop.time()
        arriving = self._arriving
        if arriving.frame is None:
            self._feed(self._shell.turn.read(nbytes))
        else:
            arriving.filled_bytes += nbytes
            if arriving.is_whole:
                self._handle_own_frame(arriving.frame)
                self._settle()
        self._flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True
        self._count_unsent(self._transport.get_write_buffer_size())
        self._settle()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._count_unsent(0)
        self.resume()

    # -- the shell's side

    def close(
        self, reason: str, cause: str | None = None, *, level: int = logging.INFO, is_offence: bool = False
    ) -> None:
        """Close at once, or later for an offence that is repeated; the others feel nothing.

        Lines of one ``cause`` are bounded: it is the reason without what differs each time.
        """
        if self._closing:
            return
        self._closing = True
        text = f"closed the connection from {self.peer_host}: {reason}"
        times = self._shell.lines.tell(level, self.peer_host, cause or reason, text)
        held_for_s = delay_s(times) if is_offence else 0.0
        if not held_for_s:
            self._transport.abort()
            return
        self._is_held = True
        self._let_go_of_requests()
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._shell.offenders.hold(self, held_for_s)

    def let_go(self) -> None:
        """It was held long enough, or its place is wanted."""
        self._shell.forget(self)
        self._transport.abort()

    def close_when_answered(self) -> None:
        """Read no more, answer what is open, then close: the server stops."""
        self._closing = True
        if self._reading:
            self._reading = False
            self._transport.pause_reading()
        self._flush()
        if not self._answers:
            self._transport.close()

    @property
    def owes_answers(self) -> bool:
        return bool(self._answers)

    @property
    def place_in_line(self) -> tuple[bool, int]:
        """Among those that are held up, the least comes first: who is unknown, and how much is wanted."""
        wanted = INT32.unpack_from(self._backlog)[0] if len(self._backlog) >= LENGTH_BYTES else 0
        return not self._good, wanted

    @property
    def arriving(self) -> Arriving:
        return self._arriving

    def is_deaf(self, now_s: float, patience_s: float) -> bool:
        """Whether the client has not taken a byte of its answers for so long."""
        if not self._unsent_bytes:
            return False
        size_bytes = self._transport.get_write_buffer_size()
        if size_bytes != self._unsent_bytes:
            self._count_unsent(size_bytes)
        return now_s - self._unsent_since_s > patience_s

    def resume(self) -> None:
        """Whatever held it up may be over: handle what was kept, then read on."""
        if self._closing or self._reading:
            return
        if self._waiting is not None and self._in_order.admits(self._waiting):
            self._waiting = None
        if self._is_held_up():
            return
        backlog, self._backlog = self._backlog, b""
        self._reading = True
        self.active_at_s = self._shell.loop.time()
        frame = self._arriving.frame
        if frame is not None and self._arriving.is_whole:
            self._handle_own_frame(frame)
        self._feed(memoryview(bytearray(backlog)))
        if self._reading and not self._closing:
            self._transport.resume_reading()
        self._flush()

    # -- frames

    def _feed(self, data: memoryview) -> None:
        """Handle every whole frame in ``data``; keep what is left over."""
        if self._partial:
            data = memoryview(bytearray(self._partial + bytes(data)))
            self._partial = b""
        position = 0
        while not self._closing:
            began = position
            frames, position = self._cut(data, began)
            if not frames:
                self._keep(data[position:])
                break
            may_join = self._shell.turn.is_open and frames[0][1] == _PRODUCE
            joined = self._join_turn(frames) if may_join and position - began < JOINED_BYTES_MAX else 0
            left = self._handle(frames[joined:]) if joined < len(frames) else ()
            if left:
                position -= sum(LENGTH_BYTES + len(frame) for frame in left)
            if self._is_held_up():
                self._flush()
            if position == len(data):
                break
        arriving = self._arriving
        if self._partial or arriving.frame is not None:
            arriving.started_at_s = arriving.started_at_s or self.active_at_s
        else:
            arriving.started_at_s = None
        self._settle()

    def _cut(self, data: memoryview, position: int) -> tuple[Sequence[memoryview], int]:
        """The whole frames from ``position`` that may be handled now, and where they end.

        A produce request brings those behind it along, because they are appended together; any other comes
        alone, as its answer may be large, and so does a client's first, which decides what else may come. None
        comes that has to wait for the effects of those before it.
        """
        frames: list[memoryview] = []
        end = len(data)
        room = 0 if self._is_held_up() else REQUESTS_OPEN_MAX - self._answers.open_requests
        length_max = self._length_max()
        in_order = self._in_order
        while room and end - position >= LENGTH_BYTES:
            (length,) = INT32.unpack_from(data, position)
            start = position + LENGTH_BYTES
            if not REQUEST_BYTES_MIN <= length <= length_max or end - start < length:
                break
            is_produce = data[start + 1] == _PRODUCE and not data[start]
            if frames:
                if not is_produce:
                    break
            elif (in_order.changes or (not is_produce and in_order.is_open)) and not self._may_begin(
                is_produce
            ):
                break
            room -= 1
            position = start + length
            frames.append(data[start:position])
            if not is_produce or not self._good:
                break
        return frames, position

    def _may_begin(self, is_produce: bool) -> bool:
        """Whether the next request may, or has to wait for those before it; then it is not read on."""
        in_order = self._in_order
        if not is_produce and in_order.unanswered:
            self._show(in_order.take_unseen())
        if in_order.admits(is_produce):
            return True
        self._waiting = is_produce
        return False

    def _show(self, unseen: Sequence[Syncable]) -> None:
        """Make visible what was written without an answer."""
        if not unseen:
            return
        self._in_order.begin(is_produce=False)

        def shown() -> None:
            self._in_order.end(is_produce=False)
            self._flush_soon()

        self._shell.durability.request(unseen, shown)

    def _keep(self, data: memoryview) -> None:
        """What cannot be handled now: less than a frame, or held up."""
        if len(data) < LENGTH_BYTES:
            self._partial = bytes(data)
            return
        (length,) = INT32.unpack_from(data, 0)
        if not self._check_length(length):
            return
        beginning = data[LENGTH_BYTES:]
        if self._is_held_up() or len(beginning) >= length or not self._arriving.start(beginning, length):
            self._backlog = bytes(data)
            if self._waiting is None:
                self._shell.held_up[self] = None

    def _length_max(self) -> int:
        settings = self._shell.settings
        return settings.socket_request_max_bytes if self._good else settings.first_request_max_bytes

    def _check_length(self, length: int) -> bool:
        if REQUEST_BYTES_MIN <= length <= self._length_max():
            return True
        what = f"a request of {length} bytes" + ("" if self._good else " before the first good one")
        self.close(what, "length of a request", is_offence=True)
        return False

    # -- requests

    def _let_go_of_requests(self) -> None:
        for delayed in self._delayed:
            self._shell.purgatory.drop(delayed)
        self._delayed.clear()
        self._arriving.let_go()
        self._answers.clear()
        self._in_order.unanswered.clear()
        self._backlog = b""

    def _handle_own_frame(self, frame: memoryview) -> None:
        """Handle a frame that is whole in a buffer of its own; it stays there while it has to wait."""
        if not self._may_begin(frame[1] == _PRODUCE and not frame[0]):
            return
        self._arriving.frame = None  # should it be closed meanwhile, this is still being read
        self._handle((frame,))
        self._arriving.give_back(frame)
        self._arriving.started_at_s = None

    def _join_turn(self, frames: Sequence[memoryview]) -> int:
        """Leave those at the head of ``frames`` to the turn that can be; how many."""
        requests = plain_at_head(self._shell.broker, frames)
        if requests:
            if self._in_turn is None:
                self._in_turn = self._answers.owe(len(requests))
                self._in_order.begin(is_produce=True)
            else:
                self._answers.owe_more(self._in_turn, len(requests))
            self._good = True
            self._shell.turn.join(self, requests)
        return len(requests)

    def appended(self, handled: Handled | None) -> None:
        """The turn has ended."""
        owed, self._in_turn = self._in_turn, None
        assert owed is not None
        self._in_order.end(is_produce=True)
        self._go_on(owed, handled)
        self._flush()
        self.resume()

    def _handle(self, frames: Sequence[memoryview]) -> Sequence[memoryview]:
        """Handle them in order; those that may not begin any more are given back."""
        shell = self._shell
        if self._in_turn is not None:
            shell.turn.end()
        handled_to = 0
        while True:
            try:
                handled = handle_next(
                    shell.broker,
                    frames[handled_to:] if handled_to else frames,
                    self.dialled,
                    shell.wall_clock_ms(),
                    shell.budget.answer_bytes_max,
                    self.peer_host,
                )
            except MalformedMessage as error:
                self.close(f"malformed request: {error}", "malformed request", is_offence=True)
                return ()
            except Exception as error:
                # A defect must not take the other connections down; the client may retry elsewhere or later.
                shell.lines.tell(
                    logging.ERROR,
                    self.peer_host,
                    f"failed: {type(error).__name__}",
                    f"a request of {self.peer_host} failed",
                    exc_info=True,
                )
                self.close("internal error")
                return ()
            handled_to += handled.requests
            if not isinstance(handled.outcome, Disconnect):
                self._good = True
            self._carry_out(handled)
            if handled_to == len(frames) or self._closing or self._in_order.changes:
                return frames[handled_to:]

    def _carry_out(self, handled: Handled) -> None:
        outcome = handled.outcome
        match outcome:
            case Answer():
                self._answers.answer(self._answers.owe(handled.requests), framed(outcome, handled))
                if outcome.software is not None:
                    self._software = shown(outcome.software)
            case AnswerInFiles():
                self._answer_from_files(outcome, handled)
            case AfterSync(partitions, finish, answer, later):
                if later:
                    self._in_order.unanswered.update(dict.fromkeys(later))
                    self._shell.durability.request_later(later)
                if finish is None:
                    self._in_order.unanswered.update(dict.fromkeys(partitions))
                    self._shell.durability.request(partitions, None)
                    if answer is not None:
                        self._carry_out(handled._replace(outcome=answer))
                    return
                owed = self._answers.owe(handled.requests)
                ask = finish
                self._in_order.begin(is_produce=True)

                def synced() -> None:
                    self._in_order.end(is_produce=True)
                    try:
                        parts = framed(ask(), handled)
                    except Exception:  # who told of the sync logs it; nobody may wait for this answer
                        self.close("internal error")
                        raise
                    self._answer_later(owed, parts)

                self._shell.durability.request(partitions, synced)
            case Delayed():
                owed = self._answers.owe(handled.requests)

                def complete(answer: Answer) -> None:
                    self._delayed.discard(delayed)
                    self._answer_later(owed, framed(answer, handled))

                delayed = self._shell.purgatory.watch(outcome, complete)
                self._delayed.add(delayed)
            case Operation(steps):
                owed = self._answers.owe(handled.requests)
                self._in_order.begin(is_produce=False)

                def ended(answer: Answer | None) -> None:
                    self._in_order.end(is_produce=False)
                    if answer is None:
                        self.close("internal error")
                    else:
                        self._answer_later(owed, framed(answer, handled))

                self._shell.operations.begin(steps, ended)
            case Compressing():
                self._compress_first(outcome, handled)
            case NotServed(reason, is_offence, client_id=client_id):
                client = "a client without an id" if client_id is None else f"client {shown(client_id)}"
                why = f"{client} ({self._software}) wants what there is not: {reason}"
                self.close(why, f"{client}: {reason}", level=logging.WARNING, is_offence=is_offence)
            case Disconnect(reason, is_offence, behind):
                self._shell.durability.request(behind, None)
                self.close(reason, is_offence=is_offence)

    def _compress_first(self, outcome: Compressing, handled: Handled) -> None:
        """Then go on with whatever it ends in.

        Until its batches are appended it counts as a change: a produce request behind it would be in front of it.
        """
        shell = self._shell
        owed = self._answers.owe(handled.requests)  # who stops the server waits for it, also with acks=0
        self._in_order.begin(is_produce=False)
        shell.budget.hold(outcome.held_bytes)

        def appended(then: Answer | AfterSync | Disconnect | None) -> None:
            shell.budget.give_back(outcome.held_bytes)
            self._in_order.end(is_produce=False)
            self._go_on(owed, None if then is None else handled._replace(outcome=then))
            self._flush_soon()

        shell.compressing.request(outcome.topic, lambda: outcome.begin(shell.wall_clock_ms), appended)

    def _go_on(self, owed: Owed, handled: Handled | None) -> None:
        """With what requests came to that had to wait before they were appended; ``owed`` was their place."""
        if self._answers:
            self._answers.take_back(owed)
            if handled is None:
                self.close("internal error")
            else:
                self._carry_out(handled)
        elif handled is not None:  # the client is gone, or held; what is written is to be seen all the same
            if isinstance(handled.outcome, AfterSync):
                written = (*handled.outcome.partitions, *handled.outcome.later)
                self._shell.durability.request(written, None)
            elif isinstance(handled.outcome, Disconnect):
                self._shell.durability.request(handled.outcome.behind, None)

    # -- answers

    def _answer_from_files(self, answer: AnswerInFiles, handled: Handled) -> None:
        """Send it now or read it now: what waits in line must not hold files open."""
        self._flush()
        if self._transport.is_closing():
            return
        try:
            if self._answers:
                self._carry_out(handled._replace(outcome=answer.read()))
            else:
                self._outlet.send(answer.parts)
        except OSError as error:
            why = f"records for {self.peer_host} cannot be read: {error}"
            self._shell.lines.tell(logging.WARNING, self.peer_host, "records cannot be read", why)
            self.close("records cannot be read")

    def _answer_later(self, owed: Owed, parts: Sequence[Buffer]) -> None:
        self._answers.answer(owed, parts)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._shell.loop.call_soon(self._flush_later)

    def _flush_later(self) -> None:
        self._flush_scheduled = False
        self._flush()
        self.resume()

    def _flush(self) -> None:
        """Send every answer at the head of the line that is known, in one write."""
        if self._answers:
            ready = self._answers.take_ready()
            if ready and not self._transport.is_closing():
                self._outlet.write(ready)
        if self._closing and not self._answers and not self._is_held and not self._transport.is_closing():
            self._transport.close()

    def _is_held_up(self) -> bool:
        return (
            self._write_paused
            or self._waiting is not None
            or self._answers.open_requests >= REQUESTS_OPEN_MAX
            or self._answers.waiting_bytes >= WRITE_BUFFER_HIGH_BYTES
        )

    def _settle(self) -> None:
        """Stop reading when held up; :meth:`resume` goes on."""
        if self._reading and not self._closing and (self._backlog or self._is_held_up()):
            self._reading = False
            self._arriving.started_at_s = None  # what does not arrive now is not the client's fault
            self._transport.pause_reading()

    def _count_unsent(self, size_bytes: int) -> None:
        self._shell.budget.count_unsent(size_bytes - self._unsent_bytes)
        self._unsent_bytes = size_bytes
        self._unsent_since_s = self._shell.loop.time()
