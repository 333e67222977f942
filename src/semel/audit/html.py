"""A report as one page of HTML that needs nothing beside it: the verdict, the counts, and the offenders' rows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final, Protocol

Table = tuple[str, Sequence[str], list[Sequence[Any]]]  # heading, heads, rows

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #ddd;vertical-align:top;"
    "overflow-wrap:anywhere}td.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".verdict{padding:.8em 1em;border-radius:.3em;font-weight:600}.proven{background:#dff3e4}"
    ".violated{background:#fbdcdc}.not{background:#fdf1cd}pre{white-space:pre-wrap;background:#f6f6f6;padding:1em}"
)


class Report(Protocol):
    """What a page is made of."""

    def conclusion(self) -> str: ...
    def as_lines(self) -> list[str]: ...
    def as_document(self) -> dict[str, Any]: ...
    def tables(self) -> list[Table]: ...


def page(report: Report, what: str) -> str:
    """The whole page; ``what`` was asked, as one would ask it again."""
    document = report.as_document()
    verdict = str(document["verdict"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(verdict)}: {escape(what)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(what)}</h1>"
        f'<p class="verdict {escape(verdict.split()[0])}">{escape(report.conclusion())}</p>'
        f"{_listed('Not compared', document['not_compared'])}"
        f"{''.join(_table(*each) for each in report.tables() if each[2])}"
        f"<h2>As text</h2><pre>{escape(chr(10).join(report.as_lines()))}</pre></body></html>\n"
    )


def _listed(heading: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in lines)
    return f"<p>{escape(heading)}:</p><ul>{items}</ul>" if items else ""


def _table(heading: str, heads: Sequence[str], rows: list[Sequence[Any]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<h2>{escape(heading)}</h2><table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"
