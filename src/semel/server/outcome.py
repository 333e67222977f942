"""What handling a request comes to, as a value: the shell, or the simulator, carries it out.

Invariant: nothing in an outcome refers to the request's bytes, which lie in a buffer that the shell uses
again as soon as the handler has returned. Outcomes are tuples where one is made for nearly every request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from semel.config import Address
from semel.server.durability import Syncable
from semel.server.operation import Steps
from semel.server.storage.aside import Change
from semel.server.storage.outcome import Slice
from semel.wire.frames import INT32, Buffer, encode_response_header

T = TypeVar("T")


class Call(NamedTuple):
    """What a handler may know of a request besides its body. A tuple: one is made for every request."""

    api_key: int
    api_version: int
    client_id: str | None
    dialled: Address  # the server's own address on this connection
    now_ms: int  # wall clock: it ends up in the log
    answer_bytes_max: Callable[[], int]  # what the shell is ready to hold for this client, when asked
    peer_host: str = ""


class Answer(NamedTuple):
    """A response body, in parts that go out one after another."""

    parts: Sequence[Buffer]
    is_framed: bool = False  # the parts are whole answers, header and length included
    software: str | None = None  # what the client says it is, where it says so

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts))


class AnswerInFiles(NamedTuple):
    """A whole answer, header and length included, with records that nobody has read yet.

    It holds their files open, so it goes out at once, or it is read: ``OSError`` if that fails.
    """

    parts: Sequence[Buffer | Slice]

    def read(self) -> Answer:
        parts = [part.read_whole() if isinstance(part, Slice) else part for part in self.parts]
        return Answer(parts, is_framed=True)


class AfterSync(NamedTuple):
    """Sync these partitions, then ask ``finish``: it looks at what became durable and what did not.

    It is what nearly every produce request comes to, and for anything else see :class:`Operation`. ``finish`` is None
    when no answer waits for it, but consumers for the high watermark, or full segments for the disk. ``later`` want a
    sync within a moment: what waits for them is the end of a transaction, and readers of what is not committed.
    """

    partitions: Sequence[Syncable]
    finish: Callable[[], Answer] | None
    answer: Answer | None = None  # what to answer at once, when ``finish`` is None; None: nothing (acks=0)
    later: Sequence[Syncable] = ()


@dataclass(frozen=True, slots=True)
class Delayed(Generic[T]):
    """Call ``attempt`` whenever something happens to one of ``keys``; for the last time in ``wait_ms``.

    A partition's name is a key: it has more to read. ``attempt(final)`` gives None as long as there is nothing to
    answer; never when ``final``.
    """

    keys: Sequence[Hashable]
    wait_ms: int
    attempt: Callable[[bool], T | None]


@dataclass(frozen=True, slots=True)
class Operation:
    """Carry this out, which may wait for this and that (:mod:`semel.server.operation`): it ends in the answer.

    Nothing else of its connection begins before that.
    """

    steps: Steps[Answer]


@dataclass(frozen=True, slots=True)
class Compressing:
    """Begin this when all those before it in its topic's line of batches that are compressed again have ended.

    It ends in what is to be done then. Nothing else of its connection begins before that.

    A request of several topics waits in the line of the first. That keeps the order all the same: the only order there
    is, is that of a connection, and nothing of it begins behind this.

    ``begin`` gets the wall clock in ms, as batches are judged and stamped when they are appended. ``held_bytes`` are
    those that it holds meanwhile.
    """

    topic: str
    begin: Callable[[Callable[[], int]], Change[Answer | AfterSync | Disconnect]]
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection: the protocol leaves no other way to say what went wrong."""

    reason: str
    is_offence: bool = False  # the client should not have asked; if it goes on so, it is slowed
    behind: Sequence[Syncable] = ()  # what was written all the same, for readers to see


@dataclass(frozen=True, slots=True)
class NotServed(Disconnect):
    """A client wants what this server lacks; ``reason`` says what, and the operator is told who."""

    client_id: str | None = None


Outcome: TypeAlias = (
    Answer | AnswerInFiles | AfterSync | Delayed[Answer] | Operation | Compressing | Disconnect
)


class Handled(NamedTuple):
    """The common outcome of the first ``requests`` of the frames; the rest is how to frame its answer."""

    outcome: Outcome
    requests: int
    api_key: int
    api_version: int
    correlation_id: int


def framed(answer: Answer, handled: Handled) -> Sequence[Buffer]:
    """The answer as it goes out."""
    if answer.is_framed:
        return answer.parts
    head = encode_response_header(handled.api_key, handled.api_version, handled.correlation_id)
    return (INT32.pack(len(head) + answer.size_bytes) + head, *answer.parts)
