"""The contract of a mechanism, and the words its parameters share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeGuard, cast

from keyveil.domain import Record, pick
from keyveil.errors import DomainError, MechanismError
from keyveil.mechanisms.channel import Channel, Exactness, Number, drawing_variance, share_variance
from keyveil.mechanisms.moments import Moments
from keyveil.numerics import WORD_BITS, parse_epsilon
from keyveil.report import Layout

# What descriptions and campaigns say where ids are handed out; they say nothing where devices draw their own.
ISSUED = "issued"

# What a mechanism's `perturb` yields: symbols as bytes or a tuple, or one symbol as an integer.
Answer = Any

# A cell of a tally: its name and the place in it.
Tick = tuple[str, tuple[int, ...]]


class Allocation(Enum):
    """How a budget is shared between the key and the sign."""

    NAIVE = "naive"
    """epsilon/2 for each, as if the two losses added up; they do not, so budget is left over."""
    TIGHT = "tight"
    """epsilon/2 for the sign, and for the key all that the tight composition leaves ([PCKV] eq. 21)."""
    OPTIMAL = "optimal"
    """The mechanism's own best split."""
    EXTREMAL = "extremal"
    """All of epsilon for the value: a wrong value speaks against the key as much as silence does."""


class Witness(NamedTuple):
    """Two records and the answer whose chances under them are furthest apart."""

    first: Record
    second: Record
    answer: Answer


class Part(NamedTuple):
    """The part of a symbol that a public word decides: which of `choices`, each with `answers` symbols."""

    choices: int
    answers: int


