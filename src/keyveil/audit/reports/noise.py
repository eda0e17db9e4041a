"""Reports on trial: is this the noise that the devices were asked to make?

Nobody can prove what a device holds, and privacy forbids asking. But the noise has a law that is known to
the last word, and much of what a crowd of honest reports shows does not depend on what anybody holds. Each
test below compares such a count with its exact law, whatever the population:

    heard, plus, minus   a unary report names Bin(P - 1, b) positions beside the one that was sampled, which
                         adds one with a chance between b and a (of a sign: between the least and the most
                         that a sampled key shows it; exactly a where dummies are sent too). The mean must lie
                         in that range (a sum test), the whole histogram on that line of laws (a shape test)
    pairs                of two positions at most one is sampled, so E[(X_j - b)(X_k - b)] = 0 exactly, and
                         so it is for signs with 0 for b: keys that are named together betray a target set
    rows                 the same against all other positions: a key whose reports are otherwise too silent
    sets                 of the w symbols of a set all but the sampled one are drawn evenly from d - 1. With
                         c = (w-1)/(d-2): E[X_j X_k] = c (E X_j + E X_k - w/(d-1)), whoever sampled what
    repeats              long reports do not repeat
    index                a drawn index is uniform
    coin, shown          a public coin follows its public mean; boundary bits are Bern(a) + Bin(bins - 1, b)
    cohort, bucket       a hash follows from the report's id; over all hashes buckets are even, and those that
                         give both signs of a key one bucket are one in g
    dummies              what a dummy says is noise: all signed dummies are alike
    range                frequencies lie in [0, 1], nobody's mean beyond the ends, all pairs within l

P-values are corrected inside each test for what it looks at (Bonferroni) and between tests for their
number; an alarm is raised below `ALARM`, one collection in ten thousand honest ones. Large-sample laws:
some thousand reports are wanted, and a test that has too few says nothing.

What no test here can see: a device that follows the protocol with a record it made up (`random pair`); one
whose single symbol is drawn as noise would draw it; and every adaptive one that imitates the law in all but
the target key. Against those there is the bound of `estimate.influence`, and nothing else. Where reports
come with a public label (a client version, a credential's issuer), `compare` tests whether the groups agree.

[Cao] Cao, Jia, Gong, USENIX Security 2021, count supporting items per report and look for frequent sets of
them; [Wu] Wu, Cao, Jia, Gong, USENIX Security 2022, test key-value protocols. The exact laws are our own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from keyveil.errors import TallyError
from keyveil.estimate import estimate
from keyveil.mechanisms import (
    Bits,
    Bucket,
    EncodedOracle,
    Hashed,
    IndexedBoundary,
    Mechanism,
    SampledIndex,
    Selection,
    SignedResponse,
    SignedUnary,
    UeSw,
    is_key_value,
)
from keyveil.mechanisms.hash.bucket import TIE_WORDS
from keyveil.tally import Tally
from keyveil.tally.hashing import signed_buckets
from keyveil.tally.trace import PRINTS, group_of

Floats = NDArray[np.float64]

# The chance of a false alarm over all tests of one collection.
ALARM = 1e-4
# Fewer reports than this, or expected counts below the second, and large-sample laws say nothing.
FEWEST, FEWEST_EXPECTED = 1000, 10.0
# Hashes that one examination may evaluate: a second.
MOST_HASHES = 1 << 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One test: the chance that honest reports look at least as odd, and what was odd."""

    test: str
    p: float
    what: str = ""
    keys: tuple[int, ...] = ()
    """The codes that the finding points at, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All tests of one collection, the oddest first."""

    findings: tuple[Finding, ...]

    @property
    def p(self) -> float:
        """The smallest p-value, corrected for the number of tests; 1 where there was none."""
        return min([1.0, *(len(self.findings) * each.p for each in self.findings)])

    @property
    def alarm(self) -> bool:
        """Whether honest devices are not the explanation."""
        return self.p <= ALARM

    @property
    def suspects(self) -> tuple[int, ...]:
        """The codes that significant findings point at."""
        odd = [each for each in self.findings if len(self.findings) * each.p <= ALARM]
        return tuple(sorted({code for each in odd for code in each.keys}))


