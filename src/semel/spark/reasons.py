"""The reason behind an error of Spark's, which has it between frames of Java, several times over."""

from __future__ import annotations

import re
import sys
from types import TracebackType
from typing import Final

from semel import errors

# A planner refuses while it is pickled, and PySpark names that error by its class alone.
_OURS: Final = re.compile(
    r"(?:semel\.errors\.|Could not serialize object: )(\w+): (.+?)(?=\n\s*\n|\n\tat |\n  File |\Z)", re.DOTALL
)
_SPARKS: Final = re.compile(r"\[[A-Z][A-Z_]+(\.[A-Z_]+)*\] ")  # what Spark begins a text of its own with
_SPARKS_QUOTE: Final = "=== Streaming Query ==="  # with its plan: behind what Spark has to say
_JAVA_FRAME: Final = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ more$")  # of a trace: where, not what
_SQL_STATE: Final = re.compile(r"( SQLSTATE: \w+)+$")  # behind an error of planning
_JAVA: Final = re.compile(r"(?:Caused by)?: ([\w.$]+(?:Error|Exception)\b.*)")  # an error, or its cause


def reason_of(text: str) -> tuple[str, str]:
    """The name and the text of the error behind Spark's trace; of one that is none of semel's, its last line."""
    found = [each for each in _OURS.findall(text) if hasattr(errors, each[0])]
    if found:
        name, words = found[-1]
        return name, _SQL_STATE.sub("", " ".join(words.partition(_SPARKS_QUOTE)[0].split()))
    said = text.partition(_SPARKS_QUOTE)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    lines = [line for line in lines if not _JAVA_FRAME.match(line)]
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)]
    named = [line[match.start() :] for line in lines if (match := _SPARKS.search(line))]
    java = [match[1] for line in lines if (match := _JAVA.match(line))]
    chain = [", caused by ".join(dict.fromkeys((java[0], java[-1])))] if java else []
    words = [line for line in lines if re.search(r"\w", line)]  # Spark underlines what it quotes
    return "", (python or named or chain or words or ["no reason was given"])[-1]


def say_reason_last() -> None:
    """In a program that ends with an error of Spark's: say once more, as the last line, what semel has to say."""
    before = sys.excepthook
    if getattr(before, "_says_reason_last", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        name, words = reason_of(str(error))
        if name and kind.__module__.startswith("pyspark."):
            sys.stderr.write(f"\nsemel: {name}: {words}\n")

    hook._says_reason_last = True  # type: ignore[attr-defined]
    sys.excepthook = hook
