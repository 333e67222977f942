"""One counter of producer ids that several servers share: how a server claims its next block from it.

The counter is a node that is read with its version and written only at that version (ZooKeeper's conditional
``setData``; Kafka's ``ZkProducerIdManager`` did the same). Nothing here talks to it: :class:`Claim` says what to
do next, and is told what came of it.

Invariants:
- A block is a server's only if ITS write is known to have landed: it was answered so, or the node, read back
  after an answer was lost, still names that very write. Each write has a name of its own for that. A write whose
  fate stays unknown is given up: its block is wasted, also should it land later.
- A block begins neither below the counter nor below ``floor_id``, the end of what this server claimed before as
  its own log has it. So a counter that went back (an old ZooKeeper restored) gives no server an id anew that it
  gave out itself; the servers' later blocks, beyond the largest end that any of them brings along, are distinct.
- A claim ends after a bounded number of steps: with a block, or with the reason why not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.core.identity import BLOCK_IDS, IdBlock
from semel.types import LEASED_IDS_FROM

WRITES_MAX: Final = 20  # of one claim: each one that is lost against another server's is progress there
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Counter:
    """What the node holds: the lowest id that nobody has, and the name of the write that said so."""

    next_id: int
    written_by: str

    def encode(self) -> bytes:
        fields = {"version": _VERSION, "next": self.next_id, "written_by": self.written_by}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes) -> Counter | NoBlock:
        try:
            fields = json.loads(content)
            version, next_id, written_by = fields["version"], fields["next"], fields["written_by"]
        except (ValueError, TypeError, KeyError):
            return NoBlock(f"the counter cannot be read: {content[:100]!r}")
        if version != _VERSION or type(next_id) is not int or next_id < 0 or not isinstance(written_by, str):
            return NoBlock(f"the counter is of another kind: {content[:100]!r}")
        return cls(next_id, written_by)


@dataclass(frozen=True, slots=True)
class Seen:
    """The node as it was read."""

    content: bytes
    node_version: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read the node, then :meth:`Claim.on_read`."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the node if it is at ``node_version`` (``None``: if there is none), then say what came of it."""

    content: bytes
    node_version: int | None


@dataclass(frozen=True, slots=True)
class NoBlock:
    """The claim has ended without a block."""

    reason: str


Step: TypeAlias = Read | Write | IdBlock | NoBlock


@dataclass(frozen=True, slots=True)
class _Attempt:
    written_by: str
    block: IdBlock


class Claim:
    """One block on its way. ``name`` is one that no other claim has, of any server at any time."""

    def __init__(self, name: str, floor_id: int) -> None:
        self._name = name
        self._floor_id = floor_id
        self._writes = 0
        self._attempt: _Attempt | None = None  # what may have landed

    def begin(self) -> Step:
        return Read()

    def on_read(self, seen: Seen | None) -> Step:
        """The node as it is; ``None`` when there is none yet."""
        counter = Counter(0, "") if seen is None else Counter.decode(seen.content)
        if isinstance(counter, NoBlock):
            return counter
        if self._attempt is not None and counter.written_by == self._attempt.written_by:
            return self._attempt.block
        if self._writes == WRITES_MAX:
            return NoBlock(f"{WRITES_MAX} writes in turn came to nothing")
        first_id = max(counter.next_id, self._floor_id)
        if first_id + BLOCK_IDS > LEASED_IDS_FROM:
            return NoBlock(f"the counter is at {first_id}: no producer ids are left")
        self._writes += 1
        written_by = f"{self._name}/{self._writes}"
        self._attempt = _Attempt(written_by, IdBlock(first_id, first_id + BLOCK_IDS))
        content = Counter(first_id + BLOCK_IDS, written_by).encode()
        return Write(content, None if seen is None else seen.node_version)

    def on_written(self) -> Step:
        """The write is answered: it has landed."""
        assert self._attempt is not None
        return self._attempt.block

    def on_conflict(self) -> Step:
        """The write is answered: the node was at another version, so it has not landed and never will."""
        self._attempt = None
        return Read()

    def on_unknown(self) -> Step:
        """No answer to the write: only the node can tell."""
        return Read()
