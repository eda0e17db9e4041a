"""The promise of a campaign, computed from the integers that devices draw with; in numbers and in words."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from keyveil.audit import CentralLoss, Certificate, ProtocolCertificate, certify_protocol, promised_loss
from keyveil.campaign import REQUIRED, Campaign
from keyveil.client import Caps
from keyveil.client.explain import percent
from keyveil.domain import Record
from keyveil.protocols import Round
from keyveil.segments import OTHER

# A worst pair of records about many keys says too much to read.
_SHOWN = 12
_LONGEST_NAME = 80


class RoundPromise(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer to one round can tell."""

    number: int
    purpose: str
    share_of_users: float
    epsilon_exact: float
    guess_after: str
    method: str
    bytes_per_report: int


class WorstPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two people whom one report tells apart best, and that report."""

    first: list[str]
    second: list[str]
    report: list[str]
    round: int


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """All of it: the label as JSON."""

    campaign: str
    name: str
    owner: str
    purpose: str
    expires: str
    mechanism: str
    keys: int
    pairs_per_user: int
    value_range: tuple[float, float]
    epsilon_promised: float
    epsilon_exact: float
    """Of all rounds that one person can meet; the smallest float not below ln(ratio)."""
    ratio: tuple[str, str]
    """exp(epsilon) as a fraction of integers."""
    method: str
    is_sound: bool
    rounds: list[RoundPromise]
    worst_pair: WorstPair
    guess_before: str
    guess_after: str
    epsilon_lifetime_at_most: float
    guess_after_lifetime: str
    words: list[str]
    central: dict[str, Any] | None
    """What a relay adds: promised, and as the batches were that have come (`central_fields`)."""


@lru_cache(maxsize=64)
def promise(campaign: Campaign) -> Promise:
    """The label of a campaign; an enumeration may take seconds, so it is done once."""
    protocol = campaign.protocol()
    certificate = certify_protocol(protocol)
    caps = Caps()
    exact = certificate.epsilon
    return Promise(
        campaign=campaign.id,
        name=campaign.name,
        owner=campaign.owner,
        purpose=campaign.purpose,
        expires=campaign.expires,
        mechanism=campaign.mechanism,
        keys=campaign.domain.n_keys,
        pairs_per_user=campaign.pairs_per_user,
        value_range=(float(campaign.value_range[0]), float(campaign.value_range[1])),
        epsilon_promised=campaign.epsilon,
        epsilon_exact=exact,
        ratio=(str(certificate.ratio.numerator), str(certificate.ratio.denominator)),
        method=certificate.method,
        is_sound=exact <= campaign.epsilon,
        rounds=[_round(stage, own) for stage, own in certificate.stages],
        worst_pair=_worst_pair(campaign, certificate),
        guess_before="50 %",
        guess_after=_after(exact),
        epsilon_lifetime_at_most=caps.lifetime,
        guess_after_lifetime=_after(caps.lifetime),
        words=_words(campaign, exact, caps),
        central=_promised(campaign, [stage for stage, _ in certificate.stages]),
    )


def with_batches(label: Promise, seen: CentralLoss | None) -> Promise:
    """The label of a relayed campaign with what is so by the batches that have come."""
    if seen is None or label.central is None:
        return label
    central = {**label.central, "seen": central_fields(seen)}
    return msgspec.structs.replace(label, central=central, words=[*label.words, seen.words])


def central_fields(loss: CentralLoss) -> dict[str, Any]:
    """A central loss as JSON has it."""
    return {
        "epsilon": loss.epsilon,
        "delta": loss.delta,
        "honest": loss.honest,
        "smallest_batch": {str(number): size for number, size in loss.smallest.items()},
        "hidden_among": {str(number): size for number, size in loss.hidden.items()},
        "words": loss.words,
    }


def _promised(campaign: Campaign, stages: list[Round]) -> dict[str, Any] | None:
    """What batches that are just large enough leave; nothing where reports may come directly."""
    if not campaign.is_relayed:
        return None
    said = {"relay": campaign.relay, "epsilon": campaign.central_epsilon, "batch": campaign.batch}
    return {
        **said,
        "promised": central_fields(promised_loss(campaign, stages)) if campaign.relay == REQUIRED else None,
    }


def _words(campaign: Campaign, exact: float, caps: Caps) -> list[str]:
    sent = "One noised report to a round" if campaign.has_several_rounds else "One noised report"
    return [
        f"What a person holds never leaves their device. {sent} does, as long for everybody.",
        f"Somebody who thinks it as likely as not that a person holds something, and then sees the report, "
        f"is right at most {_after(exact)} of the time: whatever else they know, however long they compute.",
        "A device answers once: asked again it sends the same bytes, without a look at what is held by then.",
        f"All campaigns together may learn at most epsilon {caps.lifetime:g} of a person "
        f"({_after(caps.lifetime)}), and one at most {caps.campaign:g}, unless the device's owner set other "
        "caps. No campaign can raise them.",
        f"It ends on {campaign.expires}." if campaign.expires else "It has no end.",
        *_told(campaign),
        _hidden(campaign),
    ]


def _told(campaign: Campaign) -> list[str]:
    """What every report says without noise."""
    if campaign.segments is None or not campaign.segments.is_clear:
        return []
    said = "; ".join(
        f"{name} ({', '.join((*values, OTHER))})" for name, values in campaign.segments.attributes
    )
    return [
        f"Every report also says in the clear, without noise: {said}. This is not private: whoever reads a "
        "report knows it. What is held stays as well hidden as it is said above."
    ]


def _hidden(campaign: Campaign) -> str:
    """Who sees where a report comes from."""
    if campaign.relay == REQUIRED:
        return (
            "Reports come sealed, through a relay: it sees addresses and times and cannot read a report; the "
            "collector reads reports in batches and sees no address, time or order. Not hidden: that a "
            "device took part."
        )
    return "Not hidden: that a device took part, when it sent, and from which address."


def _round(stage: Round, own: Certificate) -> RoundPromise:
    low, high = stage.group
    return RoundPromise(
        number=stage.number,
        purpose=stage.purpose,
        share_of_users=float(high - low),
        epsilon_exact=own.epsilon,
        guess_after=_after(own.epsilon),
        method=own.method,
        bytes_per_report=stage.report_bytes,
    )


def _worst_pair(campaign: Campaign, certificate: ProtocolCertificate) -> WorstPair:
    """Of the round that loses most."""
    stage, own = max(certificate.stages, key=lambda stage: stage[1].ratio)
    names = campaign.domain.names

    def name(code: int) -> str:
        text = (
            names[code if stage.keys is None else stage.keys[code]] if code < len(names) else f"filler {code}"
        )
        return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"

    def holds(record: Record) -> list[str]:
        ends = campaign.value_range
        return [
            f"{name(pair.code)} = {ends[1] if pair.level else ends[0]:g}" for pair in record.pairs[:_SHOWN]
        ]

    said = (tick for tick in stage.mechanism.ticks(own.witness.answer) if tick[0] != "asked")
    return WorstPair(
        first=holds(own.witness.first),
        second=holds(own.witness.second),
        report=[_tick(tick, name) for tick in islice(said, _SHOWN)],
        round=stage.number,
    )


def _tick(tick: Any, name: Any) -> str:
    cell, place = tick
    words = {"plus": "high", "minus": "low"}
    if cell in words:
        return f"{name(place[0])}: {words[cell]}"
    return f"{cell} {'.'.join(map(str, place))}"


def _after(epsilon: float) -> str:
    return percent(1 / (1 + math.exp(-epsilon)))
