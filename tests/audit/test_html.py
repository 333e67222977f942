"""The page: whole in itself, with the verdict and the offenders, and nothing of a row taken for HTML."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.cli.conftest import Command, semel

__all__ = ["semel"]  # the fixture


class Page(HTMLParser):
    """Its tags, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_a_page_has_the_verdict_and_the_offenders(semel: Command) -> None:
    semel("produce", "in", stdin=b"a\n<script>b</script>\n")
    semel("produce", "out", stdin=b"a\n")
    done = semel("audit", "--input", "in", "--output", "out", "--format", "html")
    assert done.code == 1
    page = Page(done.out)
    assert "script" not in page.tags
    assert page.links == []
    for said in (
        "semel audit --input in --output out",
        "NOT PROVEN: the output does not hold the input exactly once",
        "in-0@1: key null, value <script>b</script>",
        "missing",
    ):
        assert f"{said}\n" in page.text
    proven = semel("audit", "--output", "out", "--format", "html")
    assert proven.code == 0
    assert "PROVEN: out holds no row twice, and its sequences are whole\n" in Page(proven.out).text
