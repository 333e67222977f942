"""The loader, a child of the demo: ``python -m semel.demo.load``; killed half-way and started again.

It knows nothing of having been killed: it hands all flights to ``producer.resume``, which gives back those
behind the saved position. The last line of stdout says how many were sent, and how many turned away.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from semel.demo.data import flights


def load(
    bootstrap: str, topic: str, identity_store: Path, *, batch_bytes: int, row_count_max: int | None
) -> dict[str, int]:
    """Send what is not stored yet: how many rows were handed to the producer, and how many it dropped."""
    from semel import Producer

    handed = 0
    with Producer(bootstrap, identity_store=identity_store, batch_bytes=batch_bytes) as producer:
        for position, flight in producer.resume(flights(row_count_max)):
            producer.send(topic, key=flight.key, value=flight.value, position=position)
            handed += 1
        producer.flush()
        return {"handed": handed, "dropped": producer.rows_dropped}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--identity-store", type=Path, required=True)
    parser.add_argument("--batch-bytes", type=int, required=True)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    counts = load(
        options.bootstrap,
        options.topic,
        options.identity_store,
        batch_bytes=options.batch_bytes,
        row_count_max=options.rows,
    )
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
