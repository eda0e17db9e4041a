"""bucket: a whole record hashed to a few buckets, one bucket reported. The default of this system.

Everything the papers pad, they also sample: of l pairs one is reported, so the variance grows with l
squared. Here nothing is sampled away. A public hash, one of `cohorts`, sends every signed key to
one of g buckets; a record of l pairs (dummies fill it up) owns J <= l of them, and each own bucket
is reported e**epsilon times as often as each other one, as far as probabilities allow:

    own(J)   = min(high, (1 - (g - J) low) / J),       the rest evenly over the other g - J buckets
    low      = 1 / (g - j0 + j0 e**epsilon),           high = e**epsilon low

For a fixed hash every report's chance lies between low and high whatever the record, so the loss is
at most high/low for any hash, and padding, truncation and rounding only mix such rows. j0 is the J
that makes an own bucket likeliest on average, T = E[own(J)].

A symbol's supports (reports of its bucket) have chance T if it was held and 1/g if not:

    f = ((A+ + A-)/n - 2/g) / ((T - 1/g)(1 + rho)),     S = ((A+ - A-)/n) / ((T - 1/g)(1 - rho))

with a variance linear in l. `rho` ties the two signs of a key: with chance rho (a public hash of the
key) they share a bucket, with chance -rho (g - 1) they never do. 0 serves both, 1 frequencies only.

Over all hashes 1/g is exact for every record, and T for every record of l pairs and for l <= 2. A
dummy's bucket comes from a word, so its g chances differ by one word in 2**64; two dummies and more
move T by that much and no further. A record of s > l pairs keeps l of them: its keys count l/s each.

The hash is public and must not be the device's choice: who may choose it can hit many targets at
once. The first word decides the cohort, and it is the public word of the report's id
(`report.public_word`); a collector refuses a report of another cohort.
With R cohorts, users of one cohort share collisions, which adds

    sum(share(x)**2 for the other symbols x) / ((g - 1) R)

to the variance of a symbol's share (for l > 1 to first order; up to a quarter more where all users
hold the same pairs). That is at most n sum(share**2) / (4 l**2 R) of its noise: below a hundredth
with 65,536 cohorts as long as n sum(share**2) < 2600 l**2, be it 260,000 users of one pair each,
spread like a hundred symbols. More reports do not reduce it, more cohorts do; and as collisions are public,
`estimate.collisions` takes off what common keys add. tests/mechanisms/test_bucket.py derives and measures it.

Without hashing (2 (d + l) buckets, no collisions) this mechanism is PCKV-GRR: what the papers derive
as sampling amplified is the same kernel. The planner prefers it where its variance is smaller.

[Collision] Wang, Li, Li, Li, Yang, Yan: arXiv 2304.04410, the published relative: no dummies, own
buckets at exactly E/(m E + t - m). Words: cohort, l to truncate, l for signs or dummies, response.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Self

from keyveil.domain import Pair, Record, pick, round_to_sign, rounding_law, words_for
from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Ask, Calibration, Part, Tick, Witness, check_size
from keyveil.mechanisms.channel import Exactness, Number
from keyveil.mechanisms.moments import Moments
from keyveil.mechanisms.oracles import COHORTS, bucket_of
from keyveil.numerics import WORD_BITS, ceil_div, exp_below
from keyveil.report import Symbol

TIE_WORDS = 1 << 32
# The hash has 32 bits: buckets are uneven by one part in 2**12 at most.
MOST_BUCKETS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(Calibration):
    """One bucket of g, own ones likelier.

    >>> m = Bucket.for_epsilon(1, n_keys=26_744, pairs_per_user=100)
    >>> m.buckets, round(m.moments.frequency_noise)
    (402, 877)
    """

    n_keys: int
    pairs_per_user: int
    buckets: int
    low: int
    high: int
    tie: int = 0
    """rho as hash words out of 2**32; negative ones keep the two signs of a key apart."""
    cohorts: int = COHORTS
    word_bits: int = WORD_BITS

    id: ClassVar[str] = "bucket"
    options: ClassVar[Mapping[str, Any]] = {"buckets": None, "rho": 0.0, "cohorts": COHORTS}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "pairs_per_user", "buckets", "occupied", "tie", "cohorts")
    small_options: ClassVar[Mapping[str, Any]] = {"buckets": 3, "cohorts": 2}
    follows_ids: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_size(self.n_keys, self.pairs_per_user)
        if self.pairs_per_user > self.n_keys:
            raise MechanismError(
                f"nobody holds more than {self.n_keys} pairs, got a padding length of {self.pairs_per_user}"
            )
        if not 2 <= self.buckets <= MOST_BUCKETS:
            raise MechanismError(f"expected 2 to {MOST_BUCKETS} buckets, got {self.buckets}")
        if not 0 < self.low < self.high or self.buckets * self.low >= self.words:
            raise MechanismError(
                f"{self.word_bits}-bit words leave no room for the truth in {self.buckets} buckets; "
                "use wider words or fewer buckets"
            )
        if not -TIE_WORDS <= self.tie <= TIE_WORDS:
            raise MechanismError(f"rho must lie between -1/(g - 1) and 1, got {self.rho}")
        if self.cohorts < 1:
            raise MechanismError(f"expected at least one public hash, got {self.cohorts}")
        if self.rho == -1:
            raise MechanismError("two buckets that a key's signs never share tell no frequency; raise rho")

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The best number of buckets (or the one asked for), and the j0 that tells most truth."""
        # Nobody holds more pairs than there are keys; more dummies would only add noise.
        l = min(ask.pairs_per_user, ask.n_keys)
        buckets = best_buckets(ask.epsilon, l) if ask.options["buckets"] is None else ask.options["buckets"]
        if buckets < 2:
            raise MechanismError(f"expected at least 2 buckets, got {buckets}")
        rho = Fraction(str(ask.options["rho"]))
        ties = rho if rho > 0 else rho * (buckets - 1)
        if not -1 <= ties <= 1:
            raise MechanismError(f"rho must lie between {-1 / (buckets - 1):.4g} and 1, got {float(rho):g}")
        ask = ask._replace(pairs_per_user=l).resolved(buckets=buckets, tie=round(ties * TIE_WORDS))
        tried = [ask.resolved(occupied=j0) for j0 in likely_occupied(min(l, buckets - 1), buckets)]
        return max(tried, key=lambda each: cls.calibrate(each).a)

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """Low and high for a number of buckets and j0 of them occupied."""
        E, buckets, j0 = exp_below(ask.epsilon), ask.options["buckets"], ask.options["occupied"]
        if not 1 <= j0 <= min(ask.pairs_per_user, buckets - 1):
            raise MechanismError(
                f"expected 1 to {min(ask.pairs_per_user, buckets - 1)} occupied buckets, got {j0}"
            )
        # Rounding low up may leave j0 own buckets less than E times as much.
        low = ceil_div(ask.words, buckets - j0 + j0 * E)
        return cls(
            n_keys=ask.n_keys,
            pairs_per_user=ask.pairs_per_user,
            buckets=buckets,
            low=low,
            high=min(int(E * low), (ask.words - (buckets - j0) * low) // j0),
            tie=ask.options["tie"],
            cohorts=ask.options["cohorts"],
            word_bits=ask.word_bits,
        )

    # --- the kernel ---

    @property
    def words(self) -> int:
        """How many words there are."""
        return 1 << self.word_bits

    @property
    def rho(self) -> Fraction:
        """The correlation of a key's two signs' hits."""
        ties = Fraction(self.tie, TIE_WORDS)
        return ties if ties > 0 else ties / (self.buckets - 1)

    def own(self, owned: int) -> int:
        """Words for each own bucket when `owned` buckets are."""
        return min(self.high, (self.words - (self.buckets - owned) * self.low) // owned)

    def words_of(self, bucket: int, owned: frozenset[int]) -> int:
        """Words for a bucket when these are owned."""
        others = self.buckets - len(owned)
        if not others:
            return words_for(bucket, self.buckets, self.word_bits)
        own = self.own(len(owned))
        if bucket in owned:
            return own
        rest, place = self.words - len(owned) * own, bucket - sum(taken < bucket for taken in owned)
        return ceil_div((place + 1) * rest, others) - ceil_div(place * rest, others)

    def symbol_bucket(self, cohort: int, code: int, sign: int) -> int:
        """The public hash of a signed key."""
        free = bucket_of(cohort, 2 * code + (sign < 0), self.buckets)
        if not self.tie:
            return free
        # All hashes, whatever the sign: the time tells nothing.
        plus = bucket_of(cohort, 2 * code, self.buckets)
        apart = (plus + 1 + bucket_of(cohort, 2 * code + 1, self.buckets - 1)) % self.buckets
        is_tied = sign < 0 and bucket_of(cohort, ~code, TIE_WORDS) < abs(self.tie)
        return (plus if self.tie > 0 else apart) if is_tied else free

    @property
    def loss(self) -> Fraction:
        """The likeliest bucket of any row over the least likely of any row: at most high/low."""
        g, rows = self.buckets, []
        for owned in range(1, min(self.pairs_per_user, g) + 1):
            own = self.own(owned)
            rest, others = self.words - owned * own, g - owned
            least_and_most = (rest // others, ceil_div(rest, others)) if others else (self.words // g, own)
            rows.append((own, *least_and_most))
        return Fraction(max(map(max, rows)), min(map(min, rows)))

    def witness(self) -> Witness:
        """Two full records and a bucket that one owns and the other does not, in the best cohort tried.

        Keys whose signs always share a bucket tell no two full records of a small domain apart; then
        the witness stays below the loss.
        """
        l, d = self.pairs_per_user, self.n_keys
        records = [
            Record.of({(start + i) % d: value for i in range(l)})
            for start in itertools.islice(range(0, d, l), 12)
            for value in (1.0, -1.0)
        ]
        best, found, loss = Fraction(0), Witness(records[0], records[1], 0), self.loss
        for cohort in range(min(self.cohorts, 8)):
            sets = [(self._buckets(cohort, record), record) for record in records]
            for (first, holder), (second, other) in itertools.permutations(sets, 2):
                for bucket in first - second:
                    ratio = Fraction(self.words_of(bucket, first), self.words_of(bucket, second))
                    if ratio > best:
                        best, found = ratio, Witness(holder, other, cohort * self.buckets + bucket)
                if best == loss:
                    return found
        return found

    def _buckets(self, cohort: int, record: Record) -> frozenset[int]:
        """Of a record whose values are at the ends of their range."""
        return frozenset(
            self.symbol_bucket(cohort, pair.code, 1 if pair.level else -1) for pair in record.pairs
        )

    def answers(self) -> Iterator[int]:
        """Every cohort with every bucket."""
        return iter(range(self.cohorts * self.buckets))

    def lift(self, answer: int, record: Record) -> Fraction:
        """Pr[bucket | record, cohort]: all truncations, roundings and dummies, so for few at a time."""
        cohort, bucket = divmod(answer, self.buckets)
        chance = Fraction(0)
        for owned, weight in self._owned_law(cohort, record):
            chance += weight * Fraction(self.words_of(bucket, owned), self.words)
        return chance

    def _owned_law(self, cohort: int, record: Record) -> Iterator[tuple[frozenset[int], Fraction]]:
        l, bits = self.pairs_per_user, self.word_bits
        dummy = [Fraction(words_for(z, self.buckets, bits), self.words) for z in range(self.buckets)]
        for kept, weight in self._kept_law(record):
            fates = []
            for pair in kept:
                up = rounding_law(pair.level, bits)
                fates.append(
                    [(self.symbol_bucket(cohort, pair.code, s), c) for s, c in ((1, up), (-1, 1 - up)) if c]
                )
            fates += [list(enumerate(dummy))] * (l - len(kept))
            for fate in itertools.product(*fates):
                yield frozenset(z for z, _ in fate), weight * math.prod(c for _, c in fate)

    def _kept_law(self, record: Record) -> Iterator[tuple[tuple[Pair, ...], Fraction]]:
        pairs, l = record.pairs, self.pairs_per_user
        if len(pairs) <= l:
            yield tuple(pairs), Fraction(1)
            return
        for places in itertools.product(*(range(len(pairs) - i) for i in range(l))):
            chances = (
                Fraction(words_for(place, len(pairs) - i, self.word_bits), self.words)
                for i, place in enumerate(places)
            )
            weight = math.prod(chances, start=Fraction(1))
            yield _take(pairs, places), weight

    def probability(self, answer: int, record: Record) -> Fraction:
        """The cohort is drawn evenly."""
        drawn = Fraction(words_for(answer // self.buckets, self.cohorts, self.word_bits), self.words)
        return drawn * self.lift(answer, record)

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """But where both signs of a key share a bucket for good."""
        return self.tie != TIE_WORDS

    @property
    def n_words(self) -> int:
        """Cohort, truncation, signs or dummies, response."""
        return 2 + 2 * self.pairs_per_user

    @property
    def layout(self) -> Symbol:
        """Cohort and bucket as one number."""
        return Symbol(self.cohorts * self.buckets)

    @property
    def public_word(self) -> int | None:
        """The cohort's."""
        return 0

    @property
    def public_part(self) -> Part | None:
        """The cohort."""
        return Part(self.cohorts, self.buckets)

    def perturb(self, record: Record, words: Sequence[int]) -> int:
        """Cohort * buckets + bucket."""
        l, bits = self.pairs_per_user, self.word_bits
        cohort = pick(words[0], self.cohorts, bits)
        if len(record.pairs) > l:
            places = [pick(words[1 + i], len(record.pairs) - i, bits) for i in range(l)]
            record = Record(_take(record.pairs, places))
        owned = set()
        for place in range(l):
            pair, word = record.slot(place), words[1 + l + place]
            # Dummies are hashed too, like key 0, so that they take as long as pairs.
            own = self.symbol_bucket(cohort, max(pair.code, 0), round_to_sign(pair.level, word, bits))
            dummy = pick(word, self.buckets, bits)
            owned.add(own if pair.code >= 0 else dummy)
        return cohort * self.buckets + self._tell(sorted(owned), words[-1])

    def _tell(self, owned: list[int], word: int) -> int:
        others = self.buckets - len(owned)
        if not others:
            return pick(word, self.buckets, self.word_bits)
        own = self.own(len(owned))
        if word < own * len(owned):
            return owned[word // own]
        bucket = (word - own * len(owned)) * others // (self.words - own * len(owned))
        for taken in owned:
            bucket += taken <= bucket
        return bucket

    # --- the collector's side ---

    @property
    def a(self) -> Fraction:
        """Pr[a held symbol's bucket is reported], over all hashes: T."""
        return self._own_chance(self.pairs_per_user)

    @property
    def b(self) -> Fraction:
        """Pr[any other symbol's bucket is reported], over all hashes."""
        return Fraction(1, self.buckets)

    def _own_chance(self, balls: int) -> Fraction:
        """The mean of `own` when so many balls fall into the buckets; where all are owned, it is 1/g."""
        g, words = self.buckets, self.words
        total = sum(
            ways * (self.own(owned) if owned < g else Fraction(words, g))
            for owned, ways in enumerate(occupied(balls, g), start=1)
        )
        return Fraction(total, g**balls * words)

    @property
    def moments(self) -> Moments:
        """Over all hashes: hits of both signs, and of one without the other, by holders and by others."""
        g, T, rho = self.buckets, float(self.a), float(self.rho)
        tied = rho + (1 - rho) / g
        gain, both_reported = T - 1 / g, float(self._own_chance(max(self.pairs_per_user - 1, 1))) / g

        def hits(t: float) -> tuple[float, float, float]:
            both, one, other = t * tied, t * (1 - tied), (1 - t) * (1 - tied) / (g - 1)
            return both, one, other

        def spreads(t: float) -> tuple[float, float, float]:
            both, one, other = hits(t)
            mean_sum, mean_gap = 2 * both + one + other, one - other
            return (
                4 * both + one + other - mean_sum**2,
                one + other - mean_gap**2,
                one - other - mean_sum * mean_gap,
            )

        held, rest = spreads(T), spreads(1 / g)
        to_f, to_s = gain * (1 + rho), gain * (1 - rho)
        signs = math.inf if rho == 1 else 1 / to_s
        return Moments(
            frequency_noise=rest[0] / to_f**2,
            frequency_owner=(held[0] - rest[0]) / to_f**2,
            signed_noise=rest[1] * signs**2 if rho < 1 else math.inf,
            signed_owner=(held[1] - rest[1]) * signs**2 if rho < 1 else 0.0,
            crossed=held[2] * signs / to_f if rho < 1 else 0.0,
            together=(T**2 - both_reported) / gain**2,
        )

    def debias(
        self, plus: Number, minus: Number, asked: Number, number: Exactness = float
    ) -> tuple[Number, Number]:
        """Unbiased frequency, and frequency * mean (0 where the signs are tied for good)."""
        gain, rho = number(self.a - self.b), number(self.rho)
        frequency = ((plus + minus) / asked - 2 * number(self.b)) / (gain * (1 + rho))
        if self.tie == TIE_WORDS:
            return frequency, 0 * frequency
        return frequency, (plus - minus) / asked / (gain * (1 - rho))

    def expected_asked(self, users: Number, number: Exactness = float) -> Number:
        """Every report can speak of every key."""
        return users

    def variance(self, frequency: Number, asked: Number, users: Number, number: Exactness = float) -> Number:
        """Over all hashes, for records of at most l pairs."""
        return self.moments.covariance(frequency, 0.0, asked).frequency

    def ticks(self, answer: int) -> Iterator[Tick]:
        """Every key's two signs, as far as their bucket was reported."""
        cohort, bucket = divmod(answer, self.buckets)
        for code in range(self.n_keys):
            yield "asked", (code,)
            for name, sign in (("plus", 1), ("minus", -1)):
                if self.symbol_bucket(cohort, code, sign) == bucket:
                    yield name, (code,)

    def resembles(self, answer: int, witness: Witness) -> bool:
        """In whatever cohort, a bucket that the first record owns and the second does not."""
        cohort, bucket = divmod(answer, self.buckets)
        first, second = (self._buckets(cohort, record) for record in witness[:2])
        return bucket in first and bucket not in second


def best_buckets(epsilon: Fraction, l: int) -> int:
    """The number of buckets with the least noise, within 3 %: l (E + 1.3), and E + 1 for one pair.

    >>> best_buckets(Fraction(1), 1), best_buckets(Fraction(1), 100)
    (4, 402)
    """
    E = math.exp(float(epsilon))
    best = round(E + 1) if l == 1 else round(l * (E + 1.3))
    return min(MOST_BUCKETS, max(3 if l > 1 else 2, best))


def likely_occupied(l: int, g: int) -> range:
    """The numbers of occupied buckets worth trying for j0: around what l balls in g occupy."""
    middle = g * -math.expm1(l * math.log1p(-1 / g))
    spread = 3 * math.sqrt(middle) / 2 + 2
    return range(max(1, int(middle - spread)), min(l, int(middle + spread)) + 1)


@cache
def occupied(l: int, g: int) -> tuple[int, ...]:
    """In how many of g**l ways l balls occupy 1, 2, ... of g buckets.

    >>> occupied(2, 3)
    (3, 6)
    """
    ways = [g]
    for _ in range(l - 1):
        ways = [
            (ways[j] * (j + 1) if j < len(ways) else 0) + (ways[j - 1] * (g - j) if j else 0)
            for j in range(min(len(ways) + 1, g))
        ]
    return tuple(ways)


def _take(pairs: Sequence[Pair], places: Sequence[int]) -> tuple[Pair, ...]:
    """The pairs that l draws without replacement choose (Fisher and Yates)."""
    left = list(pairs)
    for i, place in enumerate(places):
        left[i], left[i + place] = left[i + place], left[i]
    return tuple(left[: len(places)])
