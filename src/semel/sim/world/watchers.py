"""Who watches a history: objects whose hooks are called at what happens.

What happens is told by subject: a class of hooks that do nothing (``LogWatcher``, ``SinkWatcher`` …) lies beside what
it speaks of. A watcher derives from those that it needs and overrides what it wants to hear of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import isfunction
from typing import Any, TypeVar, cast

_Subject = TypeVar("_Subject")
_Hook = Callable[..., None]


class Watchers:
    """All of one history; each hears of a thing in the order in which they are given."""

    def __init__(self, watchers: Iterable[object] = ()) -> None:
        self._watchers = tuple(watchers)
        self._by_subject: dict[type[object], object] = {}

    def of(self, subject: type[_Subject]) -> _Subject:
        """A ``subject`` whose every hook calls those who override it, and nobody else: some are called very often."""
        if subject not in self._by_subject:
            told = self._by_subject[subject] = subject()
            for name, hook in vars(subject).items():
                overriding = [
                    getattr(watcher, name)
                    for watcher in self._watchers
                    if isinstance(watcher, subject) and getattr(type(watcher), name) is not hook
                ]
                if isfunction(hook) and overriding:
                    setattr(told, name, overriding[0] if len(overriding) == 1 else _each(overriding))
        return cast(_Subject, self._by_subject[subject])


def _each(hooks: Sequence[_Hook]) -> _Hook:
    def call(*happened: Any, **more: Any) -> None:
        for hook in hooks:
            hook(*happened, **more)

    return call
