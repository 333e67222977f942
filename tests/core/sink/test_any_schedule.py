"""Crashes, zombies and twins at any step: rows are never doubled, decided rows never lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.sink.ranges import SourceRange, Verdict
from semel.types import TopicPartition

# One driver's life: how many rows its attempt sends before it dies (or lives on as a zombie), whether a twin
# helps, and whether it is killed before or after the decision (or lives).
LIFE = st.tuples(st.integers(0, 7), st.booleans(), st.sampled_from(["before", "after", "lives"]))
SOURCE = TopicPartition("in", 0)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(
    lives=st.lists(LIFE, max_size=5),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    data=st.data(),
)
def test_every_row_once(make_world, make_driver, the_stop, lives, sizes, data):
    world = make_world()
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    planned = list(zip([0, *ends], ends, strict=False))
    zombies = []
    done = 0  # of Spark's commit entries
    for sent, twin, end in [*lives, *[(10, False, "lives")] * len(planned)]:
        if done == len(planned):
            break
        first, last = planned[done]
        driver = make_driver(world).plan()
        work = SourceRange(SOURCE, first, last), [bytes([row]) for row in range(first, last)]
        attempts = [driver.task(*work, number) for number in range(2 if twin else 1)]
        reports = []
        for attempt in attempts:
            if attempt.open() is Verdict.WRITE:
                attempt.send(sent if end != "lives" else 10**6)
                zombies.append(attempt)
                if not attempt.todo:
                    reports.append(attempt.report())
        if end == "before":
            continue
        if reports or not attempts[0].producer_id >= 0:
            driver.decide(reports[:1], done)
            if end == "lives":
                done += 1
        if zombies and data.draw(st.booleans()):
            try:
                data.draw(st.sampled_from(zombies)).send(1)
            except the_stop:
                pass
    for zombie in zombies:
        try:
            zombie.send()
        except the_stop:
            pass
    visible = world.visible()
    assert len(visible) == len(set(visible))
    assert visible == [bytes([row]) for row in range(planned[done - 1][1] if done else 0)] or done < len(
        planned
    )
    decision = world.history().decision
    if decision is not None:
        decided = [bytes([row]) for row in range(decision.source_ends[SOURCE])]
        assert set(decided) <= set(visible)
