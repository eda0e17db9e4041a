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

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from keyveil.errors import MechanismError
from keyveil.mechanisms.base import Ask, Tick
from keyveil.mechanisms.channel import Exactness, Number
from keyveil.mechanisms.hash.owned import MOST_BUCKETS, OwnedBuckets
from keyveil.mechanisms.moments import Moments
from keyveil.mechanisms.oracles import COHORTS, bucket_of

TIE_WORDS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket(OwnedBuckets):
    """One bucket of g, own ones likelier.

    >>> m = Bucket.for_epsilon(1, n_keys=26_744, pairs_per_user=100)
    >>> m.buckets, round(m.moments.frequency_noise)
    (402, 877)
    """

    tie: int = 0
    """rho as hash words out of 2**32; negative ones keep the two signs of a key apart."""

    id: ClassVar[str] = "bucket"
    options: ClassVar[Mapping[str, Any]] = {"buckets": None, "rho": 0.0, "cohorts": COHORTS}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "pairs_per_user", "buckets", "occupied", "tie", "cohorts")
    small_options: ClassVar[Mapping[str, Any]] = {"buckets": 3, "cohorts": 2}
    hashed_by: ClassVar[tuple[str, ...]] = ("tie",)

    def __post_init__(self) -> None:
        OwnedBuckets.__post_init__(self)
        if not -TIE_WORDS <= self.tie <= TIE_WORDS:
            raise MechanismError(f"rho must lie between -1/(g - 1) and 1, got {self.rho}")
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
        return cls.truest(
            ask._replace(pairs_per_user=l).resolved(buckets=buckets, tie=round(ties * TIE_WORDS))
        )

    # --- the kernel ---

    @property
    def rho(self) -> Fraction:
        """The correlation of a key's two signs' hits."""
        ties = Fraction(self.tie, TIE_WORDS)
        return ties if ties > 0 else ties / (self.buckets - 1)

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

    # --- the client's side ---

    @property
    def tells_signs(self) -> bool:
        """But where both signs of a key share a bucket for good."""
        return self.tie != TIE_WORDS

    # --- the collector's side ---

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


def best_buckets(epsilon: Fraction, l: int) -> int:
    """The number of buckets with the least noise, within 3 %: l (E + 1.3), and E + 1 for one pair.

    >>> best_buckets(Fraction(1), 1), best_buckets(Fraction(1), 100)
    (4, 402)
    """
    E = math.exp(float(epsilon))
    best = round(E + 1) if l == 1 else round(l * (E + 1.3))
    return min(MOST_BUCKETS, max(3 if l > 1 else 2, best))