def examine(mechanism: Mechanism, trace: Tally, tally: Tally | None = None) -> Verdict:
    """Every test that a trace of reports, and their tally, allow.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.tally import trace as traced
    >>> m = build("kvue", 1, n_keys=10)
    >>> honest = [m.layout.encode(3 * (i % 10)) for i in range(2000)]
    >>> lies = [m.layout.encode(3 * 4 + 1)] * 100
    >>> [examine(m, traced(m, some, question="q")).alarm for some in (honest, honest + lies)]
    [False, True]
    """
    findings: list[Finding] = []
    if trace.n_reports >= FEWEST:
        findings += traced(mechanism, trace)
        if tally is not None:
            findings += in_range(mechanism, tally.pooled)
    return Verdict(findings=tuple(sorted(findings, key=lambda each: each.p)))


def compare(tallies: Mapping[str, Tally]) -> Verdict:
    """Whether the groups of one question agree: every cell of each group against all others together.

    A label must be public and no proxy for what people hold: versions and issuers, not countries. Groups
    that differ honestly raise this alarm too.
    """
    if len(tallies) < 2:
        raise TallyError(f"expected tallies of two groups or more, got {len(tallies)}")
    groups = {name: tally.pooled for name, tally in tallies.items()}
    total = sum(list(groups.values())[1:], start=next(iter(groups.values())))
    findings = []
    for name, own in groups.items():
        gaps = [
            _gap(own, total, cell).ravel()
            for cell in own.cells
            if cell != "asked" and min(own.n_reports, total.n_reports - own.n_reports) >= FEWEST_EXPECTED
        ]
        if gaps:
            z = np.concatenate(gaps)
            worst = int(np.argmax(np.abs(z)))
            what = f'group "{name}" differs from the others by {z[worst]:+.1f} standard errors'
            findings.append(Finding(test="group", p=_of_many(_two_sided(z[worst]), z.size), what=what))
    return Verdict(findings=tuple(sorted(findings, key=lambda each: each.p)))


