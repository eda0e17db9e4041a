"""What a collector answered, and what it says in its own words where it refuses.

A refusal is a problem document (RFC 9457). Its words are a stranger's: they are cut to what fits a line, and
nothing is done because of them; what a device does follows from the status alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

# A request with one of these answers may go well later; with any other of 400 to 499 it never will.
_MAY_PASS = (408, 425, 429)
_TOKEN = (401, 403)
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What came back: the status line's number, the wait that was asked for, the body."""

    status: int
    body: bytes = b""
    retry_after: float | None = None

    @property
    def refusal(self) -> str | None:
        """The device's code for a request that is not to be repeated; None where it may be.

        >>> [HttpAnswer(status=status).refusal for status in (401, 404, 409, 429, 503)]
        ['token-refused', 'refused', 'refused', None, None]
        """
        if self.status in _TOKEN:
            return "token-refused"
        return "refused" if 400 <= self.status < 500 and self.status not in _MAY_PASS else None

    @property
    def said(self) -> str:
        """The status, and the collector's own words with its remedy, if it has any.

        >>> HttpAnswer(status=403, body=b'{"detail": "no.", "remedy": "Ask for another token."}').said
        '403: no; Ask for another token'
        >>> HttpAnswer(status=502, body=b"<html>").said
        '502'
        """
        try:
            problem = json.loads(self.body)
            parts = problem.get("detail") or problem.get("title"), problem.get("remedy")
        except (ValueError, AttributeError, RecursionError):
            return str(self.status)
        words = "; ".join(part.strip(" .") for part in parts if isinstance(part, str) and part)
        return f"{self.status}: {on_one_line(words)}" if words else str(self.status)


def on_one_line(words: str) -> str:
    r"""A stranger's text that can neither move a cursor nor fill a screen.

    >>> on_one_line("no\nsuch\x1b[2Jtoken")
    'no?such?[2Jtoken'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in words[:_LONGEST_WORDS])


def seconds_asked(header: str | None) -> float | None:
    """The wait that a Retry-After header asks for, in seconds or as a date; None where it is unreadable.

    >>> seconds_asked("120"), seconds_asked("soon"), seconds_asked("Thu, 01 Jan 1970 00:00:00 GMT")
    (120.0, None, 0.0)
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
