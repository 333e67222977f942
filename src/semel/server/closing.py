"""A clean stop: all partitions closed side by side, for as long as there is time.

Each takes some ten syncs, of which most are of files of its own: one after another, a few hundred partitions on a busy
disk would take longer than who stops the server waits. What is not closed in time is as after a kill: nothing that was
acknowledged is lost, and the next start looks through the ends of the logs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from semel.server.event_loop import LoopThreads
from semel.server.storage.storage import Storage

_THREADS: Final = 16


async def close_in_time(
    storage: Storage, loop: asyncio.AbstractEventLoop, deadline_s: float, now_ms: int
) -> bool:
    """Whether all of it was closed, and well. Else the folder is not let go of: a sync that hangs may still write."""
    threads = LoopThreads(loop, "semel-close", _THREADS)
    partitions = list(storage)
    ended = asyncio.Event()
    left = len(partitions)

    def closed() -> None:
        nonlocal left
        left -= 1
        if not left:
            ended.set()

    for partition in partitions:
        threads.run(partial(partition.close, now_ms=now_ms), closed)
    try:
        async with asyncio.timeout_at(deadline_s):
            await ended.wait()
    except TimeoutError:
        return False
    threads.close()
    return storage.close(now_ms=now_ms)
