"""The leased ids that one partition knows, in the order of their issue: they are over from one end.

Ids mostly come as they were issued, but not always: a lease may write here long after later ones did. So they are
kept in short pages, each of which one id can be put into for next to nothing; 8 bytes an id, and not one object.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

_PAGE_IDS: Final = 512


class LeasedIds:
    """A queue by number. An id that was added twice is taken twice."""

    __slots__ = ("_pages",)

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._pages: list[array[int]] = []  # none empty; each goes on where the one before ends
        rest = iter(ids)
        while some := sorted(islice(rest, _PAGE_IDS)):  # mostly in order, as a snapshot has them
            if not self._pages or some[0] > self._pages[-1][-1]:
                self._pages.append(array("q", some))
                continue
            for producer_id in some:
                self.add(producer_id)

    def __iter__(self) -> Iterator[int]:
        """Each of them, rising."""
        return chain.from_iterable(self._pages)

    def add(self, producer_id: int) -> None:
        pages = self._pages
        if not pages or producer_id > pages[-1][-1]:
            if not pages or len(pages[-1]) == _PAGE_IDS:
                pages.append(array("q"))
            pages[-1].append(producer_id)
            return
        at = max(0, bisect_right(pages, array("q", [producer_id])) - 1)  # arrays are compared as lists are
        page = pages[at]
        page.insert(bisect_right(page, producer_id), producer_id)
        if len(page) > _PAGE_IDS:
            half = len(page) // 2
            pages[at : at + 1] = page[:half], page[half:]

    def first(self) -> int | None:
        """The one that was issued first."""
        return self._pages[0][0] if self._pages else None

    def pop(self) -> int:
        """Take that one."""
        page = self._pages[0]
        producer_id = page.pop(0)
        if not page:
            del self._pages[0]
        return producer_id
