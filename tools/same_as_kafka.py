"""Set semel beside a real Apache Kafka, request by request, and print what each of the two answers.

python tools/same_as_kafka.py            # every case; exits 1 on a difference that no case explains
python tools/same_as_kafka.py WORD …     # the cases with one of these in their names
python tools/same_as_kafka.py --record   # the same; what Apache Kafka answers is kept for `make test`

The cases, and how to write one: tests/peers/same_as_kafka. It needs Java and Apache Kafka's jars
(tools/fetch_java.py) and takes about a minute.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.peers.same_as_kafka.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
