"""The worker that sends Arrow tables: ``python -m bench.send_table BOOTSTRAP``."""

from __future__ import annotations

import sys
import time

import pyarrow as pa

from bench import worker
from semel import Producer

VALUE_BYTES = 100
VALUES = 1024
TABLE_ROWS = 500_000


def table(rows: int, *, keyed: bool) -> pa.Table:
    """Rows of 100 B values, out of 1024 different ones, and 8 B keys if asked for."""
    kinds = pa.array([(b"%d-" % number * VALUE_BYTES)[:VALUE_BYTES] for number in range(VALUES)])
    columns = {"value": kinds.take(pa.array([row % VALUES for row in range(rows)]))}
    if keyed:
        columns["key"] = pa.array([b"%08d" % row for row in range(rows)])
    return pa.table(columns)


def main() -> None:
    tables = {keyed: table(TABLE_ROWS, keyed=keyed) for keyed in (False, True)}
    producer = Producer(sys.argv[1])

    def send(topic: str, rows: int, keyed: bool) -> float:
        """How many seconds until all rows were acknowledged."""
        started_s = time.perf_counter()
        for begin in range(0, rows, TABLE_ROWS):
            producer.send_table(topic, tables[keyed].slice(0, min(TABLE_ROWS, rows - begin)))
        producer.flush(120)
        return time.perf_counter() - started_s

    worker.serve(send)
    producer.close()


if __name__ == "__main__":
    main()
