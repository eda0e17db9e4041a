"""Pages for people: plain HTML, no script, nothing from elsewhere; every name is text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from keyveil.collector.problems import CATALOGUE, REPORT_CODES

if TYPE_CHECKING:
    from keyveil.collector.http.endpoints import Endpoint

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #ccc; }
code { font-size: .9em; overflow-wrap: anywhere; }
td:first-child code, td a { white-space: nowrap; }
@media (prefers-color-scheme: dark) {
  body { background: #0f1318; color: #e7ecf1; } a { color: #7cc4f0; } th, td { border-color: #2b343e; }
}
@media (max-width: 50rem) {
  thead { display: none; }
  tr { display: block; padding: .5rem 0; border-bottom: 1px solid #8888; }
  td { display: block; padding: .1rem 0; border: 0; }
  td:first-child code { white-space: normal; font-weight: 700; }
}
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def docs(endpoints: Iterable[Endpoint]) -> str:
    """Every request."""
    rows = (
        (
            f"<code>{endpoint.method} {escape(endpoint.path)}</code>",
            escape(
                "everybody"
                if endpoint.roles is None
                else ", ".join(sorted(role.value for role in endpoint.roles))
            ),
            escape(endpoint.summary),
            " ".join(f'<a href="/errors#{code}">{code}</a>' for code in endpoint.problems),
        )
        for endpoint in endpoints
    )
    return _page(
        "Requests",
        "<p>Tokens go into <code>Authorization: Bearer TOKEN</code>. Programs read "
        '<a href="/openapi.json">/openapi.json</a>.</p>'
        + _table(("request", "who", "what", "refusals"), rows),
    )


def errors() -> str:
    """The catalogue."""
    rows = (
        (
            f'<code id="{code}">{code}</code>',
            str(entry.status),
            f"{escape(entry.title)}. {escape(entry.meaning)}",
            escape(entry.remedy),
        )
        for code, entry in CATALOGUE.items()
    )
    reports = (
        (f'<code id="report-{code}">{code}</code>', escape(meaning)) for code, meaning in REPORT_CODES.items()
    )
    return _page(
        "Refusals",
        _table(("code", "status", "meaning", "what to do"), rows)
        + "<h2>What became of a report</h2>"
        + _table(("status", "meaning"), reports),
    )


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f'<body><p><a href="/">keyveil</a></p><h1>{escape(title)}</h1>{body}</body></html>'
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
