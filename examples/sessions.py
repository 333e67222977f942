"""Sessions of clicks: two topics merged, a session ends after half an hour of silence. docs/examples/sessions.md."""

from typing import Any

from semel.flow import source

CLICK = "user string, url string, at timestamp"

web = source(
    "web-clicks", json=CLICK, key="user"
)  # the records' key is the user: no topic is needed in between
app = source("app-clicks", json=CLICK, key="user")

sessions = (
    web.merge(app)  # the order in which they meet is recorded
    .sessions(gap="30 minutes", on="at", lateness="10 minutes")
    .count("clicks")
    .to("sessions")  # what comes after its session was told goes to sessions.late
)


def _click(user: str, at: str) -> dict[str, str]:
    return {"user": user, "url": "/", "at": f"2026-03-01T{at}:00Z"}


def test_clicks_of_both_topics_make_one_session(run: Any) -> None:
    rows = run(
        sessions,
        {
            "web-clicks": [_click("ann", "09:00"), _click("ann", "09:50"), _click("ann", "12:00")],
            "app-clicks": [_click("ann", "09:25"), _click("ann", "12:00")],
        },
    )
    (told,) = rows["sessions"]  # the one of 12:00 is open: nothing later has come
    assert (told["user"], told["clicks"]) == ("ann", 3)
    assert told["window_start"].startswith("2026-03-01T09:00")
    assert told["window_end"].startswith("2026-03-01T10:20")
