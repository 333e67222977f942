"""Copies a topic into several, to be killed: ``python -m tests.loops.transactor BOOTSTRAP CLIENT ID NAME NUMBER FILE``.

ID is the transactional id, NAME this life's under it, NUMBER the round's. It reads as a member of the round's group,
and writes each row into each target, with the name of the transaction behind it; so whoever reads them can tell which
transaction is there. What came of one it writes into FILE: ``committed NAME.7`` or ``aborted NAME.8``, when it knows.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from tests.peers.transactional_copiers.python import (
    AbortFirst,
    Client,
    ConfluentKafka,
    Fenced,
    Row,
    Semel,
)

PARTITIONS: Final = 3
ROWS_MAX: Final = 20  # of a transaction
ABORTS: Final = 0.15  # of all transactions
IS_FENCED: Final = 3  # its exit code


class Transactor(Client, Protocol):
    def write_to(self, rows: Sequence[tuple[str, Row]]) -> None:
        """As ``write`` does, into topics of their own."""


# Of (bootstrap, source, target, group, transactional_id); what it writes is told a target each time.
CLIENTS: Final[dict[str, Callable[[str, str, str, str, str], Transactor]]] = {
    "librdkafka": ConfluentKafka,
    "semel": Semel,
}


def source(number: int) -> str:
    return f"rows-{number}"


def targets(number: int) -> list[str]:
    return [f"{name}-{number}" for name in ("first", "second", "third")]


def group(number: int) -> str:
    return f"loop-{number}"


def main() -> None:
    bootstrap, client, transactional_id, name, number, path = sys.argv[1:]
    into = targets(int(number))
    transactor = CLIENTS[client](bootstrap, source(int(number)), "", group(int(number)), transactional_id)
    dice = random.Random(name)
    count = 0
    with Path(path).open("ab", buffering=0) as file:
        while True:
            rows = transactor.poll(dice.randint(1, ROWS_MAX))
            if not rows:
                continue
            count += 1
            marked = [row._replace(value=b"%s %s.%d" % (row.value, name.encode(), count)) for row in rows]
            try:
                transactor.write_to([(topic, row) for row in marked for topic in into])
                transactor.send_offsets({row.partition: row.offset + 1 for row in rows})
                if dice.random() < ABORTS:
                    raise AbortFirst("by its dice")
                transactor.commit()
            except AbortFirst as why:
                print(f"{name}.{count}: {why}", file=sys.stderr)
                transactor.abort()
                transactor.rewind()
                outcome = "aborted"
            else:
                outcome = "committed"
            os.write(file.fileno(), f"{outcome} {name}.{count}\n".encode())


if __name__ == "__main__":
    try:
        main()
    except Fenced as why:
        print(why, file=sys.stderr, flush=True)
        os._exit(IS_FENCED)  # a client's threads may wait for what is gone
