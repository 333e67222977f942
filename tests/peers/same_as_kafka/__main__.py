"""Start both servers, compare, print the table; see the package's docstring."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars
from tests.peers.same_as_kafka.comparing import Case, Compared, all_cases, look
from tests.peers.same_as_kafka.wire import NODE_ID

from semel.local import LocalLog

_STYLES: Final = {"same": "green", "explained": "yellow", "differs": "bold red"}
_SHOWN_MAX: Final = 160
_WIDTH: Final = 150  # where nobody looks at it, a file keeps whole columns


def main(words: Sequence[str]) -> int:
    chosen = [case for case in all_cases() if not words or any(word in case.name for word in words)]
    if not chosen:
        print(f"no case has {' or '.join(words)} in its name", file=sys.stderr)
        return 2
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            print(f"nothing to compare with: {part.why}", file=sys.stderr)
            return 2
    assert isinstance(java, Path) and isinstance(jars, Path)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    with (
        tempfile.TemporaryDirectory(prefix="same-as-kafka-") as folder,
        LocalLog(Path(folder, "semel"), broker_id=NODE_ID) as log,
        ApacheKafka(java, jars, Path(folder, "kafka")) as node,
    ):
        found = [_compared(console, case, log.bootstrap, node.bootstrap) for case in chosen]
    console.print(_table(found))
    for one in found:
        if one.verdict == "explained":
            console.print(f"{one.case.name}: {one.case.because}", markup=False, soft_wrap=True)
    differing = [one for one in found if one.verdict == "differs"]
    for one in differing:
        console.print("\n" + one.what_differs, markup=False, soft_wrap=True)
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in _STYLES}
    console.print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if differing else 0


def _compared(console: Console, case: Case, semel: str, kafka: str) -> Compared:
    with console.status(case.name):
        return Compared(case, look(case, semel), look(case, kafka))


def _table(found: Sequence[Compared]) -> Table:
    table = Table("case", "semel", "Apache Kafka", "", box=box.SIMPLE)
    for one in found:
        sides = [_short(one.semel)] if one.verdict == "same" else [_short(one.semel), _short(one.kafka)]
        verdict = f"[{_STYLES[one.verdict]}]{one.verdict}[/]"
        table.add_row(one.case.name, sides[0], sides[-1], verdict)
    return table


def _short(observation: object) -> str:
    text = str(observation).replace("[", r"\[")
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
