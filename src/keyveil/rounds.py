"""A round: everything public about one question to one group of a campaign's devices.

One value, the same for whoever meets it: a protocol opens it, a store keeps it, a collector describes it, a
device checks and pins it, reports and tallies answer it. It has one canonical JSON,

    {"campaign": id, "dither": 16, "format": ..., "group": [low, high], "keys": null or codes,
     "mechanism": {...}, "number": 1, "protocol": "auto/1", "purpose": "collect"}

(`keyveil-round/2`; a round whose values are rounded by the devices' own words says nothing of a dither and is
`keyveil-round/1`, as all were once; one whose reports carry clear labels says how many values each attribute
declares, "labels": [3, 2], and always a dither, and is `keyveil-round/3`) and that text's SHA-256 is its pin:
a device that has answered a round answers no other under its number. The mechanism is named, never given as
integers (`mechanisms.named`).

A report to it is made here, of a record, random words and an id: its length and the number of its words
depend on the round alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keyveil.domain import UNDITHERED, Record, check_dither, dither_of, rounded
from keyveil.errors import DescriptionError, DomainError, MechanismError
from keyveil.mechanisms import Mechanism
from keyveil.mechanisms.named import calibrated, read_codes, read_fraction, read_list, read_size
from keyveil.numerics import WORD_BITS, Entropy, Words, system_entropy
from keyveil.report import CAMPAIGN_BYTES, HEADER_BYTES, Envelope, Labels, public_word
from keyveil.segments import MOST_ATTRIBUTES, MOST_VALUES

Group = tuple[Fraction, Fraction]
EVERYBODY: Group = (Fraction(0), Fraction(1))
FORMAT, DITHERED_FORMAT, LABELLED_FORMAT = "keyveil-round/1", "keyveil-round/2", "keyveil-round/3"
ONE_ROUND = "one-round/1"

_FIELDS = ("campaign", "format", "group", "keys", "mechanism", "number", "protocol", "purpose")
# Of each format that is read.
_FIELDS_OF = {
    FORMAT: _FIELDS,
    DITHERED_FORMAT: (*_FIELDS, "dither"),
    LABELLED_FORMAT: (*_FIELDS, "dither", "labels"),
}
_PROTOCOL = re.compile(r"[a-z0-9-]{1,40}/[1-9][0-9]{0,4}", re.ASCII)
_PURPOSE = re.compile(r"[ -~]{0,200}", re.ASCII)
_MOST_ROUNDS = (1 << 16) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One question to one group.

    >>> from keyveil.mechanisms import build
    >>> round = Round(campaign="ab" * 32, number=1, purpose="collect", mechanism=build("kvue", 1, n_keys=2))
    >>> Round.from_fields(round.fields(), n_keys=2) == round, round.pin[:8]
    (True, '3eedf724')
    """

    campaign: str
    """The campaign's id."""
    number: int
    purpose: str
    mechanism: Mechanism
    protocol: str = ONE_ROUND
    """The protocol that opened it, with its version: another version may go on otherwise."""
    group: Group = EVERYBODY
    """Which places in [0, 1) are asked; a device has one place in a campaign."""
    keys: tuple[int, ...] | None = None
    """The codes asked about, renumbered 0, 1, ... in this order; None for all keys."""
    dither: int = UNDITHERED
    """In how many bins reports are counted by the public word that rounds their values; 1 where none does."""
    labels: tuple[int, ...] = ()
    """How many values each attribute declares whose label a report carries in the clear."""

    def __post_init__(self) -> None:
        if self.is_dithered and not self.mechanism.tells_signs:
            raise MechanismError(
                f"{type(self.mechanism).__name__} rounds no value to a sign; dither must be 1"
            )

    @classmethod
    def from_fields(cls, said: object, *, n_keys: int) -> Round:
        """The round that is described, of a campaign with so many keys; anything else is refused."""
        said = described(said)
        keys = None if said["keys"] is None else read_codes(said["keys"], "$.keys", n_keys, n_keys)
        mechanism = calibrated(said["mechanism"], n_keys if keys is None else len(keys))
        return cls(
            campaign=_text(said, "campaign"),
            number=read_size(said["number"], "$.number", 1, _MOST_ROUNDS),
            purpose=_matching(said, "purpose", _PURPOSE, "at most 200 plain letters"),
            mechanism=mechanism,
            protocol=_matching(said, "protocol", _PROTOCOL, "a protocol with its version"),
            group=_group(said["group"]),
            keys=keys,
            dither=_dither(said, mechanism),
            labels=_labels(said),
        )

    def fields(self) -> dict[str, Any]:
        """What is public, ready for JSON."""
        parameters = self.mechanism.parameters
        if parameters is None or self.mechanism.word_bits != WORD_BITS:
            raise MechanismError("a mechanism that was put together by hand has no name to tell devices")
        plain = DITHERED_FORMAT if self.is_dithered else FORMAT
        return {
            "campaign": self.campaign,
            **({"dither": self.dither} if self.is_dithered or self.labels else {}),
            "format": LABELLED_FORMAT if self.labels else plain,
            "group": [str(end) for end in self.group],
            "keys": None if self.keys is None else list(self.keys),
            **({"labels": list(self.labels)} if self.labels else {}),
            "mechanism": parameters.to_json(),
            "number": self.number,
            "protocol": self.protocol,
            "purpose": self.purpose,
        }

    @property
    def canonical_json(self) -> str:
        """One text a round: sorted fields, no spaces."""
        return json.dumps(self.fields(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def pin(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical_json.encode()).hexdigest()

    @property
    def question(self) -> str:
        """What a tally of this round must answer."""
        return f"{self.campaign}/{self.number}"

    @property
    def tag(self) -> bytes:
        """The half of the campaign's id that every report carries."""
        return bytes.fromhex(self.campaign)[:CAMPAIGN_BYTES]

    @property
    def report_bytes(self) -> int:
        """How long a report to it is."""
        return HEADER_BYTES + self.payload_bytes

    @property
    def payload_bytes(self) -> int:
        """How long a report's payload is: the answer, and a byte a label."""
        return self.mechanism.layout.n_bytes + len(self.labels)

    def read(self, payload: bytes) -> tuple[Any, tuple[int, ...]]:
        """The answer and the labels in a payload, or a refusal."""
        end = self.mechanism.layout.n_bytes if self.labels else len(payload)
        return self.mechanism.layout.decode(payload[:end]), Labels(self.labels).decode(payload[end:])

    @property
    def size(self) -> float:
        """The share of users that the round asks."""
        return float(self.group[1] - self.group[0])

    def asks(self, place: Fraction) -> bool:
        """Whether a device at this place belongs to the group."""
        return self.group[0] <= place < self.group[1]

    def narrow(self, record: Record) -> Record:
        """The part of a record that this round asks about, with its codes."""
        return record if self.keys is None else record.among(self.keys)

    @property
    def is_dithered(self) -> bool:
        """Whether values are rounded by the word that the report's id gives."""
        return self.dither != UNDITHERED

    def asked_of(self, record: Record, report_id: bytes) -> Record:
        """What the mechanism is given of a record: the keys asked about, rounded where the id says how."""
        asked = self.narrow(record)
        return rounded(asked, dither_of(report_id)) if self.is_dithered else asked

    def report(
        self,
        record: Record,
        report_id: bytes,
        *,
        labels: Sequence[int] | None = None,
        entropy: Entropy = system_entropy,
    ) -> bytes:
        """The noised report about a user's whole record, and the user's labels: "other" if none are said."""
        words, asked = entropy(self.mechanism.n_words), self.asked_of(record, report_id)
        own = (0,) * len(self.labels) if labels is None else tuple(labels)
        return make_report(
            self.mechanism,
            asked,
            words,
            tag=self.tag,
            round=self.number,
            report_id=report_id,
            labels=Labels(self.labels).encode(own),
        )


def make_report(
    mechanism: Mechanism,
    record: Record,
    words: Sequence[int],
    *,
    tag: bytes,
    round: int,
    report_id: bytes,
    labels: bytes = b"",
) -> bytes:
    """The report to one round of a campaign; a public word is not drawn, it follows from the id.

    Labels lie behind the answer, and change nothing about it.

    >>> from keyveil.mechanisms.symbol.keys_only import Olh
    >>> olh = Olh.for_epsilon(1, n_keys=3)
    >>> sent = make_report(olh, Record.of({}), [0, 0, 0], tag=bytes(16), round=1, report_id=bytes(16))
    >>> answer = olh.layout.decode(Envelope.from_bytes(sent).payload)
    >>> olh.follows(answer, public_word(bytes(16), 1, bytes(16)))
    True
    """
    if mechanism.public_word is not None:
        words = Words.of(words).with_word(mechanism.public_word, public_word(tag, round, report_id))
    payload = mechanism.layout.encode(mechanism.perturb(record, words)) + labels
    return Envelope(campaign=tag, round=round, report_id=report_id, payload=payload).to_bytes()


def described(said: object) -> dict[str, Any]:
    """The fields of a description: those of this format, all of them and no other."""
    if not isinstance(said, dict) or "format" not in said:
        raise DescriptionError("expected the description of a round, got none")
    if said["format"] not in (FORMAT, DITHERED_FORMAT, LABELLED_FORMAT):
        known = f"{FORMAT} to {LABELLED_FORMAT}"
        raise DescriptionError(f"this device reads {known}, at $.format", code="unknown-version")
    if set(said) != set(names := _FIELDS_OF[said["format"]]):
        raise DescriptionError(f"expected {', '.join(names)} of a round, and nothing else")
    return said


def _text(said: Mapping[str, Any], name: str) -> str:
    if isinstance(said[name], str):
        return str(said[name])
    raise DescriptionError(f"expected text, at $.{name}")


def _matching(said: Mapping[str, Any], name: str, pattern: re.Pattern[str], what: str) -> str:
    if isinstance(said[name], str) and pattern.fullmatch(said[name]):
        return str(said[name])
    raise DescriptionError(f"expected {what}, at $.{name}")


def _dither(said: Mapping[str, Any], mechanism: Mechanism) -> int:
    """As said; whoever says it says that there is one."""
    if said["format"] == FORMAT:
        return UNDITHERED
    try:
        bins = check_dither(said["dither"])
    except DomainError as error:
        raise DescriptionError(f"{error}, at $.dither") from None
    if bins == UNDITHERED:
        if said["format"] == LABELLED_FORMAT:
            return bins
        raise DescriptionError("a round without a dither says nothing of it, at $.dither")
    if not mechanism.tells_signs:
        raise DescriptionError("a dither is for mechanisms that round values to signs, at $.dither")
    return bins


def _labels(said: Mapping[str, Any]) -> tuple[int, ...]:
    """As said; the formats that say nothing of labels have none."""
    if said["format"] != LABELLED_FORMAT:
        return ()
    sizes = read_list(said["labels"], "$.labels", MOST_ATTRIBUTES)
    return tuple(read_size(size, "$.labels", 1, MOST_VALUES) for size in sizes)


def _group(said: object) -> Group:
    ends = [read_fraction(end, "$.group") for end in read_list(said, "$.group", 2)]
    if len(ends) == 2 and 0 <= ends[0] < ends[1] <= 1:
        return ends[0], ends[1]
    raise DescriptionError("expected a group of places, two fractions from 0 to 1, at $.group")
