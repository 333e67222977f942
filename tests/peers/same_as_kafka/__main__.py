"""Start both servers, compare, print the table; see the package's docstring."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.parts import Missing, find_java, find_kafka_jars
from tests.peers.same_as_kafka import golden
from tests.peers.same_as_kafka.comparing import Case, Compared, all_cases, look, topic_prefix
from tests.peers.same_as_kafka.wire import NODE_ID

from semel.local import LocalLog

RECORD: Final = "--record"
_STYLES: Final = {"same": "green", "explained": "yellow", "differs": "bold red"}
_SIDE_WIDTH_MIN: Final = 30
_WIDTH: Final = 170  # where nobody looks at it, a file keeps whole columns


def main(arguments: Sequence[str]) -> int:
    words = [argument for argument in arguments if argument != RECORD]
    cases = all_cases()
    chosen = [case for case in cases if not words or any(word in case.name for word in words)]
    if not chosen:
        print(f"no case has {' or '.join(words)} in its name", file=sys.stderr)
        return 2
    java, jars = find_java(), find_kafka_jars()
    for part in (java, jars):
        if isinstance(part, Missing):
            print(f"nothing to compare with: {part.why}", file=sys.stderr)
            return 2
    assert isinstance(java, Path) and isinstance(jars, Path)
    console = _console()
    with (
        tempfile.TemporaryDirectory(prefix="same-as-kafka-") as folder,
        LocalLog(Path(folder, "semel"), broker_id=NODE_ID) as log,
        ApacheKafka(java, jars, Path(folder, "kafka")) as node,
    ):
        found = [_compared(console, case, log.bootstrap, node.bootstrap) for case in chosen]
    if RECORD in arguments:
        golden.write(_kept(cases) | {one.case.name: one.kafka for one in found})
    return report(found, console)


def _kept(cases: Sequence[Case]) -> dict[str, object]:
    """What was recorded of cases that there still are, if it was of today's version."""
    version, observations = golden.read()
    if version != golden.kafka_version():
        return {}
    return {case.name: observations[case.name] for case in cases if case.name in observations}


def report(found: Sequence[Compared], console: Console | None = None) -> int:
    """Print what both sides made of each case; the exit code, 1 if something differs for no reason."""
    console = console or _console()
    for line in _table(found, console.width):
        console.print(line, soft_wrap=True)
    console.print()
    for one in found:
        if one.verdict == "explained":
            console.print(f"{one.case.name}: {one.case.because}", markup=False, soft_wrap=True)
    differing = [one for one in found if one.verdict == "differs"]
    for one in differing:
        console.print("\n" + one.what_differs, markup=False, soft_wrap=True)
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in _STYLES}
    console.print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if differing else 0


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)


def _compared(console: Console, case: Case, semel: str, kafka: str) -> Compared:
    with console.status(case.name):
        return Compared(case, look(case, semel), look(case, kafka))


def _table(found: Sequence[Compared], width: int) -> Iterator[Text]:
    """One line a case, without what all names of it have in common; what differs is printed in full below."""
    name_width = max(len(one.case.name) for one in found)
    side_width = max(_SIDE_WIDTH_MIN, (width - name_width - max(map(len, _STYLES)) - 6) // 2)
    yield _row("case", "semel", "Apache Kafka", name_width, side_width)
    for one in found:
        common = topic_prefix(one.case)
        semel, kafka = (str(side).replace(common, "") for side in (one.semel, one.kafka))
        yield _row(one.case.name, semel, kafka, name_width, side_width).append(
            one.verdict, _STYLES[one.verdict]
        )


def _row(name: str, semel: str, kafka: str, name_width: int, side_width: int) -> Text:
    sides = (side if len(side) <= side_width else side[: side_width - 1] + "…" for side in (semel, kafka))
    return Text("  ".join([name.ljust(name_width), *(side.ljust(side_width) for side in sides), ""]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
