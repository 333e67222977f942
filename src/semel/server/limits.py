"""What the operating system lets this process hold open, and what follows for the server's own bounds.

Every partition holds its files open, and a server that has promised more of them than it can open cannot even
start again. So the bounds are cut to what fits before the first client comes.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import replace
from typing import Final

from semel.config import ServerSettings

log = logging.getLogger(__name__)

_FILES_PER_PARTITION: Final = 4  # log, two indexes, recovery point
_ENOUGH: Final = 1 << 20
_COLD_FILES_ENOUGH: Final = 4096


def raise_open_files_max() -> int:
    """Raise the soft limit of open files to the hard one, which needs no right; the limit now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # macOS has a lower bound of its own
            return soft
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def fitted(settings: ServerSettings, open_files_max: int) -> ServerSettings:
    """``settings`` with no more partitions and connections than there may be open files.

    Half of the files are for partitions, a quarter for connections, an eighth for full segments that are
    synced; the rest is for those that are not synced yet.
    """
    partitions_max = min(settings.partitions_max, open_files_max // 2 // _FILES_PER_PARTITION)
    connections_max = min(settings.connections_max, connections_fit(open_files_max))
    default = ServerSettings()
    cut = [
        (f"{name} is {fits} instead of {wanted}", wanted != unless_told)
        for name, fits, wanted, unless_told in (
            ("max.partitions", partitions_max, settings.partitions_max, default.partitions_max),
            ("max.connections", connections_max, settings.connections_max, default.connections_max),
        )
        if fits < wanted
    ]
    if not cut:
        log.debug("%d open files are allowed, enough for all bounds", open_files_max)
        return settings
    was_asked_for = any(asked for _, asked in cut)  # a default that does not fit is no news at every start
    log.log(
        logging.INFO if was_asked_for else logging.DEBUG,
        "only %d open files are allowed: %s",
        open_files_max,
        ", ".join(text for text, asked in cut if asked or not was_asked_for),
    )
    return replace(settings, partitions_max=partitions_max, connections_max=connections_max)


def connections_fit(open_files_max: int) -> int:
    """How many connections there may be, whatever the settings say."""
    return open_files_max // 4


def cold_files_max(open_files_max: int) -> int:
    """How many files of full segments stay open."""
    return min(_COLD_FILES_ENOUGH, open_files_max // 8)