class Mechanism(Protocol):
    """A table of probabilities and a way to draw from it.

    Fields are public: they may be logged, published and sent to devices. What is private (the
    record) and what is secret (the words) only ever arrive as arguments.
    """

    @property
    def n_keys(self) -> int:
        """How many keys are asked about."""

    @property
    def pairs_per_user(self) -> int:
        """The padding length l; 1 where records are not padded."""

    @property
    def word_bits(self) -> int:
        """How many bits a random word has: 64, but for tests that try all words."""

    @property
    def parameters(self) -> Parameters | None:
        """How to make it again; None for one that was put together by hand."""

    # --- the kernel: what the proof is about ---

    @property
    def loss(self) -> Fraction:
        """exp(epsilon) in closed form: no two records' chances of a report differ by a larger factor."""

    def witness(self) -> Witness:
        """Records and an answer that come as close to `loss` as any."""

    def answers(self) -> Iterator[Answer]:
        """Every possible answer."""

    def lift(self, answer: Answer, record: Record) -> Fraction:
        """Pr[answer | record] up to a factor that depends on the answer alone; cheap for any n_keys."""

    def probability(self, answer: Answer, record: Record) -> Fraction:
        """Pr[answer | record], exactly as `perturb` realises it."""

    # --- the client's side ---

    @property
    def n_words(self) -> int:
        """How many random words one report takes, whatever the record."""

    @property
    def layout(self) -> Layout:
        """The answer's form on the wire."""

    @property
    def public_word(self) -> int | None:
        """Which word must not be the device's choice but follow from the report's public id; often none."""

    @property
    def public_part(self) -> Part | None:
        """What of an answer that word decides, where there is one."""

    @property
    def tells_signs(self) -> bool:
        """Whether values reach the answer as signs that they were rounded to, by whatever word."""

    @property
    def issued(self) -> bool:
        """Whether the collector hands out report ids, so that nobody chooses what follows from one."""

    def with_issued_ids(self) -> Self:
        """The same where ids are handed out: all that may follow from an id does."""

    def perturb(self, record: Record, words: Sequence[int]) -> Answer:
        """The answer for `record` when the entropy source yields `words`."""

    # --- the collector's side ---

    def follows(self, answer: Answer, word: int) -> bool:
        """Whether the part of an answer that the public word decides is the one that `word` gives."""

    @property
    def a(self) -> Fraction:
        """Pr[key reported | key sampled]."""

    @property
    def b(self) -> Fraction:
        """Pr[key reported | key not sampled]."""

    def variance(self, frequency: Number, asked: Number, users: Number, number: Exactness = float) -> Number:
        """Variance of a debiased frequency when `asked` of the `users` reports could speak of the key."""

    def ticks(self, answer: Answer) -> Iterator[Tick]:
        """The cells of a tally to which one report adds one."""

    def resembles(self, answer: Answer, witness: Witness) -> bool:
        """Whether an answer tells the witness's records apart as its own answer does."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """What makes a mechanism, by name: its id, its budget and its sizes; never an integer of its kernel.

    Whoever knows them and the number of keys calibrates the same mechanism: `named.calibrated`.
    """

    id: str
    fields: tuple[tuple[str, Any], ...]

    def with_issued_ids(self) -> Parameters:
        """The name of the same mechanism where ids are handed out."""
        return Parameters(self.id, (*self.fields, ("ids", ISSUED)))

    def to_json(self) -> dict[str, Any]:
        """As in the description of a round: budgets are fractions in text, sizes are numbers."""
        return {"id": self.id, **{name: _plain(value) for name, value in self.fields}}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        # Levels reach 2**64, more than a JSON number holds everywhere.
        return [str(each) if isinstance(each, Level) else each for each in value]
    return str(value) if isinstance(value, Fraction) else value


class Level(int):
    """A number of words out of 2**64: text in JSON."""

    __slots__ = ()


class Ask(NamedTuple):
    """What a calibration is asked for, checked."""

    epsilon: Fraction
    n_keys: int
    pairs_per_user: int
    allocation: Allocation
    word_bits: int
    options: Mapping[str, Any]

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    def resolved(self, **options: Any) -> Ask:
        """The same with some options chosen."""
        return self._replace(options={**self.options, **options})

    def field(self, name: str) -> Any:
        """What a description says under a name."""
        own = {
            "epsilon": self.epsilon,
            "allocation": self.allocation.value,
            "pairs_per_user": self.pairs_per_user,
        }
        return own[name] if name in own else self.options[name]


class Calibrated(Mechanism, Protocol):
    """A mechanism with a name, that knows its own parameters for an epsilon."""

    id: ClassVar[str]
    allocations: ClassVar[tuple[Allocation, ...]]
    """The splits of a budget that it has, the default first."""
    small_options: ClassVar[Mapping[str, Any]]
    """Options with which an instance is small enough to be enumerated."""
    fields: ClassVar[tuple[str, ...]]
    """What a description of it names, beside the id."""
    follows_ids: ClassVar[bool]
    """Whether it has an index or a hash that may follow from the report's id."""

    @classmethod
    def named(cls, ask: Ask) -> Self:
        """The instance for a request whose every option is chosen; it remembers its name."""

    @classmethod
    def for_epsilon(
        cls,
        epsilon: object,
        *,
        n_keys: int,
        pairs_per_user: int = 1,
        allocation: Allocation | None = None,
        word_bits: int = WORD_BITS,
        **options: Any,
    ) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`for_epsilon` of every mechanism: checks what is asked, and leaves the numbers to others.

    `resolve` chooses sizes, by whatever arithmetic is best; `calibrate` makes integers of a budget and
    sizes by exact arithmetic alone. A description names what was resolved, so that a device needs nothing
    but `calibrate`, in any language.
    """

    parameters: Parameters | None = field(default=None, compare=False, repr=False)
    """How to make it again; None for one that was put together by hand."""
    issued: bool = False
    """Whether the collector hands out the ids of reports; only where something follows from an id."""

    allocations: ClassVar[tuple[Allocation, ...]] = (Allocation.OPTIMAL,)
    options: ClassVar[Mapping[str, Any]] = {}
    """Options beside the size, and their defaults."""
    small_options: ClassVar[Mapping[str, Any]] = {}
    fields: ClassVar[tuple[str, ...]] = ("epsilon",)
    follows_ids: ClassVar[bool] = False

    @classmethod
    def for_epsilon(
        cls,
        epsilon: object,
        *,
        n_keys: int,
        pairs_per_user: int = 1,
        allocation: Allocation | None = None,
        word_bits: int = WORD_BITS,
        **options: Any,
    ) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`."""
        budget = parse_epsilon(epsilon)
        check_size(n_keys, pairs_per_user)
        unknown = sorted(set(options) - set(cls.options))
        if unknown:
            known = ", ".join(cls.options) or "none"
            raise MechanismError(f'no option "{unknown[0]}" here; there is {known}')
        ask = Ask(
            epsilon=budget,
            n_keys=n_keys,
            pairs_per_user=pairs_per_user,
            allocation=choose(allocation, cls.allocations),
            word_bits=word_bits,
            options={**cls.options, **options},
        )
        return cls.named(cls.resolve(ask))

    @classmethod
    def named(cls, ask: Ask) -> Self:
        """The instance for a request whose every option is chosen; it remembers its name."""
        fields = tuple((name, ask.field(name)) for name in cls.fields)
        return replace(cls.calibrate(ask), parameters=Parameters(cls.id, fields))  # type: ignore[attr-defined]

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The request with every size chosen."""
        return ask

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The instance for a checked request."""
        raise TypeError(f"{cls.__name__} is a shape of reports, not a mechanism; it has no calibration")

    @property
    def tells_signs(self) -> bool:
        """Not unless a shape says so."""
        return False

    @property
    def public_word(self) -> int | None:
        """None: all words are the device's own."""
        return None

    @property
    def public_part(self) -> Part | None:
        """None: nothing in an answer is decided by a public word."""
        return None

    def with_issued_ids(self) -> Self:
        """The same where ids are handed out: all that may follow from an id does.

        >>> from keyveil.mechanisms.index.kvue import KvUe
        >>> KvUe.for_epsilon(1, n_keys=10).with_issued_ids().parameters.to_json()
        {'id': 'kvue', 'epsilon': '1', 'ids': 'issued'}
        """
        if self.issued or not self.follows_ids:
            return self
        name = None if self.parameters is None else self.parameters.with_issued_ids()
        return replace(self, issued=True, parameters=name)

    def follows(self, answer: Answer, word: int) -> bool:
        """Whether the part of an answer that the public word decides is the one that `word` gives."""
        part, own = self.public_part, cast(Mechanism, self)
        return part is None or answer // part.answers == pick(word, part.choices, own.word_bits)


