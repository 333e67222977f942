"""What a person finds who types ``semel.`` and a tab."""

from __future__ import annotations

import subprocess
import sys

import semel


def test_completion_shows_what_is_public_and_nothing_else() -> None:
    program = (
        "import rlcompleter, semel, semel.cli.main, semel.client.producer\n"  # what was imported makes no difference
        "completer = rlcompleter.Completer({'semel': semel})\n"
        "found = iter(lambda n=iter(range(99)): completer.complete('semel.', next(n)), None)\n"
        "print(*sorted(name.rstrip('(') for name in found if not name.startswith('semel._')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    public = [f"semel.{name}" for name in semel.__all__ if not name.startswith("_")]
    assert [name.rstrip("()") for name in done.stdout.split()] == sorted(public)


def test_every_public_name_is_there() -> None:
    assert dir(semel) == sorted(semel.__all__)
    for name in semel.__all__:
        assert getattr(semel, name) is not None
