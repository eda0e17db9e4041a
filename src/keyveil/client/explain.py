"""What happened, in words for the person whose device it is.

Somebody who thinks a thing as likely as not, and then sees a report that is `ratio` times as likely
if the thing is true, thinks it true with ratio / (1 + ratio). The ratio is the mechanism's own, from
the same integers as the noise; it never exceeds e**epsilon, so at epsilon 1 no guess gets from 50 %
past 73 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from keyveil.campaign import Campaign
from keyveil.domain import Record
from keyveil.rounds import Round

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What there is to tell."""

    campaign: Campaign
    round: Round
    held: Mapping[str, float]
    record: Record
    report_id: bytes
    """Of what was sent; nothing if nothing was."""
    sent: bytes | None
    labels: tuple[int, ...]
    """What this device tells of itself in the clear, where the campaign asks for that."""
    goes_through_relay: bool
    spent: float
    promised: float
    spent_in_all: float
    worst_case: float
    panel: tuple[int, ...] | None = None
    """The waves that this device answers, where the campaign is one."""
    spent_in_a_year: float = 0.0
    yearly_cap: float | None = None

    def __repr__(self) -> str:
        return "<private story>"


def tell(story: Story) -> str:
    """A few sentences."""
    lines = [_asked(story.campaign), _true(story)]
    if story.sent is None:
        lines.append(
            "Sent: nothing yet." if _is_asked(story) else "Sent: nothing; this wave asks other devices."
        )
        lines += _told(story.campaign, story.labels, "A report says")
    elif len(story.sent) != story.round.payload_bytes:
        # An older keyveil answered, and did not keep what it was asked.
        lines.append(f"Sent: {len(story.sent)} noised bytes, to the round as it was described then.")
    else:
        end = story.round.mechanism.layout.n_bytes
        answer, (_, labels) = story.sent[:end], story.round.read(story.sent)
        lines += [
            _said(story, answer),
            *_told(story.campaign, labels, "The report says"),
            *_guesses(story, answer),
        ]
    lines += [
        *_way(story),
        *_often(story),
        f"Spent so far: epsilon {story.spent:.4g} of the {story.promised:.4g} promised for this question, "
        "which moves no guess, whatever is asked and however often, further than from 50 % to "
        f"{_after(story.promised)}.",
        *_in_all(story),
    ]
    return "\n".join(lines)


def percent(chance: float) -> str:
    """A chance in words; never rounded to certainty.

    >>> percent(0.7310), percent(0.99996), percent(1 - 1e-12), percent(0.2)
    ('73 %', '99.996 %', 'nearly 100 %', '20 %')
    """
    for digits in (0, 1, 2, 3, 4, 5):
        shown = f"{100 * chance:.{digits}f}"
        if 0.0 < float(shown) < 99.5 or (digits and 0.0 < float(shown) < 100.0):
            return f"{shown} %"
    return "nearly 100 %" if chance > 0.5 else "nearly 0 %"


def _is_asked(story: Story) -> bool:
    series = story.campaign.series
    return story.panel is None or series is None or series.wave in story.panel


def _often(story: Story) -> list[str]:
    """How often this device answers; of a series also when, which nobody else knows."""
    series = story.campaign.series
    if series is None or story.panel is None:
        return ["This device answers once: asked again, it says the same, whatever changes here."]
    waves = ", ".join(map(str, story.panel))
    return [
        f"It is asked every {series.every}, {series.waves} times. This device answers {series.answers} of "
        f"these waves ({waves}), each once; nobody else knows which, and what is held has no part in it.",
        "With the first answer the price of all of them is booked. Whoever stops says nothing more; what was "
        "told stays told, and nothing that was told tells when one stopped.",
    ]


