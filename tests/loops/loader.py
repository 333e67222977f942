"""The program that the producer loop kills: it loads the numbers 0 … n-1, and continues when run again.

``python -m tests.loops.loader BOOTSTRAP STORE ROWS BATCH_BYTES LINGER_MS COMPRESSION``
"""

from __future__ import annotations

import sys

import semel

TOPIC = "rows"
PARTITIONS = 2


def main() -> None:
    bootstrap, store, rows, batch_bytes, linger_ms, compression = sys.argv[1:]
    with semel.Producer(
        bootstrap,
        identity="loader",
        identity_store=store,
        batch_bytes=int(batch_bytes),
        linger_ms=int(linger_ms),
        compression=compression,
    ) as producer:
        sys.stdout.write("loading\n")
        sys.stdout.flush()
        for position, row in producer.resume(range(int(rows))):
            producer.send(TOPIC, b"%d" % row, partition=row % PARTITIONS, position=position)
        producer.flush(60)


if __name__ == "__main__":
    main()
