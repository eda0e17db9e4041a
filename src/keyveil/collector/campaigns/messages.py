"""The bodies of requests and answers, as types; the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from keyveil.collector.campaigns.terms import Terms
from keyveil.dashboard.precision import Telling

CampaignId = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the canonical JSON.")
]
# One line that may be shown anywhere: no control characters.
Line = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Seconds = Annotated[float, msgspec.Meta(description="Seconds since 1970-01-01 UTC.")]
RoleName = Literal["device", "analyst", "operator", "admin", "monitor", "relay", "annotator"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all messages: unknown fields are refused."""


class NewCampaign(Message, frozen=True):
    """A campaign and how it is to be run here. A campaign alone is taken too, with the default terms."""

    campaign: dict[str, Any]
    terms: Terms = Terms()
    label: Line = ""


class CampaignCreated(Message, frozen=True):
    """The campaign's id, and a token for its devices that is shown this once."""

    id: CampaignId
    created: bool
    """False if the same campaign was there already; then nothing was changed."""
    round: int
    device_token: str | None


class CampaignView(Message, frozen=True):
    """What everybody may know: the campaign, and what a device must know to answer."""

    id: CampaignId
    campaign: str
    """The canonical JSON, as text: hash it, then read it."""
    label: str
    state: Literal["open", "finished", "expired"]
    uploads: Literal["token", "open"]
    ids: Literal["own", "issued"]
    """Where the ids of reports come from."""
    round: dict[str, Any] | None
    """The open round, which names the campaign by its id; null if none is open.

    With the campaign's text in place of the id it is the description that a device reads.
    """
    closes_at: Seconds | None
    """When the open round ends by time; null if it ends otherwise, or none is open."""


class CampaignLine(Message, frozen=True):
    """A campaign in a list."""

    id: CampaignId
    name: str
    label: str
    mechanism: str
    state: Literal["open", "finished", "expired", "damaged"]
    round: int | None
    reports: int
    created_at: Seconds
    series: str | None = None
    """The series that it is a wave of."""
    wave: int | None = None


class CampaignList(Message, frozen=True):
    """Campaigns, the oldest first."""

    campaigns: list[CampaignLine]


class Label(Message, frozen=True):
    """A name for people; not part of the campaign's identity."""

    label: Line


class RoundView(Message, frozen=True):
    """How far a round is."""

    number: int
    purpose: str
    reports: int
    opened_at: Seconds
    closes_at: Seconds | None
    closed_at: Seconds | None
    why: str
    reports_kept: bool


class RoundList(Message, frozen=True):
    """The rounds so far, in order."""

    rounds: list[RoundView]


class RoundClosed(Message, frozen=True):
    """What closing led to; the same for everybody who asked."""

    round: int
    reports: int
    closed_at: Seconds
    why: str
    next_round: int | None
    """The round that is open now; null if the campaign is at its end."""


class About(Message, frozen=True):
    """A campaign in a few words; unlike the view it does not grow with the keys."""

    id: CampaignId
    name: str
    label: str
    owner: str
    purpose: str
    state: Literal["open", "finished", "expired"]
    uploads: Literal["token", "open"]
    is_demo: bool
    """Whether this is a demo's collector, whose pages may make people up."""
    series: str | None = None
    """The series that it is a wave of."""
    wave: int | None = None
    segments: list[str] = []
    """The attributes by which results can be broken down, their labels in the clear or private."""
    has_pairs: bool = False
    """Whether it asks which keys are held together."""


class Progress(Message, frozen=True):
    """How far a campaign is; what its page shows while devices report."""

    now: Seconds
    name: str
    label: str
    mechanism: str
    state: Literal["open", "finished", "expired"]
    created_at: Seconds
    expires_at: Seconds | None
    close_at_count: int | None
    has_several_rounds: bool
    rounds: list[RoundView]
    reports: int
    statuses: dict[str, int]
    """What became of reports since this process started; `reports` is of all time."""
    refused_at: Seconds | None
    """When one was refused last, since then."""
    telling: Telling | None
    """The round that says how unsure a rare key is."""
    z: float


class Statuses(Message, frozen=True):
    """What became of each report of a batch, in order."""

    reports: list[str]


class ReportBatch(Message, frozen=True):
    """A batch as JSON: each report as base64 of its bytes, or as an object for people."""

    reports: list[Any]


class Recount(Message, frozen=True):
    """The stored reports counted again, beside the tally that grew with them."""

    round: int
    tally_reports: int
    stored_reports: int
    damaged_blocks: int
    agrees: bool
    ids: str
    """What is wrong with the ids of the reports, and with those that are known; or empty."""
    difference: str
    """How the round, which counts as it was opened, differs from what this version would open; or empty."""


class Oddity(Message, frozen=True):
    """One test of the noise: the chance that honest reports look at least as odd, and what was odd."""

    test: str
    p: float
    what: str
    keys: list[str]


