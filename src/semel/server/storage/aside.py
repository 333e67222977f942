"""Long work on files in the middle of a change: said where it is needed, done beside the event loop.

A change of what there is (a topic made, a log trimmed) is a coroutine. Between its awaits it runs on the event
loop, where all state lives, and nothing comes between; what it awaits is one :class:`Aside`, a piece of work
for another thread, while the loop serves everybody else. Whoever drives the change picks that thread, and time:
the server's ``Changes``, the simulator, or :func:`at_once` where nobody else waits.

Invariants
- Changes go one at a time, so that what one of them has decided still holds when it comes to be applied. One that
  would keep the others waiting for minutes goes in parts, each of which is a change (:func:`in_parts`).
- Work aside touches files, and of the state only what no request can reach: what is not yet, or no longer,
  part of it, what only changes use, or what has a lock (``Partition.sync``).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class Aside(Generic[T]):
    """One piece of work. Its error is raised where it is awaited."""

    __slots__ = ("_error", "_result", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: T
        self._error: Exception | None = None

    def run(self) -> None:
        """Do it, in any thread; then send the coroutine that yielded it on."""
        try:
            self._result = self._work()
        except Exception as error:
            self._error = error

    def __await__(self) -> Generator[Aside[Any], None, T]:
        yield self
        if self._error is not None:
            raise self._error
        return self._result


Change: TypeAlias = Coroutine[Aside[Any], None, T]


class Pause(Aside[None]):
    """Awaited in a change that is carried out in parts: others may come here. What was decided before is looked at
    again, then.
    """

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.run()  # where nobody drives it in parts it may be run as well


def in_parts(begin: Callable[[], Change[object]]) -> Iterator[Callable[[], Change[None]]]:
    """A long change as several, each up to the next :class:`Pause`. One that is not carried out is the last."""
    whole = _Parts(begin)
    while whole.is_at_pause:
        whole.is_at_pause = False
        yield whole.go_on


class _Parts:
    """``is_at_pause``: there is another part."""

    def __init__(self, begin: Callable[[], Change[object]]) -> None:
        self.is_at_pause = True
        self._begin = begin
        self._change: Change[object] | None = None

    async def go_on(self) -> None:
        await self

    def __await__(self) -> Generator[Aside[Any], None, None]:
        if self._change is None:
            self._change = self._begin()
        while True:
            try:
                work = self._change.send(None)
            except StopIteration:
                return
            if isinstance(work, Pause):
                self.is_at_pause = True
                return
            yield work


def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Aside[T]:
    """Await it inside a change: ``work(...)``, in another thread."""
    return Aside(lambda: work(*args, **kwargs))


def at_once(change: Change[T]) -> T:
    """The whole change here and now: nobody else waits."""
    while True:
        try:
            work = change.send(None)
        except StopIteration as ended:
            result: T = ended.value
            return result
        work.run()
