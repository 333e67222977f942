"""What is laid aside lies in one order, however micro-batches are cut."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.flowing import put, records, run

from semel.flow import here, source
from semel.flow.stage_ranges import Cuts
from semel.local import LocalLog

FLOW = source("given", json="word string").key_by("word").count().to("counts")
ROWS = [{"word": None}, b"no JSON", {"word": "a"}] * 40


class Killed(BaseException):
    """As kill -9 would have it: nothing is told, and nothing is tidied up."""


def _at(record: dict[str, Any]) -> int:
    place = next(header["value"] for header in record["headers"] if header["key"] == "semel-at")
    return int(place.rsplit(b"/", 1)[1])


@pytest.mark.parametrize("cuts", [Cuts(), Cuts(rows_max=7)])
def test_bad_rows_of_several_steps_lie_in_the_order_of_the_input(
    semel_server: LocalLog, tmp_path: Any, cuts: Cuts
) -> None:
    put(semel_server.bootstrap, "given", *ROWS)
    run(FLOW, semel_server.bootstrap, tmp_path, cuts)
    places = [_at(record) for record in records(semel_server.bootstrap, "counts.bad")]
    assert places == [place for place in range(len(ROWS)) if place % 3 != 2]


def test_bad_rows_that_are_undecided_are_met_again_under_other_cuts(
    semel_server: LocalLog, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(semel_server.bootstrap, "given", *ROWS)

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(here, "decide_batch", killed)
        run(FLOW, semel_server.bootstrap, tmp_path, Cuts(rows_max=31))
    run(FLOW, semel_server.bootstrap, tmp_path)
    assert len(records(semel_server.bootstrap, "counts.bad")) == 80
