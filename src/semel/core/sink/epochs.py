"""The sink's epochs and the writers' epochs: one number that rises for ever, over producer epochs that end.

A sink's epoch ``e`` is its *generation* and the producer epoch of the sink's own identity in it. Rows of run
``e`` carry writer epoch ``2 (e mod G)``, and that plus one closes the run. Fencing to *exactly* that epoch and
not "raise by one" matters: two restarts would raise to the same epoch, and a zombie would go on writing.

Each generation has identities of its own: another name for the sink's, other producer ids for the writers.
A generation ends with a FENCE by its last identity, so the log refuses every older driver of it from there
on, and the next generation's runs fence its writers to the highest epoch there is. It ends too where a broker has
forgotten the name of its identity (:mod:`semel.core.sink.grant`), whose epochs would begin at 0 again.
"""

from __future__ import annotations

from typing import Final

from semel.types import PRODUCER_EPOCH_MAX

GENERATION_EPOCHS: Final = (PRODUCER_EPOCH_MAX + 1) // 2  # writer epochs are twice as many, and fit
LAST_EPOCH: Final = GENERATION_EPOCHS - 1  # it begins no run: it ends the generation
RETIRED_WRITER_EPOCH: Final = PRODUCER_EPOCH_MAX  # of every writer of an ended generation


def generation_of(sink_epoch: int) -> int:
    """Which identities a run of ``sink_epoch`` writes with."""
    return sink_epoch // GENERATION_EPOCHS


def sink_epoch_of(generation: int, producer_epoch: int) -> int:
    """The sink's epoch that a grant means; all grants at or above the generation's last one end it."""
    return generation * GENERATION_EPOCHS + min(producer_epoch, LAST_EPOCH)


def is_last(sink_epoch: int) -> bool:
    """Whether this epoch only ends its generation."""
    return sink_epoch % GENERATION_EPOCHS == LAST_EPOCH


def identity_name(sink_id: str, generation: int) -> str:
    """The name of the sink's own identity; no sink id holds an "@"."""
    return f"semel.sink.{sink_id}" + (f"@{generation}" if generation else "")


def identity_epoch(sink_epoch: int) -> int:
    """The producer epoch of the sink's own records in run ``sink_epoch``."""
    return sink_epoch % GENERATION_EPOCHS


def writer_epoch(sink_epoch: int) -> int:
    """The producer epoch of every row of run ``sink_epoch``."""
    return 2 * (sink_epoch % GENERATION_EPOCHS)


def closing_epoch(sink_epoch: int) -> int:
    """The producer epoch that ends run ``sink_epoch``: its twins can write no more."""
    return writer_epoch(sink_epoch) + 1
