"""A request that takes more than one step: a coroutine that says what it waits for.

Between its awaits it runs on the event loop, where all state lives, and nothing comes between; while it waits, the loop
serves everybody else. It may await

- :class:`Aside`: a piece of work for a thread,
- :class:`Synced`: partitions are on disk, or their sync has failed, which they say themselves,
- :class:`Happened`: something happens to one of these, or the time is over,
- :class:`InTurn`: a change of what there is, in the line of changes.

An operation that has begun goes on when its client has gone: what it has decided is to be carried out. Who drives it is
:mod:`semel.server.operations`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from semel.server.durability import Syncable
from semel.server.storage.aside import Aside, Change

T = TypeVar("T")


class Synced:
    """Wait until these partitions were synced, by syncs that began after this was awaited."""

    __slots__ = ("partitions",)

    def __init__(self, partitions: Sequence[Syncable]) -> None:
        self.partitions: Final = partitions

    def __await__(self) -> Generator[Synced, None, None]:
        yield self


class Happened:
    """Wait for something to happen to one of ``keys``, ``wait_ms`` at most; whether it did.

    A partition's name is a key: it has more to read.
    """

    __slots__ = ("happened", "keys", "wait_ms")

    def __init__(self, keys: Sequence[Hashable], wait_ms: int) -> None:
        self.keys: Final = keys
        self.wait_ms: Final = wait_ms
        self.happened = False

    def __await__(self) -> Generator[Happened, None, bool]:
        yield self
        return self.happened


class InTurn(Generic[T]):
    """Wait until all changes asked for before have ended, carry this one out, and have its result."""

    __slots__ = ("_result", "begin")

    def __init__(self, begin: Callable[[], Change[T]]) -> None:
        self.begin: Final = begin
        self._result: T | None = None

    def ended(self, result: T | None) -> None:
        """It has; ``None``: by a defect, which is logged."""
        self._result = result

    def __await__(self) -> Generator[InTurn[Any], None, T]:
        yield self
        if self._result is None:
            raise RuntimeError("a change failed")
        return self._result


class _Log(Syncable, Protocol):
    @property
    def high_watermark(self) -> int: ...

    @property
    def is_online(self) -> bool: ...


async def is_durable(log: _Log, offset: int) -> bool:
    """Wait until all below ``offset`` is; False where it will not be."""
    while log.high_watermark < offset and log.is_online:
        await Synced((log,))  # again, where a sync was about to begin before this was written
    return log.high_watermark >= offset


Awaited: TypeAlias = Aside[Any] | Synced | Happened | InTurn[Any]
Steps: TypeAlias = Coroutine[Awaited, None, T]