class ThroughChannel:
    """What a mechanism takes over from its per-key channel."""

    __slots__ = ()

    channel: Any

    @property
    def a(self) -> Fraction:
        """Pr[key reported | key sampled]."""
        return Fraction(self.channel.a)

    @property
    def b(self) -> Fraction:
        """Pr[key reported | key not sampled]."""
        return Fraction(self.channel.b)

    @property
    def word_bits(self) -> int:
        """How many bits a random word has."""
        return int(self.channel.word_bits)


class AsksEverybody:
    """Every report could have spoken of every key."""

    __slots__ = ()

    a: Any
    b: Any
    pairs_per_user: Any

    def variance(self, frequency: Number, asked: Number, users: Number, number: Exactness = float) -> Number:
        """Exact for records of at most l pairs; `users` plays no part."""
        return share_variance(number(self.a), number(self.b), frequency, asked, self.pairs_per_user)


class AsksOneKey:
    """A report speaks of one key, whose index it tells in clear; records are not padded.

    The first word draws the index, unless ids are handed out: then it is the public word's, and a liar has no
    key to choose. The kernel given the index is the same, so the loss is; and ids are even, so are indices.
    """

    __slots__ = ()

    a: Any
    b: Any
    n_keys: Any
    layout: Any
    issued: Any
    follows_ids: ClassVar[bool] = True

    @property
    def public_word(self) -> int | None:
        """The index's, where ids are handed out."""
        return 0 if self.issued else None

    @property
    def public_part(self) -> Part | None:
        """The index, where ids are handed out."""
        return Part(self.n_keys, self.layout.size // self.n_keys) if self.issued else None

    @property
    def pairs_per_user(self) -> int:
        """One key is asked about, whatever is held."""
        return 1

    def variance(self, frequency: Number, asked: Number, users: Number, number: Exactness = float) -> Number:
        """Exact given that `asked` of the `users` were asked about the key."""
        noise = share_variance(number(self.a), number(self.b), frequency, asked)
        return noise + drawing_variance(frequency, asked, users)


class KeyValueMechanism(Mechanism, Protocol):
    """A mechanism whose reports speak of signed keys: frequencies and means can be debiased."""

    @property
    def moments(self) -> Moments:
        """What n reports leave unknown of a key."""

    def debias(
        self, plus: Number, minus: Number, asked: Number, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and unbiased frequency * mean."""

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """How many of `users` reports can speak of one key, on average."""


def is_key_value(mechanism: object) -> TypeGuard[KeyValueMechanism]:
    """Whether reports speak of signed keys: any shape that can debias them."""
    return hasattr(type(mechanism), "debias")


def record_codes(witness: Witness) -> list[int]:
    """The keys that either record of a witness holds."""
    return sorted({pair.code for record in (witness.first, witness.second) for pair in record.pairs})


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedSampling(Calibration, ThroughChannel, AsksEverybody):
    """The collector's side of every mechanism that pads, samples one of l slots and asks everybody."""

    n_keys: int
    pairs_per_user: int
    channel: Channel

    fields: ClassVar[tuple[str, ...]] = ("epsilon", "pairs_per_user")

    def __post_init__(self) -> None:
        check_size(self.n_keys, self.pairs_per_user)

    def debias(
        self, plus: Number, minus: Number, asked: Number, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and frequency * mean."""
        return self.channel.debias(plus, minus, asked, self.pairs_per_user, number)

    @property
    def moments(self) -> Moments:
        """The channel's, behind l slots."""
        return Moments.through(self.channel, self.pairs_per_user)

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """Every report can speak of every key."""
        return users


def choose(allocation: Allocation | None, allowed: tuple[Allocation, ...]) -> Allocation:
    """The allocation asked for, or the default; refuses one that the mechanism does not have."""
    if allocation is None:
        return allowed[0]
    if allocation not in allowed:
        known = ", ".join(each.value for each in allowed)
        raise MechanismError(f'no allocation "{allocation.value}" here; expected one of {known}')
    return allocation


def check_size(n_keys: int, pairs_per_user: int) -> None:
    """Refuse a domain without keys and a padding length below one."""
    if n_keys < 1:
        raise DomainError(f"expected at least one key, got {n_keys}")
    if pairs_per_user < 1:
        raise DomainError(f"pairs_per_user must be at least 1, got {pairs_per_user}")
