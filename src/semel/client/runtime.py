"""What the client's requests take from outside: time, and several of them at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar

_T = TypeVar("_T")


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Runtime(Protocol):
    """Under it the same coroutines run on an asyncio loop and in simulated time."""

    def now_ms(self) -> int:
        """Of a clock that only goes forward."""
        ...

    async def pause(self, pause_ms: int) -> None: ...

    async def gather(self, works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
        """The results of all, which run side by side, in their order; or the first error."""
        ...


class AsyncioRuntime:
    """On the loop that runs."""

    def now_ms(self) -> int:
        return monotonic_ms()

    async def pause(self, pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)

    async def gather(self, works: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
        return await asyncio.gather(*works)


ASYNCIO: Final = AsyncioRuntime()
