"""Consume, transform, produce: each row once, in plain Python. Kill it at any moment, and start it again.

    python -m examples.exactly_once localhost:9092 clicks shouted

Runs on semel and on Apache Kafka. What is made of a poll's rows counts together with the position behind them, or not
at all: a copy that is killed leaves nothing, and the next one goes on at the first row that was not counted. Readers
of committed rows, which is what ``semel.Consumer`` is by default, see each row once.

Of several processes that share the work each needs a name of its own, which it keeps when it is started again. When
the group divides its partitions anew, a transaction with rows of one that went to another process is aborted.
"""

from __future__ import annotations

import sys

import semel


def run(bootstrap: str, source: str, target: str, name: str = "one") -> None:
    """Until it is killed."""
    with (
        semel.Producer(bootstrap, transactional_id=f"{source}-{name}") as producer,
        semel.Consumer(
            bootstrap, group_id=f"{source}-to-{target}", group_instance_id=name, enable_auto_commit=False
        ) as consumer,
    ):
        consumer.subscribe(source)
        while True:
            rows = consumer.poll(1.0)
            try:
                with producer.transaction(consumer):
                    for row in rows:
                        producer.send(target, (row.value or b"").upper(), key=row.key)
            except semel.errors.TransactionAborted as error:  # nothing of it counts, and the rows come again
                sys.stderr.write(f"{error}\n")


if __name__ == "__main__":
    run(*sys.argv[1:])
