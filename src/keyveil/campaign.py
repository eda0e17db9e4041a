"""A campaign: one question asked of a population.

A campaign is public and immutable. Its canonical JSON is hashed; the hash is its id and is bound
into every report, so a report can never be counted under another question. Changing anything makes
a new campaign.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any

from keyveil.domain import (
    DITHER_BINS,
    UNDITHERED,
    Crossing,
    Domain,
    Labelled,
    OpenDomain,
    Pairs,
    TextCode,
    check_dither,
)
from keyveil.domain.texts import PLAIN
from keyveil.errors import CampaignError, DescriptionError, DomainError, KeyveilError, MissingPackage
from keyveil.mechanisms import Mechanism, build
from keyveil.mechanisms.base import ISSUED, check_size
from keyveil.methods import (
    MECHANISM_OPTIONS,
    METHODS,
    WANTS,
    find_method,
    has_several_rounds,
    known_method,
    mechanism_of,
)
from keyveil.numerics import parse_epsilon
from keyveil.report import CAMPAIGN_BYTES
from keyveil.rounds import Round, described
from keyveil.segments import MOST_ATTRIBUTES, Segments
from keyveil.series import Series

if TYPE_CHECKING:
    from keyveil.breakdowns import Breakdowns
    from keyveil.protocols import Protocol
    from keyveil.release import Release
    from keyveil.tally import Tally

# What a device reads at most; no question needs more.
LARGEST_TEXT, MOST_KEYS = 1 << 20, 1 << 15
LONGEST_UNIT = 40
# Keys, names, the range, pairs, the values of every attribute; the campaign, its series and its segments.
_LISTS, _TABLES = 4 + MOST_ATTRIBUTES, 3
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_LAST_YEAR = 9998
OWN = "own"
ALL_PAIRS = "all"
# What `keys` and `mechanism` say where nobody knows the list.
OPEN = "open"
# Whether sealed reports come through a relay: never, at each device's choice, or always.
DIRECT, ALLOWED, REQUIRED = "none", "allowed", "required"
RELAYS = (DIRECT, ALLOWED, REQUIRED)
# The share of a batch that a central promise takes to be honest where nothing else is said.
HONEST = 0.5
LARGEST_BATCH = 1 << 31
# Left out of a campaign's text, which says nothing where it is as it always was: older ones keep their ids.
_UNSAID: tuple[tuple[str, Any], ...] = (
    ("ids", OWN),
    ("dither", UNDITHERED),
    ("beyond", False),
    ("relay", DIRECT),
    ("block", ()),
    ("minimum", 0.0),
)
# The least number of bins of which two can be spared for values beyond the range.
_FEWEST_BEYOND = 4
_REQUIRED = ("name", "epsilon", "keys", "value_range", "pairs_per_user", "mechanism")


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What is asked, of which keys, at which epsilon, by which mechanism.

    >>> apps = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                 pairs_per_user=2, mechanism="pckv-ue")
    >>> apps.domain.n_keys, apps.build().id, len(apps.id)
    (2, 'pckv-ue', 64)
    """

    name: str
    epsilon: float
    keys: Sequence[str]
    value_range: Sequence[float]
    pairs_per_user: int
    mechanism: str
    other: bool = False
    bins: int | None = None
    cohorts: int | None = None
    rho: float | None = None
    """`bucket`'s dials: how many public hashes, and how often a key's signs share a bucket (1: no means)."""
    rounds: int | None = None
    users: int | None = None
    """How many are expected to answer: `auto` chooses for so many, 100,000 where nothing is said."""
    want: str | None = None
    """What is to be known best: `auto` asks by it, for "both" frequencies and means where nothing is said."""
    dither: int | None = None
    """In how many bins reports are counted by the public word that rounds their values; 1 where none does.

    16 where nothing is said and the method tells signs: how values are spread is then known as well, and
    nothing is lost. A campaign's text leaves out a 1, as all texts once did.
    """
    beyond: bool = False
    """Whether values beyond the range are counted apart, in a bin at either end; else they go to its ends."""
    ids: str = OWN
    """Where report ids come from: a device's "own" draw, or "issued" by the collector.

    What follows from an issued id, an index or a hash, is nobody's choice, so liars can do less.
    """
    relay: str = DIRECT
    """Whether reports come sealed through a relay, another operator's: "none", "allowed" or "required"."""
    batch: int | None = None
    """How many sealed reports a relay forwards at once, at least, in an order of its own."""
    central_epsilon: float | None = None
    """What is promised besides `epsilon`, towards a collector that does not work with the relay."""
    delta: float | None = None
    """The chance that the central promise leaves aside."""
    honest: float | None = None
    """The share of a batch that the central promise takes to be honest; a half where nothing is said."""
    longest: int | None = None
    """Where `keys` are "open", how many bits of a key are said: what is longer is found as far as they go."""
    code: Mapping[str, str] | Sequence[tuple[str, str]] | None = None
    """The public code that turns texts into those bits; bytes as they are where nothing is said."""
    block: Sequence[str] = ()
    """Keys that are never measured, where they are open."""
    minimum: float = 0.0
    """The least frequency of a key that is published, where keys are open."""
    series: Series | None = None
    """How often it is asked, where it is asked in waves: `[series]` of a file.

    `epsilon`, `batch` and the central promise are those of one answer, so of one wave; `users` are those of
    the whole series.
    """
    segments: Segments | None = None
    """By what users are distinguished, and whether their labels are in the clear: `[segments]` of a file."""
    pairs: str | Sequence[str] | Sequence[Sequence[str]] | None = None
    """Which pairs of keys are asked about besides keys: "all", or a list such as [["maps", "mail"]].

    A campaign's text lists the names of all pairs one after the other, and so does this.
    """
    unit: str | None = None
    """What values are counted in ("minutes"), for people."""
    names: Sequence[str] | Mapping[str, str] | None = None
    """What keys are called, for people: by key, or for every key in their order, which it becomes."""
    owner: str = ""
    purpose: str = ""
    expires: str = ""
    is_described: InitVar[bool] = False
    """Whether a device reads it: it answers the round that is described, and builds none of its own."""

    def __post_init__(self, is_described: bool) -> None:
        for field_name in ("name", "mechanism", "owner", "purpose", "expires"):
            _expect(getattr(self, field_name), str, "text", field_name)
        _expect(self.other, bool, "true or false", "other")
        _expect(self.beyond, bool, "true or false", "beyond")
        _expect(self.series, Series | None, "a Series", "series")
        _expect(self.segments, Segments | None, "Segments", "segments")
        if self.ids not in (OWN, ISSUED):
            raise CampaignError(f'ids must be "{OWN}" or "{ISSUED}", got {str(self.ids)[:40]!r}, at $.ids')
        if self.expires and _read_moment(self.expires) is None:
            raise CampaignError(
                f"expires must be a date such as 2027-01-31, got {self.expires[:40]!r}, at $.expires"
            )
        for field_name in ("pairs_per_user", "bins", "cohorts", "rounds", "users", "batch"):
            number = getattr(self, field_name)
            if isinstance(number, bool) or not isinstance(number, (int, NoneType)):
                raise CampaignError(f"{field_name} must be a whole number, got {number!r}, at $.{field_name}")
        if self.rho is not None:
            if isinstance(self.rho, bool) or not isinstance(self.rho, (int, float)) or not abs(self.rho) <= 1:
                raise CampaignError(f"rho must be a number from -1 to 1, got {self.rho!r}, at $.rho")
            object.__setattr__(self, "rho", float(self.rho))
        if self.users is not None and self.users < 1:
            raise CampaignError(f"users must be at least 1, got {self.users}, at $.users")
        if self.keys != OPEN and not isinstance(self.keys, (list, tuple)):
            raise CampaignError(f"keys must be a list of texts, got {type(self.keys).__name__}, at $.keys")
        self._settle_open()
        parse_epsilon(self.epsilon)
        self._settle_dither()
        object.__setattr__(self, "epsilon", float(self.epsilon))
        self._settle_relay()
        object.__setattr__(self, "keys", OPEN if self.is_open else tuple(self.keys))
        if self.pairs is not None:
            object.__setattr__(self, "pairs", _flat_pairs(self.pairs))
        object.__setattr__(self, "value_range", self.domain.value_range)
        if self.series is not None and (self.series.first_keys or 0) >= len(self.keys):
            raise CampaignError("first_keys must be fewer than there are keys, at $.series.first_keys")
        if self.unit is not None and not (isinstance(self.unit, str) and 0 < len(self.unit) <= LONGEST_UNIT):
            raise CampaignError(f"unit must be a text of at most {LONGEST_UNIT} letters, at $.unit")
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, self.domain.keys))
        check_size(len(self.domain.key_names), self.pairs_per_user)
        if self.want is not None and self.want not in WANTS:
            raise CampaignError(
                f"want must be one of {', '.join(WANTS)}, got {str(self.want)[:40]!r}, at $.want"
            )
        if not is_described:
            self._check_heeds_want()
            self._check_crossing()
            self._check_tells_segments()
            self._check_hides_segments()
            if not self.has_several_rounds:
                self.build()

    @classmethod
    def load(cls, path: str | Path) -> Campaign:
        """The campaign in a TOML or JSON file; `keys_file` names a text file with one key a line."""
        import tomllib

        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        except OSError as error:
            raise CampaignError(f"cannot read {path}: {error.strerror}") from None
        except (UnicodeDecodeError, json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
            raise CampaignError(f"{path} is neither TOML nor JSON: {error}") from None
        if not isinstance(data, dict):
            raise CampaignError(f"{path} must hold a table of fields, got {type(data).__name__}")
        try:
            return cls.from_fields(data, folder=path.parent)
        except KeyveilError as error:
            raise type(error)(f"{error}, in {path.name}") from None

    @classmethod
    def from_fields(
        cls, data: Mapping[str, Any], folder: Path | None = None, *, is_described: bool = False
    ) -> Campaign:
        """The campaign that a parsed file describes; unknown and missing fields are refused.

        Only a file, which lies in a folder, may name a `keys_file`: nobody far away says what is read here.
        """
        given = dict(data)
        if folder is not None and (keys_file := given.pop("keys_file", None)) is not None:
            if "keys" in given:
                raise CampaignError("give keys or keys_file, not both")
            given["keys"] = _read_keys(folder / str(keys_file))
        unknown = sorted(set(given) - {field.name for field in fields(cls)})
        if unknown:
            raise CampaignError(f'unknown field "{unknown[0]}", at $.{unknown[0]}')
        for field_name in _REQUIRED:
            if field_name not in given:
                raise CampaignError(f'field "{field_name}" is missing, at $.{field_name}')
        if (series := given.pop("series", None)) is not None:
            given["series"] = Series.from_fields(series)
        if (segments := given.pop("segments", None)) is not None:
            given["segments"] = Segments.from_fields(segments)
        return cls(**given, is_described=is_described)

    @classmethod
    def from_said(cls, said: Mapping[str, Any], *, is_described: bool = False) -> Campaign:
        """The campaign that the fields of a canonical text describe, which leaves out what was always so."""
        return cls.from_fields({**dict(_UNSAID), **said}, is_described=is_described)

    @classmethod
    def from_text(cls, text: object) -> Campaign:
        """The campaign whose canonical text this is, as a device receives it; anything else is refused."""
        if not isinstance(text, str) or not _is_readable(text):
            raise DescriptionError(f"expected a campaign in at most {LARGEST_TEXT} bytes, at $.campaign")
        try:
            said = json.loads(text)
            if not isinstance(said, dict) or len(said.get("keys", ())) > MOST_KEYS:
                raise CampaignError(f"expected fields and at most {MOST_KEYS} keys")
            campaign = cls.from_said(said, is_described=True)
        except (KeyveilError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            why = str(error) if isinstance(error, KeyveilError) else type(error).__name__
            raise DescriptionError(f"what was sent is no campaign: {why}, at $.campaign") from None
        if campaign.canonical_json != text:
            raise DescriptionError("the campaign's text is not its canonical one, at $.campaign")
        return campaign

    @cached_property
    def canonical_json(self) -> str:
        """One byte string a campaign: sorted fields, no spaces."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        said = {name: value for name, value in values if value is not None and (name, value) not in _UNSAID}
        if self.series is not None:
            said["series"] = self.series.to_fields()
        if self.segments is not None:
            said["segments"] = self.segments.to_fields()
        if self.code is not None:
            said["code"] = dict(self.code)
        return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical_json.encode()).hexdigest()

    @property
    def tag(self) -> bytes:
        """The half of the id that every report carries."""
        return bytes.fromhex(self.id)[:CAMPAIGN_BYTES]

    @cached_property
    def domain(self) -> Domain:
        """The keys and their range."""
        beyond = self._bins if self.beyond else 0
        if self.is_open:
            assert self.longest is not None
            code = TextCode(longest=self.longest, tables=dict(self.code or {"": PLAIN}))
            return OpenDomain(value_range=self.value_range, beyond=beyond, code=code)
        plain = Domain(keys=tuple(self.keys), value_range=self.value_range, other=self.other, beyond=beyond)
        return replace(plain, crossing=self._crossing(plain))

    def _crossing(self, plain: Domain) -> Crossing | None:
        """What is asked about instead of keys, if anything."""
        is_private = self.segments is not None and not self.segments.is_clear
        if self.pairs is not None and is_private:
            raise CampaignError(
                "pairs of keys are not asked about by private segments, at $.pairs; "
                'tell labels in the clear: told = "clear"'
            )
        if self.pairs is not None:
            if self.pairs == ALL_PAIRS:
                return Pairs.among(range(len(plain.key_names)))
            return _read_pairs(self.pairs, plain)
        if self.segments is None or not is_private:
            return None
        if len(self.segments.names) != 1:
            raise CampaignError(
                f"one attribute can be private, got {', '.join(self.segments.names)}, at $.segments; "
                "make one of their combinations"
            )
        return Labelled(self.segments.values(self.segments.names[0]), len(plain.key_names))

    @property
    def _length(self) -> int:
        """How many pairs of what is asked about a record is cut to."""
        crossing = self.domain.crossing
        return self.pairs_per_user if crossing is None else crossing.length(self.pairs_per_user)

    def _check_crossing(self) -> None:
        """Refuse methods that ask about keys in several rounds, and names that say nothing."""
        crossing = self.domain.crossing
        if crossing is None:
            return
        where = "pairs" if self.pairs is not None else "segments"
        method = find_method(self.mechanism)[0]
        if method.has_several_rounds or not method.tells_signs:
            raise CampaignError(
                f"what is asked about is crossed, which wants a method of one round that tells signs, got "
                f'"{self.mechanism}", at $.{where}; say mechanism = "bucket"'
            )
        if len(set(self.domain.names)) < self.domain.n_keys:
            raise CampaignError(f"two combinations would be called alike, at $.{where}; rename a key")

    @cached_property
    def by_key(self) -> Campaign:
        """The same question about keys alone: what the totals of private segments are about."""
        return self if self.segments is None else replace(self, segments=None, is_described=True)

    @property
    def display_names(self) -> tuple[str, ...]:
        """What every code is called, for people; `other` included."""
        domain = self.domain
        named = domain.keys if self.names is None else tuple(self.names)
        shown = (*named, *domain.key_names[len(named) :])
        return shown if domain.crossing is None else domain.crossing.names(shown)

    @cached_property
    def expiry(self) -> datetime | None:
        """The moment from which devices no longer answer; a bare date includes its day, in UTC.

        A wave, or a series, ends with its calendar if not before.
        """
        ends = (_read_moment(self.expires), None if self.series is None else self.series.ending)
        return min((end for end in ends if end is not None), default=None)

    @property
    def has_several_rounds(self) -> bool:
        """Whether later rounds follow from earlier ones, so that a device must be sent the open round."""
        return has_several_rounds(self.mechanism)

    @property
    def is_open(self) -> bool:
        """Whether nobody knows the list of keys, so that they are searched for."""
        return self.keys == OPEN

    @property
    def is_relayed(self) -> bool:
        """Whether reports may come through a relay."""
        return self.relay != DIRECT

    @property
    def is_wave(self) -> bool:
        """Whether devices answer it as one wave of a series."""
        return self.series is not None and self.series.wave is not None

    def check_is_asked(self) -> None:
        """Refuse a series as a whole: devices answer its waves."""
        if self.series is not None and self.series.wave is None:
            raise DescriptionError("a series is answered wave by wave, and this is none, at $.series.wave")

    @cached_property
    def whole_series(self) -> Campaign:
        """The series that this is, or is a wave of: with the keys that it began with, and no wave named."""
        if self.series is None:
            raise CampaignError("this campaign is asked once; it has no series, at $.series")
        if self.series.wave is None:
            return self
        keys, names = self.keys[: self.series.first_keys], self.names
        return replace(
            self,
            keys=keys,
            names=None if names is None else tuple(names)[: len(keys)],
            series=self.series.whole(),
            is_described=True,
        )

    def wave(self, number: int, added: Sequence[str] = ()) -> Campaign:
        """One wave of this series, a campaign of its own; with the keys that came later.

        >>> weekly = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
        ...     pairs_per_user=2, mechanism="kvue", series=Series(every="week", waves=9, start="2026-11-23"))
        >>> third = weekly.wave(3, added=["chat"])
        >>> third.whole_series.id == weekly.id, third.id == weekly.id, third.expiry.date().isoformat()
        (True, False, '2026-12-14')
        """
        whole = self.whole_series
        assert whole.series is not None
        first_keys = len(whole.keys) if added else None
        return replace(
            whole,
            keys=(*whole.keys, *added),
            names=None if whole.names is None else (*whole.names, *added),
            series=replace(whole.series, wave=number, first_keys=first_keys),
        )

    @property
    def promised(self) -> float:
        """The most that a device's answers cost: to all rounds, and where it is a series to all waves."""
        return self.epsilon * (1 if self.series is None else self.series.answers)

    @property
    def issues_ids(self) -> bool:
        """Whether the collector hands out the ids of reports."""
        return self.ids == ISSUED

    @property
    def _dials(self) -> dict[str, Any]:
        """The mechanism's own options, those that are set."""
        set_to = {name: getattr(self, name, None) for name in MECHANISM_OPTIONS}
        return {name: value for name, value in set_to.items() if value is not None}

    def batch_of(self, round: Round) -> int:
        """How many sealed reports to a round a relay forwards at once, at least: its share of a batch.

        Nobody hides among those who were asked something else.
        """
        assert self.batch is not None, "a campaign that no relay carries has no batches"
        low, high = round.group
        return share_of_batch(self.batch, high - low)

    def check_round(self, round: Round) -> None:
        """Refuse a round that asks otherwise than the campaign's own text says."""
        self._check_part(round)
        self._check_labels(round)

    def _check_part(self, round: Round) -> None:
        """Refuse a round for a smaller part of the devices than the method asks, where a relay carries it.

        Batches are as much smaller as the part is: a collector that opened a round for very few would find
        each of them among as few. Which part that is must not be its word, so it follows from the campaign.
        """
        method = known_method(self.mechanism)
        # What somebody else registered has one round.
        least = Fraction(1) if method is None else method.least_part
        low, high = round.group
        if self.is_relayed and high - low < least:
            raise DescriptionError(
                f'expected a round for at least {float(least):g} of the devices, as "{self.mechanism}" asks, '
                f"got one for {float(high - low):.4g}, who would not hide each other, at $.group",
                code="small-group",
            )

    def _check_labels(self, round: Round) -> None:
        """Refuse a round whose reports would carry other labels than the campaign says."""
        if round.labels != self.clear_labels:
            raise DescriptionError(
                f"expected a round with labels of the sizes {list(self.clear_labels)}, as the campaign's "
                f"segments, got {list(round.labels)}, at $.labels"
            )

    def _settle_relay(self) -> None:
        """Refuse a promise that no relay could keep, and write down what is not said of one."""
        if self.relay not in RELAYS:
            raise CampaignError(
                f"relay must be one of {', '.join(RELAYS)}, got {str(self.relay)[:40]!r}, at $.relay"
            )
        if self.relay != DIRECT and self.ids == ISSUED:
            raise CampaignError(
                "ids that a collector hands out show it who sends what a relay carries, at $.ids; "
                'leave ids out, or say relay = "none"'
            )
        if (self.batch is not None) != (self.relay != DIRECT):
            raise CampaignError(
                "a relay and the least batch that it forwards go together, at $.batch; say both or neither"
            )
        if self.batch is not None and not 2 <= self.batch <= LARGEST_BATCH:
            raise CampaignError(
                f"batch must be a number from 2 to {LARGEST_BATCH}, got {self.batch}, at $.batch"
            )
        promised = (self.central_epsilon, self.delta)
        if (promised[0] is None) != (promised[1] is None) or (
            promised[0] is None and self.honest is not None
        ):
            raise CampaignError(
                "central_epsilon and delta go together, and honest with both, at $.central_epsilon"
            )
        if promised[0] is None:
            return
        if self.relay != REQUIRED:
            raise CampaignError(
                f'a central epsilon needs relay = "{REQUIRED}": what comes directly has none, at $.relay'
            )
        if self.honest is None:
            object.__setattr__(self, "honest", HONEST)
        _settle_between(self, "central_epsilon", 0, self.epsilon)
        _settle_between(self, "delta", 0, 1, below=True)
        _settle_between(self, "honest", 0, 1)

    def _settle_open(self) -> None:
        """Refuse what does not go with open keys, and what goes with nothing else."""
        if (self.mechanism == OPEN) != self.is_open:
            raise CampaignError(
                f'keys = "{OPEN}" and mechanism = "{OPEN}" go together, at $.mechanism; say both or neither'
            )
        if (self.longest is not None) != self.is_open:
            raise CampaignError(
                f'longest goes with keys = "{OPEN}": how many bits of a key are said, at $.longest'
            )
        if not self.is_open:
            if self.code is not None or self.block or self.minimum:
                raise CampaignError(f'code, block and minimum are for keys = "{OPEN}", at $.code')
            return
        for_listed = (self.names, self.series, self.segments, self.pairs)
        if self.other or any(field is not None for field in for_listed):
            raise CampaignError(
                "other, names, a series, segments and pairs are for keys that are listed, at $.keys; "
                "leave them out"
            )
        if self.code is not None:
            pairs = self.code.items() if isinstance(self.code, Mapping) else self.code
            object.__setattr__(self, "code", tuple(sorted((after, lengths) for after, lengths in pairs)))
        block = self.block
        if not isinstance(block, (list, tuple)) or not all(isinstance(each, str) and each for each in block):
            raise CampaignError("block must be a list of texts, at $.block")
        if len(set(block)) < len(block):
            raise CampaignError("block names a key twice, at $.block")
        object.__setattr__(self, "block", tuple(block))
        is_number = isinstance(self.minimum, (int, float)) and not isinstance(self.minimum, bool)
        if not is_number or not 0 <= self.minimum < 1:
            raise CampaignError(
                f"minimum must be a share from 0 to 1, got {str(self.minimum)[:40]}, at $.minimum"
            )
        object.__setattr__(self, "minimum", float(self.minimum))

    def _settle_dither(self) -> None:
        """Write down what is not said: a campaign is what its text says, whatever is usual later."""
        if self.dither is None:
            method = known_method(self.mechanism)
            tells_signs = method is not None and method.tells_signs and self.rho != 1
            object.__setattr__(self, "dither", DITHER_BINS if tells_signs else UNDITHERED)
        try:
            check_dither(self.dither)
        except DomainError as error:
            raise CampaignError(f"{error}, at $.dither") from None
        if self.beyond and self._bins < _FEWEST_BEYOND:
            raise CampaignError(
                f"values beyond the range are counted in bins of the dither, of which there must be "
                f"{_FEWEST_BEYOND}, got {self.dither}, at $.beyond"
            )

    def _check_heeds_want(self) -> None:
        """Refuse a wish that the method would not listen to."""
        if self.want is None or find_method(self.mechanism)[0].heeds_want:
            return
        heed = " or ".join(name for name, method in METHODS.items() if method.heeds_want)
        raise CampaignError(
            f'want is for a method that chooses by it, got "{self.want}" beside "{self.mechanism}", which '
            f'always asks alike, at $.want; leave want out, or say mechanism = "{heed}"'
        )

    def _check_tells_segments(self) -> None:
        """Refuse segments of a method whose rounds follow from what all users said together."""
        if self.segments is not None and find_method(self.mechanism)[0].of_everybody is None:
            raise CampaignError(
                f'"{self.mechanism}" builds each round on what all users said in the last, and tells nothing '
                "of a segment, at $.segments; leave segments out, or choose auto or a method of one round"
            )

    def _check_hides_segments(self) -> None:
        """Refuse a central promise beside clear labels: a report hides among those of its labels alone."""
        if self.central_epsilon is not None and self.clear_labels:
            raise CampaignError(
                "clear labels split every batch of a relay, and nobody knows beforehand how small the parts "
                'are, at $.central_epsilon; leave it out, or say told = "private"'
            )

    def build(self) -> Mechanism:
        """The mechanism of the only round, calibrated to the campaign's epsilon."""
        if self.has_several_rounds:
            raise CampaignError(f'"{self.mechanism}" has several rounds; pass the open round')
        made = build(
            mechanism_of(self.mechanism),
            self.epsilon,
            n_keys=self.domain.n_keys,
            pairs_per_user=self._length,
            **self._dials,
        )
        return made.with_issued_ids() if self.issues_ids else made

    def only_round(self) -> Round:
        """The round of a campaign that has one; it needs no telling."""
        asked = self.build()
        dither = self._bins if asked.tells_signs else UNDITHERED
        return Round(
            campaign=self.id,
            number=1,
            purpose="collect",
            mechanism=asked,
            dither=dither,
            labels=self.clear_labels,
        )

    @property
    def clear_labels(self) -> tuple[int, ...]:
        """How many values each attribute has whose label every report carries in the clear."""
        return () if self.segments is None else self.segments.clear_sizes

    @property
    def _bins(self) -> int:
        return UNDITHERED if self.dither is None else self.dither

    def first_round(self) -> Round:
        """The round that a campaign begins with."""
        return self.protocol().start(self.id)

    def device_config(self, round: Round | None = None) -> dict[str, Any]:
        """The description of a round, as devices receive it; JSON-ready.

        Everything public of the round, with the campaign's canonical text in place of its id: the text's
        SHA-256 is the id, so a device can check it.
        """
        asked = self.only_round() if round is None else round
        if asked.campaign != self.id:
            raise CampaignError(
                f"expected a round of campaign {self.id[:12]}, got one of {asked.campaign[:12]}"
            )
        return {**asked.fields(), "campaign": self.canonical_json}

    def read_round(self, description: object) -> Round:
        """The round that a description tells of, or a refusal.

        It holds the campaign's text, or its id where the text stands beside it, as in a collector's answer.
        """
        said = described(description)
        if said["campaign"] not in (self.id, self.canonical_json):
            raise DescriptionError(
                f"expected a round of campaign {self.id[:12]}, got one of another", code="other-campaign"
            )
        round = self.round_of({**said, "campaign": self.id})
        self.check_round(round)
        return round

    def round_of(self, said: object) -> Round:
        """The round of this campaign that is described; whatever it says of a campaign is not looked at."""
        return Round.from_fields(said, n_keys=self.domain.n_keys, are_open=self.is_open)

    @classmethod
    def from_description(cls, description: object) -> tuple[Campaign, Round]:
        """The campaign and the round that a description tells of, or a refusal.

        >>> apps = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
        ...                 pairs_per_user=2, mechanism="pckv-ue")
        >>> Campaign.from_description(apps.device_config()) == (apps, apps.only_round())
        True
        """
        campaign = cls.from_text(described(description)["campaign"])
        campaign.check_is_asked()
        return campaign, campaign.read_round(description)

    def protocol(self, version: str | None = None) -> Protocol:
        """The rounds of this campaign; `protocol().start(campaign.id)` is the first.

        `version` is what an open round says of the protocol that opened it ("auto/1"); the newest if None.
        """
        with _collecting():
            from keyveil.protocols import Dithered, IssuedIds, Labelled, Promise, build_protocol
        wanted = self._dials
        if self.rounds is not None:
            wanted["rounds"] = self.rounds
        if isinstance(self.domain, OpenDomain):
            wanted |= {"code": self.domain.code, "block": self.block, "minimum": self.minimum}
        if self.users is not None and find_method(self.mechanism)[0].needs_users:
            share = 1 if self.series is None else self.series.share
            wanted["users"] = max(1, math.floor(self.users * share))
        if self.want is not None:
            wanted["want"] = self.want
            wanted["dithered"] = self._bins != UNDITHERED
        if self.central_epsilon is not None and find_method(self.mechanism)[0].heeds_want:
            assert self.delta is not None
            assert self.batch is not None
            assert self.honest is not None
            wanted["promise"] = Promise(self.central_epsilon, self.delta, self.batch, self.honest)
        made = build_protocol(
            self.mechanism,
            self.epsilon,
            n_keys=self.domain.n_keys,
            pairs_per_user=self._length,
            version=version,
            **wanted,
        )
        if self._bins != UNDITHERED:
            made = Dithered(protocol=made, dither=self._bins)
        if self.clear_labels:
            made = Labelled(protocol=made, labels=self.clear_labels)
        return IssuedIds(protocol=made) if self.issues_ids else made

    def tally(self, reports: Iterable[bytes], round: Round | None = None) -> Tally:
        """The sum of the reports to a round, the first if none is named; strangers are refused."""
        with _collecting():
            from keyveil.tally import tally_reports
        return tally_reports(self.first_round() if round is None else round, reports)

    def estimate(
        self, tally: Tally, *, post: str = "readable", quantiles: Sequence[float] = (0.5,)
    ) -> Release:
        """What the tally of a one-round campaign says about every key, with 95 % intervals."""
        with _collecting():
            from keyveil.release import release
        return release(self, self.protocol(), tally, post=post, quantiles=quantiles)

    def breakdowns(
        self, tally: Tally, *, by: Sequence[str] = (), post: str = "readable", quantiles: Sequence[float] = ()
    ) -> Breakdowns:
        """What the tally of a one-round campaign says of every key in every segment, or in those of `by`."""
        with _collecting():
            from keyveil.breakdowns import break_down
        return break_down(self, [(self.first_round(), tally)], by=by, post=post, quantiles=quantiles)


def share_of_batch(batch: int, share: Fraction) -> int:
    """How large batches are of those who are this share of all users.

    >>> share_of_batch(100_000, Fraction(3, 100))
    3000
    """
    return max(2, math.floor(batch * share))


@contextmanager
def _collecting() -> Iterator[None]:
    """What only a collector needs is imported here; a device, which has none of it, learns where it is."""
    try:
        yield
    except ModuleNotFoundError as error:
        said = f"this needs {error.name}; pip install 'keyveil[collect]'"
        raise MissingPackage(said, name=error.name) from None


def _is_readable(text: str) -> bool:
    """Whether a text is short, UTF-8, and no more nested than a campaign: other JSON takes long to read."""
    try:
        if len(text) > LARGEST_TEXT or len(text.encode()) > LARGEST_TEXT:
            return False
    except UnicodeEncodeError:
        return False
    is_plain = text.count("[") <= _LISTS and text.count("{") <= _TABLES
    bare = text if is_plain else _STRING.sub("", text)
    return bare.count("[") <= _LISTS and bare.count("{") <= _TABLES


def _read_moment(text: str) -> datetime | None:
    """The end that a date or a moment says, or None for what is neither."""
    try:
        end = datetime.fromisoformat(text)
        if _DATE.fullmatch(text) is None or end.year > _LAST_YEAR:
            return None
        if "T" not in text and " " not in text:
            end += timedelta(days=1)
        return end if end.tzinfo else end.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _expect(value: object, kind: type | UnionType, wanted: str, field_name: str) -> None:
    if not isinstance(value, kind):
        raise CampaignError(f"{field_name} must be {wanted}, got {type(value).__name__}, at $.{field_name}")


def _settle_between(
    campaign: Campaign, field_name: str, low: float, high: float, below: bool = False
) -> None:
    """Keep a number above the lower end and up to the upper one (or `below` it), as a float."""
    number = getattr(campaign, field_name)
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not low < number <= high or (below and number == high):
        wanted = f"a number above {low:g} and {'below' if below else 'up to'} {high:g}"
        raise CampaignError(f"{field_name} must be {wanted}, got {str(number)[:40]}, at $.{field_name}")
    object.__setattr__(campaign, field_name, float(number))


def _flat_pairs(pairs: object) -> str | tuple[str, ...]:
    """The names of all pairs, one after the other; "all" stays."""
    if pairs == ALL_PAIRS:
        return ALL_PAIRS
    if not isinstance(pairs, (list, tuple)):
        raise CampaignError(f'pairs must be "{ALL_PAIRS}" or a list of pairs of keys, at $.pairs')
    flat: list[object] = []
    for pair in pairs:
        flat += pair if isinstance(pair, (list, tuple)) else [pair]
    if len(flat) % 2 or any(isinstance(pair, (list, tuple)) and len(pair) != 2 for pair in pairs):
        raise CampaignError("every pair names two keys, at $.pairs")
    if not all(isinstance(name, str) for name in flat):
        raise CampaignError("a pair names two keys by their texts, at $.pairs")
    return tuple(map(str, flat))


def _read_pairs(pairs: Sequence[object], plain: Domain) -> Pairs:
    """The codes of the pairs that are named."""
    codes = []
    for name in map(str, pairs):
        code = plain.code_of(name)
        if code is None or not plain.names_key(name):
            raise CampaignError(f"pairs has a key that keys lacks: {name[:80]!r}, at $.pairs")
        codes.append(code)
    both = zip(codes[::2], codes[1::2], strict=True)
    return Pairs(tuple(sorted((min(a, b), max(a, b)) for a, b in both)))


def _checked_names(names: object, keys: Sequence[str]) -> tuple[str, ...]:
    """What each key is called; one without a name is called what it is."""
    if isinstance(names, Mapping):
        unknown = [key for key in names if key not in set(keys)]
        if unknown:
            raise CampaignError(f"names has a key that keys lacks: {str(unknown[0])[:80]!r}, at $.names")
        names = [names.get(key, key) for key in keys]
    if not isinstance(names, (list, tuple)) or len(names) != len(keys):
        raise CampaignError("names must tell of each key what it is called, at $.names")
    for code, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise CampaignError(f"every name must be a non-empty text, at $.names[{code}]")
    return tuple(names)


def _read_keys(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DomainError(f"cannot read keys_file {path.name}: {error}") from None
    return tuple(line.strip() for line in lines if line.strip())