def _gap(own: Tally, total: Tally, cell: str) -> Floats:
    """How many standard errors a group's share of each count lies from the others'; 0 where too few."""
    counts, everything = own.cells[cell].astype(float), total.cells[cell].astype(float)
    asked = [_asked(each, counts.shape) for each in (own, total)]
    rest = asked[1] - asked[0]
    share = everything / np.maximum(asked[1], 1)
    variance = share * (1 - share) * (1 / np.maximum(asked[0], 1) + 1 / np.maximum(rest, 1))
    gap = counts / np.maximum(asked[0], 1) - (everything - counts) / np.maximum(rest, 1)
    enough = np.minimum(asked[0] * share, asked[0] * (1 - share)) >= FEWEST_EXPECTED
    return np.where(enough & (rest > 0), gap / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def _asked(tally: Tally, shape: tuple[int, ...]) -> Floats:
    if "asked" not in tally.cells:
        return np.full(shape, float(tally.n_reports))
    return np.broadcast_to(tally.asked.astype(float).reshape(-1, *[1] * (len(shape) - 1)), shape)


# --- what a trace must look like, by shape ---


@singledispatch
def traced(mechanism: object, trace: Tally) -> Iterator[Finding]:
    """The tests of a shape; one that registers none shows nothing beside its answer."""
    return iter(())


@traced.register
def _(mechanism: SignedUnary, trace: Tally) -> Iterator[Finding]:
    c = mechanism.channel
    a, b, fake = float(c.a), float(c.b), c.fake / c.words
    yield from count_findings("heard", trace.cells["heard"], b, (b, a))
    for name in ("plus", "minus"):
        yield from count_findings(
            name, trace.cells[name], fake, (min(c.flip, c.fake) / c.words, c.keep / c.words)
        )
    yield from _pairs(trace, mechanism.n_keys, b)
    signed = (2 * trace.cells["alike"] - trace.cells["together"]).astype(float)
    yield from _covariances("signs", signed, trace.n_reports, mechanism.n_keys, mechanism.n_keys)
    yield from _repeats(trace, mechanism.n_keys * math.log(max(fake, 1 - b)) + math.log(mechanism.loss))


@traced.register
def _(mechanism: UeSw, trace: Tally) -> Iterator[Finding]:
    a, b, size = float(mechanism.a), float(mechanism.b), mechanism.n_padded
    yield from unary_findings(trace, a, b, size, float(mechanism.loss), mechanism.n_keys)


@traced.register
def _(mechanism: EncodedOracle, trace: Tally) -> Iterator[Finding]:
    oracle = mechanism.oracle
    if isinstance(oracle, Bits):
        yield from unary_findings(
            trace, float(oracle.a), float(oracle.b), oracle.n_symbols, float(oracle.loss), mechanism.n_keys
        )
    if isinstance(oracle, Selection):
        yield from _sets(oracle, trace, mechanism.n_keys)
    if isinstance(oracle, Hashed):
        yield from _hashed(trace, float(oracle.a), oracle.cohorts, oracle.buckets)


@traced.register
def _(mechanism: Bucket, trace: Tally) -> Iterator[Finding]:
    yield from _hashed(trace, float(mechanism.a), mechanism.cohorts, mechanism.buckets)
    yield from _doubled(mechanism, trace)


@traced.register
def _(mechanism: SignedResponse, trace: Tally) -> Iterator[Finding]:
    yield from _even("dummies", trace.cells["dummies"], "some dummies come more often than others")


@traced.register
def _(mechanism: SampledIndex, trace: Tally) -> Iterator[Finding]:
    yield from index_findings(trace)


@traced.register
def _(mechanism: IndexedBoundary, trace: Tally) -> Iterator[Finding]:
    yield from index_findings(trace)


# --- the tests ---


def unary_findings(
    trace: Tally, a: float, b: float, size: int, loss: float, n_keys: int
) -> Iterator[Finding]:
    """One position is always sampled, so how many are named has one law."""
    yield from count_findings("heard", trace.cells["heard"], b, (a, a))
    yield from _pairs(trace, size, b, n_keys)
    yield from _repeats(trace, size * math.log(max(b, 1 - b)) + math.log(loss))


def count_findings(
    name: str, histogram: NDArray[np.int64], b: float, own: tuple[float, float]
) -> Iterator[Finding]:
    """Bern(t) + Bin(P - 1, b) for a t in `own`: the mean in its range, the histogram on the line."""
    n, size = int(histogram.sum()), histogram.size - 1
    if n < FEWEST:
        return
    mean = float(histogram @ np.arange(size + 1)) / n - (size - 1) * b
    error = math.sqrt(((size - 1) * b * (1 - b) + 0.25) / n)
    outside = max(own[0] - mean, mean - own[1], 0.0) / error
    what = (
        f"a report names {mean + (size - 1) * b:.3f} positions on average, {outside:.1f} standard errors off"
    )
    yield Finding(test=f"{name}, sum", p=_two_sided(outside), what=what)
    t = min(max(mean, own[0]), own[1])
    rest = binom.pmf(np.arange(size + 1), size - 1, b)
    law = (1 - t) * rest + t * np.concatenate(([0.0], rest[:-1]))
    seen, expected = _pooled(histogram.astype(float), n * law)
    free = seen.size - 1 - (own[0] < own[1])
    if free >= 1:
        oddity = float(((seen - expected) ** 2 / expected).sum())
        what = (
            f"how many positions a report names does not follow the noise (chi-square {oddity:.0f} on {free})"
        )
        yield Finding(test=f"{name}, shape", p=float(chi2.sf(oddity, free)), what=what)


def _pooled(seen: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Both ends pooled until every cell expects enough."""
    enough = np.flatnonzero(np.cumsum(expected) >= FEWEST_EXPECTED)
    behind = np.flatnonzero(np.cumsum(expected[::-1]) >= FEWEST_EXPECTED)
    if not enough.size or not behind.size:
        return seen[:0], expected[:0]
    first, last = int(enough[0]), expected.size - 1 - int(behind[0])
    if first >= last:
        return seen[:0], expected[:0]
    edges = [0, *range(first + 1, last + 1)]
    return np.add.reduceat(seen, edges), np.add.reduceat(expected, edges)


def _pairs(trace: Tally, size: int, b: float, n_keys: int | None = None) -> Iterator[Finding]:
    """Two positions never show together more, or less, than their own noise would have it."""
    groups, n = group_of(size), trace.n_reports
    width, named = np.bincount(groups).astype(float), trace.cells["named"].astype(float)
    centred = trace.cells["together"] - b * (np.outer(width, named) + np.outer(named, width))
    yield from _covariances("pairs", centred + n * b * b * np.outer(width, width), n, size, n_keys or size)


def _sets(oracle: Selection, trace: Tally, n_keys: int) -> Iterator[Finding]:
    """Beside the sampled one, symbols of a set are named together as chance has it."""
    d, w, n = oracle.n_symbols, oracle.chosen, trace.n_reports
    if 1 < w < d - 1:
        width, named = np.bincount(group_of(d)).astype(float), trace.cells["named"].astype(float)
        even = (w - 1) / (d - 2)
        mixed, both = np.outer(width, named), np.outer(width, width)
        sums = trace.cells["together"] - even * (mixed + mixed.T) + n * even * w / (d - 1) * both
        # Around `even` the two are as good as independent, and not as far from it together.
        square = (np.diag(trace.cells["together"]) - 2 * even * width * named) / n + (even * width) ** 2
        yield from _together("sets", sums, square, n, d, n_keys)
    yield from _repeats(trace, math.log(oracle.keep) - math.log(oracle.numbers))


def _covariances(name: str, sums: Floats, n: int, size: int, n_keys: int) -> Iterator[Finding]:
    """Off the diagonal: mean 0, and a variance of at most n times the product of the diagonals."""
    square = np.maximum(np.diag(sums) / n, 1e-12)
    if square.size < 2 or (n * square < FEWEST_EXPECTED).any():
        return
    yield from _together(name, sums, square, n, size, n_keys)
    np.fill_diagonal(sums, 0.0)
    rows = sums.sum(axis=1) / np.sqrt(n * square * (square.sum() - square))
    what = "reports that name these keys say too much or little else"
    yield largest_finding(f"{name}, rows", rows, what, group_of(size), n_keys)


def _together(name: str, sums: Floats, square: Floats, n: int, size: int, n_keys: int) -> Iterator[Finding]:
    """The pair of groups whose sum is furthest from 0, if a report's is of variance square x square."""
    if (n * square < FEWEST_EXPECTED).any():
        return
    z = sums / np.sqrt(n * np.outer(square, square))
    np.fill_diagonal(z, 0.0)
    upper = np.triu_indices_from(z, 1)
    worst = int(np.argmax(np.abs(z[upper])))
    groups = group_of(size)
    both = np.flatnonzero(np.isin(groups, [upper[0][worst], upper[1][worst]]))
    where = z[upper][worst]
    yield Finding(
        test=f"{name}, together",
        p=_of_many(_two_sided(where), upper[0].size),
        what=f"two groups of keys are named together {where:+.1f} standard errors from chance",
        keys=tuple(int(code) for code in both if code < n_keys),
    )


def _repeats(trace: Tally, log_likeliest: float) -> Iterator[Finding]:
    """Of reports that long no two are alike, so no fingerprint stands out."""
    n = trace.n_reports
    if log_likeliest > math.log(1e-3 / n):
        return
    most = int(trace.cells["prints"].max())
    p = _of_many(float(binom.sf(most - 1, n, 1 / PRINTS)), PRINTS)
    yield Finding(test="repeats", p=p, what=f"{most} reports look the same")


def index_findings(trace: Tally) -> Iterator[Finding]:
    """Every key is asked about alike."""
    counts = trace.cells["index"]
    yield from _even("index, shape", counts, "some keys are asked about more often than others")
    n, d = int(counts.sum()), counts.size
    most = int(np.argmax(counts))
    what = f"one key is asked about {counts[most]} times instead of {n / d:.0f}"
    p = _of_many(float(binom.sf(counts[most] - 1, n, 1 / d)), d)
    yield Finding(test="index, most", p=p, what=what, keys=(most,))


def _hashed(trace: Tally, a: float, cohorts: int, buckets: int) -> Iterator[Finding]:
    """Hashes follow from random ids; over all hashes a bucket is as good as any other."""
    counts, n = trace.cells["cohort"], trace.n_reports
    most = int(counts.max())
    p = _of_many(float(binom.sf(most - 1, n, 1 / cohorts)), cohorts)
    yield Finding(
        test="cohort, most", p=p, what=f"one hash is used {most} times instead of {n / cohorts:.1f}"
    )
    if cohorts >= FEWEST:
        # The variance of a multinomial's chi-square is exact: 2 (R - 1)(n - 1)/n.
        oddity = float(((counts - n / cohorts) ** 2).sum()) * cohorts / n
        z = (oddity - (cohorts - 1)) / math.sqrt(2 * (cohorts - 1) * (n - 1) / n)
        yield Finding(
            test="cohort, shape", p=float(norm.sf(z)), what=f"hashes are uneven by {z:+.1f} deviations"
        )
    # Users of one pair share the unevenness of a finite family of hashes, at worst all of them the same.
    spread = 1 + n * (a - 1 / buckets) ** 2 / cohorts * buckets / (buckets - 1)
    yield from _even("bucket", trace.cells["bucket"], "some buckets come more often than others", spread)


def _doubled(mechanism: Bucket, trace: Tally) -> Iterator[Finding]:
    """Hashes that give both signs of a key one bucket, where a lie counts twice, are used like any other."""
    counts, d, n = trace.cells["cohort"], mechanism.n_keys, trace.n_reports
    if mechanism.cohorts * d > MOST_HASHES or mechanism.tie == TIE_WORDS:
        return
    expected, seen = np.zeros(d), np.zeros(d)
    for cohorts in np.array_split(np.arange(mechanism.cohorts), max(1, mechanism.cohorts * d >> 18)):
        up, down = signed_buckets(mechanism, cohorts[:, None], np.arange(d)[None, :])
        doubled = up == down
        expected += doubled.sum(axis=0) * (n / mechanism.cohorts)
        seen += counts[cohorts] @ doubled
    if (expected >= FEWEST_EXPECTED).all():
        z = (seen - expected) / np.sqrt(expected * (1 - expected / n))
        what = "hashes that make a report on one key count twice are used too often"
        yield largest_finding("cohort, doubled", np.maximum(z, 0.0), what, np.arange(d))


def _even(name: str, counts: NDArray[np.int64], what: str, spread: float = 1.0) -> Iterator[Finding]:
    """Chi-square against equal chances, if there are enough of each."""
    n, cells = int(counts.sum()), counts.size
    if cells < 2 or n < FEWEST_EXPECTED * cells:
        return
    oddity = float(((counts - n / cells) ** 2).sum()) * cells / n / spread
    yield Finding(test=name, p=float(chi2.sf(oddity, cells - 1)), what=what)


@singledispatch
def in_range(mechanism: object, tally: Tally) -> Iterator[Finding]:
    """Nobody holds a key less than never, more than always, or with a mean beyond the ends."""
    if not is_key_value(mechanism):
        return
    raw = estimate(mechanism, tally)
    if not np.isfinite(raw.signed_se).all():
        return
    enough = raw.asked >= FEWEST_EXPECTED
    error = np.sqrt(raw.frequency_se**2 + raw.signed_se**2 + 2 * np.abs(raw.covariance))
    odd = [
        ((np.abs(raw.signed) - raw.frequency) / error, "more signs of one kind than holders"),
        ((raw.frequency - 1) / raw.frequency_se, "more holders than people"),
        (-raw.frequency / raw.frequency_se, "fewer holders than none"),
    ]
    for z, what in odd:
        kept = np.where(enough & np.isfinite(z), z, 0.0)
        yield largest_finding("range", np.maximum(kept, 0.0), f"a key has {what}", np.arange(kept.size))
    if (raw.asked == raw.n_reports).all():
        excess = (raw.frequency.sum() - mechanism.pairs_per_user) / math.sqrt(
            float((raw.frequency_se**2).sum())
        )
        what = "all keys together have more holders than a record has room for"
        yield Finding(test="range, sum", p=_two_sided(max(excess, 0.0)), what=what)


def largest_finding(
    name: str, z: Floats, what: str, groups: NDArray[np.int64], n_keys: int | None = None
) -> Finding:
    """The largest of many normal deviations."""
    worst = int(np.argmax(np.abs(z)))
    keys = np.flatnonzero(groups == worst)
    return Finding(
        test=name,
        p=_of_many(_two_sided(z[worst]), z.size),
        what=f"{what} ({z[worst]:+.1f} standard errors)",
        keys=tuple(int(code) for code in keys if n_keys is None or code < n_keys),
    )


def _two_sided(z: float) -> float:
    return float(2 * norm.sf(abs(z)))


def _of_many(p: float, looked_at: int) -> float:
    """Bonferroni's correction."""
    return min(1.0, p * looked_at)
