"""Writes an example's input to a server: makes its topics where they are missing, then row after row.

python -m examples.feed word_count -b localhost:9092 --parts 3
"""

from __future__ import annotations

import argparse
import random
import sys

import semel
from examples import topics
from examples.cases import NAMES, case
from semel.wording import counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("-b", "--bootstrap", default="localhost:9092")
    parser.add_argument("--parts", type=int, default=1, help="how much; a part is some thousand rows at most")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    of = case(given.name)
    with semel.Admin(given.bootstrap) as admin:
        there = set(admin.list_topics())
    topics.create(given.bootstrap, {name: count for name, count in of.topics.items() if name not in there})
    rows = [*of.first()]
    for number in range(given.parts):
        rows += of.rows(random.Random(f"{given.seed}/{number}"), number)
    topics.put(given.bootstrap, [*rows, *of.last()])
    sys.stdout.write(f"wrote {counted(len(rows), 'row')} to {', '.join(of.topics)}\n")


if __name__ == "__main__":
    main()