class Examination(Message, frozen=True):
    """Whether a round's reports look like the noise that devices make; the oddest test first.

    `p` is the chance of the oddest, corrected for how many tests there were. Without an alarm nothing is
    proved: whoever draws honest noise around a lie is bounded, and cannot be seen.
    """

    round: int
    reports: int
    alarm: bool
    p: float
    suspects: list[str]
    """Keys that the tests which raise the alarm point at."""
    tests: list[Oddity]
    segments: list[Oddity]
    """By how much each clear segment differs from the others of its attribute, attribute by attribute, the
    oddest first. They may do so honestly, so none of them raises the alarm."""
    damaged_blocks: int


class KeyView(Message, frozen=True):
    """A public key, to which reports are sealed."""

    id: str
    """The first eight bytes of its SHA-256, in hexadecimal."""
    public: str
    """Its 32 bytes, in hexadecimal."""
    made_at: Seconds


class KeyList(Message, frozen=True):
    """Public keys, the newest first: devices seal to that one."""

    suite: str
    keys: list[KeyView]


class BatchTaken(Message, frozen=True):
    """Part of a relay's batch is dealt with: the same answer to a repeat, whatever became of each report."""

    batch: str
    part: int


class Ids(Message, frozen=True):
    """Ids for reports that are yet to be made, in hexadecimal; each counts once."""

    ids: list[str]


class NewToken(Message, frozen=True):
    """A token to be made."""

    role: RoleName
    label: Line = ""
    rate: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    """At most so many requests a second (of a device: reports a second)."""


class TokenCreated(Message, frozen=True):
    """A token, shown this once."""

    id: str
    token: str
    role: RoleName
    campaign: CampaignId | None
    """The campaign or the series that it is for."""


class TokenView(Message, frozen=True):
    """A token in a list; the secret is not known any more."""

    id: str
    role: RoleName
    campaign: CampaignId | None
    label: str
    rate: float | None
    created_at: Seconds
    revoked_at: Seconds | None


class TokenList(Message, frozen=True):
    """Tokens, the oldest first."""

    tokens: list[TokenView]


class ActView(Message, frozen=True):
    """An administrative act; `token` is the id of the token that acted."""

    no: int
    at: Seconds
    token: str
    act: str
    campaign: str
    detail: str


class ActList(Message, frozen=True):
    """The log from a place on, a page at a time."""

    acts: list[ActView]


class Health(Message, frozen=True):
    """Whether the process lives."""

    status: str


class Ready(Message, frozen=True):
    """Whether reports can be taken, by how many seconds the clock jumped, what is damaged or overdue."""

    ready: bool
    store: str
    waiting_uploads: int
    clock_doubt: float
    failing: str
    """Why the store cannot be used, if it cannot."""
    damaged: list[str]
    overdue: list[str]
    """Ids of series that should have opened a wave, and did not."""


class ProblemDocument(Message, frozen=True):
    """A refusal, as RFC 9457 has it; `code` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    meaning: str
    remedy: str


class TallyDocument(Message, frozen=True):
    """The sum of a round's reports: integers that add."""

    question: str
    n_reports: int
    cells: dict[str, Any]


class PairRow(Message, frozen=True, kw_only=True):
    """Two keys. Intervals are 95 %, each alone; what is not known is null, and so is an end without bound."""

    first: str
    second: str
    first_name: str | None = None
    """What people call them, where the campaign says so."""
    second_name: str | None = None
    both: float
    """The share of users who hold both."""
    both_low: float
    both_high: float
    both_raw: float
    """Unbiased."""
    both_shrunk: float
    """Pulled towards chance, as far as all pairs together are near it."""
    by_chance: float
    """The share who would hold both if the one said nothing of the other."""
    lift: float | None
    """How many times as many hold both as by chance."""
    lift_low: float
    lift_high: float | None
    surely: Literal["more often than by chance", "less often than by chance", ""]
    """Of all pairs together: where keys are held by chance at most 5 of 100 tables say anything."""
    second_given_first: float | None
    """The share of the first key's holders who hold the second."""
    second_given_first_low: float
    second_given_first_high: float
    first_given_second: float | None
    first_given_second_low: float
    first_given_second_high: float
    mean_first: float | None
    """The mean of the first key among those who hold the second as well."""
    mean_first_low: float | None
    mean_first_high: float | None
    mean_second: float | None
    mean_second_low: float | None
    mean_second_high: float | None


class PairsDocument(Message, frozen=True):
    """Metadata and one row a pair of keys."""

    metadata: dict[str, Any]
    rows: list[PairRow]


class ReleaseDocument(Message, frozen=True):
    """Metadata and one row a key."""

    metadata: dict[str, Any]
    rows: list[dict[str, Any]]
