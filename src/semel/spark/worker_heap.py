"""Spark's Python workers walk their whole heap after each piece of work; what stays anyway is left out of it.

``pyspark.daemon`` calls ``gc.collect()`` whenever a worker has done its work, before it takes the next one. A
tiny micro-batch has ten such pieces on four partitions (a plan, four reads, four writes, a commit), and each
walk goes over some 75,000 objects of pyspark, pyarrow, numpy and semel that live as long as the process does.
On few cores that is most of the micro-batch's time. ``gc.freeze`` takes them out of the walk.

Reference counts work as before. Only a cycle that is alive at that moment and dies later is never freed; so
this is done once in a process, after the first work, which has imported and connected what the others need.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

_DAEMON: Final = "pyspark.daemon"

_frozen = False


def freeze_heap() -> None:
    """At the end of some work: in one of Spark's pooled workers, once; elsewhere nothing."""
    global _frozen
    if _frozen or not is_pooled_worker():
        return
    _frozen = True
    gc.collect()  # not to keep for ever what is garbage now
    gc.freeze()


def is_pooled_worker() -> bool:
    """Whether this process is a fork of Spark's daemon, the one that collects after each piece of work."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name == _DAEMON
