"""Everything that the collector refuses: one table for answers, the page /errors and the documents.

An answer is an RFC 9457 problem document. `code` is stable; programs read it, people read the rest. No
answer repeats a token, a private value or what a stranger sent beyond the names of fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from keyveil.errors import KeyveilError, Refusal

CONTENT_TYPE = "application/problem+json"
# A report for a round that is over.
ROUND_CLOSED = "round-closed"
NOT_ISSUED = "not-issued"


class Entry(NamedTuple):
    """One line of the catalogue."""

    status: int
    title: str
    meaning: str
    remedy: str


_ENTRIES: dict[str, Entry] = {
    # --- who asks ---
    "no-token": Entry(
        401,
        "A token is needed",
        "The request has no Authorization header.",
        "Send Authorization: Bearer TOKEN.",
    ),
    "unknown-token": Entry(
        401,
        "This token is not known",
        "No token like this was made here, or it was revoked.",
        "Ask the campaign's operator for another.",
    ),
    "forbidden": Entry(
        403,
        "This token may not do that",
        "Its role does not cover the request.",
        "Use a token of a role that the documentation of the request names.",
    ),
    "other-campaign": Entry(
        403,
        "This token is for another campaign",
        "A token opens one campaign, and this is not it.",
        "Use the token that was made for this campaign.",
    ),
    # --- what is asked for ---
    "not-found": Entry(
        404, "There is nothing here", "No page has this address.", "See /docs for those that exist."
    ),
    "unknown-campaign": Entry(
        404,
        "No such campaign",
        "This collector has no campaign with this id.",
        "Check the id: it is the SHA-256 of the campaign's canonical JSON.",
    ),
    "unknown-series": Entry(
        404,
        "No such series",
        "This collector has no series with this id.",
        "Check the id: it is the SHA-256 of the series' canonical JSON, the day of its start included.",
    ),
    "unknown-annotation": Entry(
        404, "No such annotation", "The series has no annotation of this number.", "List the annotations."
    ),
    "unknown-round": Entry(
        404,
        "No such round",
        "The campaign has not come to this round.",
        "See the campaign for the round that is open.",
    ),
    "unknown-key": Entry(
        404, "No such key", "No key of this collector has this id.", "List the keys to see their ids."
    ),
    "unknown-token-id": Entry(
        404, "No such token", "No token of this scope has this id.", "List the tokens to see their ids."
    ),
    "wrong-method": Entry(
        405, "Not by this method", "The page exists, but not for this method.", "See the Allow header."
    ),
    # --- what is sent ---
    "bad-request": Entry(
        400,
        "The request cannot be read",
        "A parameter or the body is not what this request expects.",
        "The detail names what was expected; see /docs.",
    ),
    "bad-batch": Entry(
        400,
        "The batch cannot be read",
        "The body is no sequence of frames, or no JSON object of reports; nothing was counted.",
        "See docs/wire.md; send the batch as frames: 4 bytes of length, then the report.",
    ),
    "too-large": Entry(
        413,
        "The body is too large",
        "The body, or what it expands to, exceeds the limit; nothing was counted.",
        "Send fewer reports at once.",
    ),
    "unsupported-type": Entry(
        415,
        "Not this type of body",
        "Content-Type or Content-Encoding is none that this request takes.",
        "The detail names those that it takes.",
    ),
    "bad-campaign": Entry(
        422,
        "This is no campaign",
        "A field is missing, misspelt or contradicts another.",
        "The detail names the field; correct it and send the campaign again.",
    ),
    "campaign-incomplete": Entry(
        422,
        "The campaign lacks who, why or until when",
        "A collector asks nobody anything without owner, purpose and expires.",
        "Fill the three fields in; expires must lie ahead.",
    ),
    "no-plan": Entry(
        422,
        "No such campaign can be planned",
        "Nothing reaches what is wanted with what is given.",
        "The detail says what would: move one of the other sliders.",
    ),
    "unknown-step": Entry(
        422,
        "No such post-processing or estimator",
        "The release cannot be made this way from these reports.",
        "The detail names what is known. Another estimator must be one for the same reports.",
    ),
    # --- the state of things ---
    "rounds-left": Entry(
        409,
        "The campaign is not at its end",
        "Its last round is still to be closed; there is no release before.",
        "Close the open round when enough reports are in.",
    ),
    "round-empty": Entry(
        409,
        "The round has too few reports to go on",
        "The next round follows from this one's reports, and there are none.",
        "Wait for reports, then close the round.",
    ),
    "other-version": Entry(
        409,
        "Another version of keyveil opened the round",
        "This keyveil cannot go on from it; nothing was changed.",
        "Close it with the keyveil that opened it, or a newer one.",
    ),
    "series-over": Entry(
        409,
        "The series is over",
        "It was ended, or its last wave is over; no wave comes that this could concern.",
        "Ask again with a series of its own.",
    ),
    "no-waves": Entry(
        409,
        "There is nothing to release yet",
        "No wave of the series has a report that could be released.",
        "Wait for reports; a wave of several rounds is released once its last round is closed.",
    ),
    "reports-dropped": Entry(
        409,
        "The reports are no longer kept",
        "The campaign's retention dropped them after the round; tallies and releases remain.",
        "Keep reports (retention) in campaigns that are to be recounted.",
    ),
    "last-admin": Entry(
        409,
        "This is the last admin's token",
        "Without it nobody could make tokens, read the log of acts or take backups.",
        "Make another admin token first, then revoke this one with it.",
    ),
    "no-reports": Entry(
        409,
        "There is nothing to release yet",
        "No report was counted, so nothing can be said of any key.",
        "Wait for reports; `keyveil campaign show ID` says how many there are.",
    ),
    "round-closed": Entry(
        409,
        "The round is over",
        "It takes no more reports; nothing of this batch was counted.",
        "Forward nothing more to this round.",
    ),
    "relay-required": Entry(
        409,
        "Reports come through a relay",
        "This campaign promises that nobody here sees who sends what; what comes directly breaks that.",
        "Seal the report and send it to the campaign's relay.",
    ),
    "not-relayed": Entry(
        409,
        "No relay carries this campaign",
        "The campaign does not say that sealed reports may come through a relay.",
        "Send reports directly.",
    ),
    "key-in-use": Entry(
        409,
        "Devices seal to this key",
        "It is the newest one, and reports that are sealed to it are still to come.",
        "Make another key first; retire this one when what was sealed to it has come.",
    ),
    "collector-unreachable": Entry(
        503,
        "The collector is away",
        "This relay does not know the campaign yet, and cannot ask its collector now.",
        "Wait as long as Retry-After says, then ask again.",
    ),
    "not-embedded": Entry(
        409,
        "The store makes its own backups",
        "Only the embedded store is backed up by the collector.",
        "Use pg_dump, or what your PostgreSQL is backed up with.",
    ),
    "campaign-expired": Entry(
        410,
        "The campaign is over",
        "Its expiry has passed; nothing more is counted.",
        "Stop sending. A new question is a new campaign.",
    ),
    "clock-in-doubt": Entry(
        503,
        "The collector's clock has jumped",
        "By one of its clocks the campaign is over, by the other it is not; nothing was counted.",
        "Send the same again later. The operator sets the clock right, or lets it stand for ten minutes.",
    ),
    # --- too much at once ---
    "rate-limited": Entry(
        429,
        "Too fast",
        "This token has used up its rate; nothing of this request was counted.",
        "Wait as long as Retry-After says, then send the same again.",
    ),
    "overloaded": Entry(
        503,
        "Too much at once",
        "The queue is full; nothing of this request was counted.",
        "Wait as long as Retry-After says, then send the same again: a report counts once.",
    ),
    "store-unavailable": Entry(
        503,
        "The store does not answer",
        "The disk is full or the database is away. Whether the reports were counted is not known.",
        "Wait as long as Retry-After says, then send the same again: a report counts once.",
    ),
    "header-too-large": Entry(
        431,
        "The header is too large",
        "The request line and the headers have more than 64 KiB.",
        "Send fewer or shorter headers.",
    ),
    "no-room": Entry(
        503,
        "There is no room for a copy",
        "The folder for temporary files is full, or cannot be written.",
        "Make room there, or set TMPDIR to a folder that has some, and ask again.",
    ),
    "stopping": Entry(
        503,
        "The collector is stopping",
        "It takes nothing new; what it acknowledged is stored.",
        "Send the same again in a moment.",
    ),
    "campaign-damaged": Entry(
        503,
        "Part of the store is damaged",
        "What this request needs cannot be read; other campaigns are not affected.",
        "Restore the store from a backup; /readyz lists what is damaged.",
    ),
    "internal": Entry(
        500,
        "A fault of the collector",
        "Something happened that should not; the log says more.",
        "Send the same again later; tell the operator if it stays.",
    ),
}

CATALOGUE: Mapping[str, Entry] = MappingProxyType(_ENTRIES)

# What a batch's answer says of single reports.
REPORT_CODES: Mapping[str, str] = MappingProxyType(
    {
        "accepted": "counted, and stored for good",
        "duplicate": "its id was counted before; this is not a fault",
        ROUND_CLOSED: "the round it answers is over",
        NOT_ISSUED: "its id is not one that this collector handed out; ask for ids first",
        Refusal.WRONG_ROUND.value: "it answers a round that has not been opened",
        Refusal.WRONG_CAMPAIGN.value: "it answers another campaign",
        Refusal.WRONG_LENGTH.value: "it is not as long as the round's reports are",
        Refusal.UNKNOWN_VERSION.value: "its version is not one that this collector reads",
        Refusal.NOT_CANONICAL.value: "no device sends these bytes",
        Refusal.WRONG_COHORT.value: "the index or hash is not the one that the report's id gives",
        Refusal.NOT_SEALED.value: "it does not open, or is sealed for another round; no relay hears of it",
        Refusal.UNKNOWN_KEY.value: "it is sealed to a key that is not known, or was retired",
        Refusal.NOT_JSON.value: "the text is no JSON object of a report's fields",
    }
)


class Problem(KeyveilError):
    """A request that is refused, by its code in the catalogue.

    >>> problem = Problem("too-large", "expected at most 10 bytes, got 11")
    >>> problem.status, problem.document()["code"]
    (413, 'too-large')
    """

    def __init__(self, code: str, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail or CATALOGUE[code].meaning)
        self.code = code
        self.detail = detail
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return CATALOGUE[self.code].status

    def document(self) -> dict[str, Any]:
        """The problem document."""
        entry = CATALOGUE[self.code]
        return {
            "type": f"/errors#{self.code}",
            "title": entry.title,
            "status": entry.status,
            "code": self.code,
            "detail": self.detail or entry.meaning,
            "meaning": entry.meaning,
            "remedy": entry.remedy,
        }

    def body(self) -> bytes:
        """The document as it is sent."""
        return json.dumps(self.document(), ensure_ascii=False).encode("utf-8", "replace")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What goes with it."""
        said = [(b"content-type", CONTENT_TYPE.encode())]
        if self.retry_after is not None:
            said.append((b"retry-after", str(max(1, round(self.retry_after))).encode()))
        if self.status == 401:
            said.append((b"www-authenticate", b"Bearer"))
        return said