def _in_all(story: Story) -> list[str]:
    """All questions together: for ever, and in a year where the device's owner bounded that."""
    lines = []
    if math.isfinite(story.worst_case):
        lines.append(
            f"All questions together: {story.spent_in_all:.4g} of {story.worst_case:.4g}, from 50 % to at "
            f"most {_after(story.spent_in_all)} so far and {_after(story.worst_case)} ever."
        )
    else:
        lines.append(
            f"All questions together: {story.spent_in_all:.4g}, from 50 % to at most "
            f"{_after(story.spent_in_all)} so far; what may come of later years has no end."
        )
    if story.yearly_cap is not None:
        lines.append(
            f"Per year: {story.spent_in_a_year:.4g} of {story.yearly_cap:.4g}, from 50 % to at most "
            f"{_after(story.yearly_cap)} in any 365 days."
        )
    return lines


def _asked(campaign: Campaign) -> str:
    owner = f" by {campaign.owner}" if campaign.owner else ""
    purpose = f", to {campaign.purpose}" if campaign.purpose else ""
    return f'The question "{campaign.name}" is asked{owner}{purpose}.'


def _true(story: Story) -> str:
    domain = story.campaign.domain
    known = [f"{name} {value:g}" for name, value in story.held.items() if domain.code_of(name) is not None]
    shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    return f"True here: {shown or 'nothing that is asked about'}. This stays on the device."


def _told(campaign: Campaign, labels: tuple[int, ...], says: str) -> list[str]:
    """What a report tells without noise, where the campaign asks for that."""
    if campaign.segments is None or not campaign.clear_labels:
        return []
    names = campaign.segments.names
    said = (
        f"{name} {campaign.segments.values(name)[label]}" for name, label in zip(names, labels, strict=True)
    )
    return [
        f"{says} in the clear, without noise: {', '.join(said)}. This is not private: whoever reads it knows."
    ]


def _way(story: Story) -> list[str]:
    """How a report goes, where there is a choice."""
    if not story.campaign.is_relayed:
        return []
    if not story.goes_through_relay:
        return ["It goes to the collector directly, which sees the address that it comes from."]
    return [
        "It goes sealed through a relay, which cannot read it; the collector gets it in shuffled batches of "
        f"at least {story.campaign.batch_of(story.round):,} and does not see who sent it. Both together do."
    ]


def _said(story: Story, sent: bytes) -> str:
    return (
        f"Sent: {_heard(story, sent)}, {len(sent)} noised bytes ({sent[:8].hex()}{'...' * (len(sent) > 8)})."
    )


def _heard(story: Story, sent: bytes) -> str:
    """What a reader of the report would take it to say, if it were not noised."""
    if story.round.keys is not None:
        return "an answer about some of the keys"
    names, signs = story.campaign.domain.names, {"plus": "high", "minus": "low"}
    mechanism = story.round.mechanism
    ticks = mechanism.ticks(mechanism.layout.decode(sent))
    said = (f"{names[place[0]]} {signs[name]}" for name, place in ticks if name in signs)
    shown = list(islice(said, _SHOWN + 1))
    if not shown:
        return "no key by name"
    return ", ".join(shown[:_SHOWN]) + (" and more" if len(shown) > _SHOWN else "")


def _guesses(story: Story, sent: bytes) -> list[str]:
    """For the first few things that are true: how likely an observer thinks them now."""
    mechanism, asked_of = story.round.mechanism, story.round.asked_of
    answer = mechanism.layout.decode(sent)
    lines = []
    for pair in story.record.pairs[:_SHOWN]:
        without = Record(tuple(other for other in story.record.pairs if other.code != pair.code))
        with_it, without_it = (asked_of(record, story.report_id) for record in (story.record, without))
        ratio = mechanism.lift(answer, with_it) / mechanism.lift(answer, without_it)
        name = story.campaign.domain.name_of(pair.code)
        lines.append(
            f"Somebody who thought it as likely as not that {name} is there may now think: "
            f"from 50 % to {percent(float(ratio / (1 + ratio)))}."
        )
    return lines


def _after(epsilon: float) -> str:
    return percent(1 / (1 + math.exp(-epsilon)))
