"""Which cases of a long row of like ones ``make test`` takes: the others are for ``make thorough``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(nth: int, cases: Iterable[Any], *, first: int = 0) -> list[Any]:
    """All of ``cases``; those that are not the ``nth`` each, from ``first`` on, are marked ``thorough``."""
    return [
        case if number % nth == first else _thorough(case if isinstance(case, tuple) else (case,))
        for number, case in enumerate(cases)
    ]


def _thorough(case: tuple[Any, ...]) -> Any:
    return pytest.param(*case, marks=pytest.mark.thorough)
