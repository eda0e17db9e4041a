"""The bodies of requests and answers about series."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from keyveil.collector.campaigns.messages import CampaignView, Line, Message, Seconds
from keyveil.collector.campaigns.terms import Terms
from keyveil.dashboard.trend import Trend

SeriesId = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the series' canonical JSON.")
]
SeriesState = Literal["waiting", "running", "paused", "ended", "finished"]
WaveState = Literal["coming", "open", "late", "finished", "missed", "damaged"]
Moment = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799, description="Seconds since 1970-01-01 UTC.")]


class NewSeries(Message, frozen=True):
    """A series and how its waves are to be run here."""

    campaign: dict[str, Any]
    terms: Terms = Terms()
    label: Line = ""


class SeriesCreated(Message, frozen=True):
    """The series' id, and a token for the devices of all its waves that is shown this once."""

    id: SeriesId
    created: bool
    """False if the same series was there already; then nothing was changed."""
    start: str
    """The day on which the first wave begins, in UTC."""
    wave: int | None
    """The wave that is open; null if none is."""
    device_token: str | None


class WaveView(CampaignView, frozen=True):
    """The wave that is asked now: a campaign, and its number."""

    number: int


class SeriesView(Message, frozen=True):
    """What everybody may know: the series, and what a device must know to answer the wave that is open."""

    id: SeriesId
    campaign: str
    """The canonical JSON of the series, as text: hash it, then read it."""
    label: str
    state: SeriesState
    every: Literal["day", "week", "month"]
    opens_at: Seconds | None
    """When the next wave begins; null if none comes."""
    wave: WaveView | None
    """The wave of this moment; null if it has no campaign, or there is none."""


class SeriesLine(Message, frozen=True):
    """A series in a list."""

    id: SeriesId
    name: str
    label: str
    mechanism: str
    state: Literal["waiting", "running", "paused", "ended", "finished", "damaged"]
    every: str
    waves: int
    wave: int
    """The wave of this moment: 0 before the first, one more than there are after the last."""
    reports: int
    created_at: Seconds


class SeriesList(Message, frozen=True):
    """Series, the oldest first."""

    series: list[SeriesLine]


class WaveLine(Message, frozen=True):
    """A wave in a list."""

    number: int
    begins: Seconds
    ends: Seconds
    """When devices no longer answer."""
    closes: Seconds
    """Until when answers that were made in time are taken."""
    campaign: str | None
    """The wave's campaign; null if there is none yet, or never was one."""
    why: str
    """Why a missed wave has no campaign: "down", "paused" or "ended"; else empty."""
    reports: int
    state: WaveState


class WaveList(Message, frozen=True):
    """All waves of a series, in order: those to come, too."""

    waves: list[WaveLine]


class SeriesStatus(Message, frozen=True):
    """What an act led to; the same for everybody who asks for it again."""

    id: SeriesId
    state: SeriesState
    wave: int | None
    """The wave that is open; null if none is."""


class NewKeys(Message, frozen=True):
    """Keys that the series asks for from its next wave on."""

    add: Annotated[list[str], msgspec.Meta(min_length=1)]


class KeysAdded(Message, frozen=True):
    """All keys that came later; those that were there already are not added again."""

    keys: list[AddedKeyView]


class AddedKeyView(Message, frozen=True):
    """A key that came later."""

    key: str
    wave: int
    """The first wave that asks for it."""


class NewAnnotation(Message, frozen=True):
    """A note for everybody who looks at the series: "2.3 released"."""

    at: Moment
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Annotation(Message, frozen=True):
    """A note; `token` is the id of the token that made it."""

    id: int
    at: Seconds
    text: str
    token: str


class AnnotationList(Message, frozen=True):
    """The notes of a series, by the moment of which they are."""

    annotations: list[Annotation]


class TrendView(Message, frozen=True):
    """A series as its page draws it."""

    id: SeriesId
    name: str
    label: str
    state: SeriesState
    every: Literal["day", "week", "month"]
    n_waves: int
    may_annotate: bool
    """Whether the token that asks may note what happened."""
    waves: list[WaveLine]
    """Those that have begun, in order."""
    annotations: list[Annotation]
    found: Trend | None
    """The numbers; null while nobody has answered any wave."""
