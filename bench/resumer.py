"""The program that is killed: ``python -m bench.resumer BOOTSTRAP IDENTITY_STORE TOPIC``.

It sends the rows behind those that are stored, and waits for each. Whenever one is acknowledged that no run before
had stored, it prints when, by the clock that all processes share. Its first line is when it began.
"""

from __future__ import annotations

import itertools
import sys
import time

from semel import Producer


def main() -> None:
    print(time.monotonic(), flush=True)
    bootstrap, identity_store, topic = sys.argv[1:]
    with Producer(bootstrap, identity_store=identity_store) as producer:
        for position, row in producer.resume(map(str, itertools.count())):
            if not producer.send(topic, value=row, position=position).result().already_stored:
                print(time.monotonic(), flush=True)


if __name__ == "__main__":
    main()
