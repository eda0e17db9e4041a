"""What every mechanism owes, as checks that anyone can run on their own.

Each check takes a mechanism class, builds small instances, and raises AssertionError with a reason.
They are exact wherever enumeration reaches: kernels as fractions, samplers word for word. Sizes are
powers of two where equality is asked for, so that 1/l and 1/d are whole numbers of words.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from keyveil import mechanisms
from keyveil.audit import closed_form_loss, enumerate_loss, enumeration_size
from keyveil.domain import Record
from keyveil.errors import MechanismError, Refusal, ReportRejected
from keyveil.mechanisms import (
    Allocation,
    Calibrated,
    EncodedOracle,
    Mechanism,
    SampledIndex,
    SignedResponse,
    SignedUnary,
    UeSw,
)
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.named import remade
from keyveil.numerics import InsecureSeededEntropy, exp_below, parse_epsilon
from keyveil.simulate import draw_tally, insecure_generator, perturb_all, synthetic
from keyveil.tally import count
from keyveil.testing.laws import Z, answer_cell, chi_square_z, tally_cell, tally_law

Check = Callable[[type[Calibrated]], None]

# What a mechanism does not owe, and why.
EXEMPT: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("olh", "frequency_is_unbiased"): "1/g is the chance of a hit over all hashes, not over four of them",
        ("olh", "variance_is_exact"): "1/g is the chance of a hit over all hashes, not over four of them",
        ("olh", "simulation_follows_the_law"): "is simulated with ideal hashing",
        ("bucket", "frequency_is_unbiased"): "is unbiased over all hashes, not over two of them",
        ("bucket", "variance_is_exact"): "is exact over all hashes, not over two of them",
        (
            "prefix-bucket",
            "frequency_is_unbiased",
        ): "its cells are answers; tests/tally/test_prefixes reads them",
        ("prefix-bucket", "variance_is_exact"): "its cells are answers; tests/tally/test_prefixes reads them",
        ("krr-harmony", "closed_form_is_reached"): "a baseline that does not claim what sampling amplifies",
    }
)
# Probabilities that one instance may cost; larger ones are left to smaller sizes.
_LARGEST = 30_000
# Those above this are tried at the ends of all epsilons only.
_LARGE = 6_000
# Random bits of a report whose words are all tried: the first that make an instance, in words of three up.
_BITS = (12, 16)

EPSILONS = ("0.1", "0.5", "1", "2", "4")


def check_mechanism(cls: type[Calibrated]) -> None:
    """Run every check on a mechanism class.

    >>> from keyveil.mechanisms import REGISTRY
    >>> check_mechanism(REGISTRY["grr"])
    """
    for name, check in CHECKS.items():
        if (cls.id, name) not in EXEMPT:
            check(cls)


# --- the kernel ---


def rows_sum_to_one(cls: type[Calibrated]) -> None:
    """The chances of all answers add up to one, exactly, for every record."""
    for mechanism in _instances(cls, ("1",), ((1, 1), (3, 1), (3, 2), (2, 3))):
        for record in _records(mechanism.n_keys):
            total = sum(mechanism.probability(answer, record) for answer in mechanism.answers())
            assert total == 1, f"{mechanism}: the row of one record sums to {float(total)}"


def lift_is_proportional(cls: type[Calibrated]) -> None:
    """`lift` and `probability` differ by a factor that depends on the answer alone."""
    for mechanism in _instances(cls, ("1",), ((2, 1), (3, 2))):
        for answer in mechanism.answers():
            factors = {
                mechanism.probability(answer, record) / mechanism.lift(answer, record)
                for record in _records(mechanism.n_keys)
            }
            assert len(factors) == 1, f"{mechanism}: lift is not proportional to probability"


def loss_is_within_epsilon(cls: type[Calibrated]) -> None:
    """The enumerated loss is at most e**epsilon with no tolerance, and never above the closed form."""
    for epsilon in EPSILONS:
        for mechanism in _enumerable(cls, (epsilon,), ((1, 1), (2, 1), (3, 2), (2, 3))):
            if epsilon in EPSILONS[1:-1] and enumeration_size(mechanism) > _LARGE:
                continue
            loss = enumerate_loss(mechanism).ratio
            assert loss <= exp_below(parse_epsilon(epsilon)), f"{mechanism}: loss exceeds epsilon {epsilon}"
            assert loss <= mechanism.loss, f"{mechanism}: loss exceeds its closed form"


def closed_form_is_reached(cls: type[Calibrated]) -> None:
    """Where two full records fit into the domain, enumeration and witness reach the closed form."""
    for mechanism in _enumerable(cls, ("0.5", "2"), ((2, 1), (4, 2))):
        assert enumerate_loss(mechanism).ratio == mechanism.loss, f"{mechanism}: closed form is not reached"
        method = closed_form_loss(mechanism).method
        assert method == "closed form, reached", f"{mechanism}: its witness misses the closed form"


# --- the client's side ---


def name_makes_it_again(cls: type[Calibrated]) -> None:
    """What a description names is all that a device needs to make the same integers."""
    for mechanism in _instances(cls, EPSILONS, ((1, 1), (3, 2), (40, 3))):
        assert mechanism.parameters is not None, f"{mechanism} has no name; for_epsilon gives it one"
        again = remade(cls, mechanism.parameters.to_json(), mechanism.n_keys)
        assert again == mechanism, f"{mechanism}: fields leave something out"


def sampler_is_kernel(cls: type[Calibrated]) -> None:
    """`perturb` over all tuples of short words gives each answer exactly as often as the kernel says."""
    tried, sizes = set(), ((1, 1), (2, 1), (2, 2), (3, 2))
    for (n_keys, pairs_per_user), allocation in itertools.product(sizes, cls.allocations):
        made = _with_short_words(cls, n_keys, pairs_per_user, allocation)
        if made is None:
            continue
        tried.add(allocation)
        for mechanism, record in itertools.product(_variants(made), _records(n_keys)):
            words, drawn = range(1 << mechanism.word_bits), mechanism.n_words
            seen = Counter(mechanism.perturb(record, tup) for tup in itertools.product(words, repeat=drawn))
            for answer in mechanism.answers():
                share = Fraction(seen[answer], len(words) ** drawn)
                assert share == mechanism.probability(answer, record), f"{mechanism}: sampler is not kernel"
    for allocation in set(cls.allocations) - tried:
        raise AssertionError(f"{cls.__name__}: no {allocation.value} instance can be tried word for word")


def length_tells_nothing(cls: type[Calibrated]) -> None:
    """Every record takes the same number of words and makes a report of the same length."""
    entropy = InsecureSeededEntropy(1)
    for mechanism in _instances(cls, ("1",), ((7, 1), (7, 3))):
        layout = mechanism.layout
        for record in _records(mechanism.n_keys):
            words = entropy(mechanism.n_words)
            payload = layout.encode(mechanism.perturb(record, words))
            assert len(payload) == layout.n_bytes, f"{mechanism}: report length depends on the record"


def wire_round_trips(cls: type[Calibrated]) -> None:
    """Every answer survives the wire, and no two share their bytes."""
    for mechanism in _enumerable(cls, ("1",), ((1, 1), (3, 2))):
        layout = mechanism.layout
        sent = {layout.encode(answer): answer for answer in mechanism.answers()}
        assert len(sent) == sum(1 for _ in mechanism.answers()), f"{mechanism}: two answers share their bytes"
        for payload, answer in sent.items():
            assert layout.decode(payload) == answer, f"{mechanism}: an answer does not survive the wire"


def wire_refuses_all_else(cls: type[Calibrated]) -> None:
    """Of all byte strings of a report's length, those that decode are the answers."""
    tried = 0
    for mechanism in _enumerable(cls, ("1",), ((1, 1), (2, 1), (3, 2))):
        layout, seen = mechanism.layout, set()
        if layout.n_bytes > 2:
            continue
        tried += 1
        for number in range(1 << (8 * layout.n_bytes)):
            try:
                seen.add(layout.decode(number.to_bytes(layout.n_bytes, "little")))
            except ReportRejected as refusal:
                assert refusal.code is Refusal.NOT_CANONICAL, f"{mechanism}: {refusal}"  # noqa: PT017
        assert seen == set(mechanism.answers()), f"{mechanism}: what decodes is not what can be answered"
    assert tried, f"{cls.__name__}: no instance has reports of at most two bytes"


def public_word_decides_alone(cls: type[Calibrated]) -> None:
    """An answer follows the public word behind it whatever the other words and the record are."""
    entropy = InsecureSeededEntropy(3)
    for mechanism in _instances(cls, ("1",), ((7, 1), (7, 3))):
        place = mechanism.public_word
        for record in _records(mechanism.n_keys):
            words = list(entropy(mechanism.n_words))
            answer = mechanism.perturb(record, words)
            public = 0 if place is None else words[place]
            assert mechanism.follows(answer, public), f"{mechanism}: the public word does not decide"
            if place is not None:
                # Half of all words away lies another half of the cohorts, or of the keys.
                other = public ^ 1 << (mechanism.word_bits - 1)
                assert not mechanism.follows(answer, other), f"{mechanism}: any public word will do"


# --- the collector's side ---


def frequency_is_unbiased(cls: type[Calibrated]) -> None:
    """Debiasing the expected counts returns the frequency, exactly; for signed reports the mean too."""
    for mechanism in _instances(cls, ("1",), ((2, 1), (2, 2))):
        records = _short_records(mechanism)
        for code in range(mechanism.n_keys):
            law = [_heard_law(mechanism, record, code) for record in records]
            asked = sum(chance for one in law for (was_asked, _), chance in one.items() if was_asked)
            plus, minus, other = (
                sum(one.get((True, said), Fraction(0)) for one in law) for said in ("plus", "minus", "other")
            )
            levels = [pair.level for record in records for pair in record.pairs if pair.code == code]
            frequency = share(mechanism.a, mechanism.b, plus + minus + other, asked, mechanism.pairs_per_user)
            assert frequency == Fraction(len(levels), len(records)), f"{mechanism}: frequency is biased"
            if isinstance(mechanism, (SignedUnary, SignedResponse, SampledIndex)):
                _, signed = mechanism.debias(plus, minus, asked, number=Fraction)
                values = [Fraction(level, 2**63) - 1 for level in levels]
                assert signed == sum(values, Fraction(0)) / len(records), f"{mechanism}: means are biased"


def variance_is_exact(cls: type[Calibrated]) -> None:
    """The variance of a frequency equals that of the joint law of a few users, given who was asked."""
    for mechanism in _instances(cls, ("1",), ((2, 1), (2, 2))):
        records, code = _short_records(mechanism)[:6], 0
        law = _asked_and_reported(mechanism, records, code)
        true_share = Fraction(sum(p.code == code for r in records for p in r.pairs), len(records))
        for asked in sorted({asked for asked, _ in law if asked > 0}):
            given = {reported: chance for (n, reported), chance in law.items() if n == asked}
            shares = {
                reported: share(mechanism.a, mechanism.b, Fraction(reported), asked, mechanism.pairs_per_user)
                for reported in given
            }
            total = sum(given.values())
            mean = sum(given[r] * shares[r] for r in given) / total
            variance = sum(given[r] * (shares[r] - mean) ** 2 for r in given) / total
            claimed = mechanism.variance(true_share, asked, Fraction(len(records)), number=Fraction)
            assert mean == true_share, f"{mechanism}: frequency is biased given {asked} were asked"
            assert variance == claimed, f"{mechanism}: variance {float(claimed)}, is {float(variance)}"


def tally_counts_ticks(cls: type[Calibrated]) -> None:
    """The vectorised tally counts what `ticks` says of each report, and parts add up to the whole."""
    population = synthetic(users=300, keys=7, pairs_per_user=3, seed=4)
    for mechanism in _instances(cls, ("1",), ((7, 1), (7, 3))):
        payloads = list(perturb_all(mechanism, population, InsecureSeededEntropy(2)))
        whole = count(mechanism, payloads, question="q")
        one_by_one = (answer_cell(mechanism, mechanism.layout.decode(payload)) for payload in payloads)
        ticked = tuple(map(sum, zip(*one_by_one, strict=True)))
        assert ticked == tally_cell(whole), f"{mechanism}: the tally is not the sum of its ticks"
        some, rest = (count(mechanism, part, question="q") for part in (payloads[:100], payloads[100:]))
        assert some + rest == whole, f"{mechanism}: parts do not add up to the whole"


def simulation_follows_the_law(cls: type[Calibrated]) -> None:
    """Fast tallies and tallies of real reports both follow the exact joint law (fixed seed, z = 5)."""
    rng, entropy = insecure_generator(1), InsecureSeededEntropy(1)
    for mechanism in _instances(cls, ("2",), ((2, 1), (2, 2))):
        # Two users of many answers have as many joint tallies as four of few.
        many = enumeration_size(mechanism) > 1000
        population = synthetic(users=2 if many else 4, keys=2, pairs_per_user=2, seed=3)
        if many and mechanism.pairs_per_user > 1:
            continue
        law = tally_law(mechanism, list(population.records()))
        fast = (draw_tally(mechanism, population, rng) for _ in range(6000))
        slow = (
            count(mechanism, list(perturb_all(mechanism, population, entropy)), question="q")
            for _ in range(3000)
        )
        for name, tallies in (("fast", fast), ("slow", slow)):
            z = chi_square_z(law, map(tally_cell, tallies))
            assert z < Z, f"{mechanism}: {name} tallies are {z:.1f} standard errors off their law"


# --- the object ---


def is_a_public_value(cls: type[Calibrated]) -> None:
    """Instances are frozen, equal by value, and survive pickle and repr."""
    for mechanism in _instances(cls, ("1",), ((3, 2),)):
        assert pickle.loads(pickle.dumps(mechanism)) == mechanism, f"{mechanism}: does not pickle"  # noqa: S301
        names = {name: getattr(mechanisms, name) for name in mechanisms.__all__} | {cls.__name__: cls}
        rebuilt = eval(repr(mechanism), names)  # noqa: S307
        assert rebuilt == mechanism, f"{mechanism}: repr does not rebuild it"
        try:
            setattr(mechanism, dataclasses.fields(cls)[0].name, None)  # type: ignore[arg-type]
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"{mechanism}: is not frozen")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            rows_sum_to_one,
            lift_is_proportional,
            loss_is_within_epsilon,
            closed_form_is_reached,
            name_makes_it_again,
            sampler_is_kernel,
            length_tells_nothing,
            wire_round_trips,
            wire_refuses_all_else,
            public_word_decides_alone,
            frequency_is_unbiased,
            variance_is_exact,
            tally_counts_ticks,
            simulation_follows_the_law,
            is_a_public_value,
        )
    }
)


def _instances(
    cls: type[Calibrated], epsilons: Sequence[str], sizes: Sequence[tuple[int, int]]
) -> Iterator[Mechanism]:
    """One instance per epsilon, size and allocation, with options that keep it small; ids own and issued."""
    for epsilon, (n_keys, pairs_per_user), allocation in itertools.product(epsilons, sizes, cls.allocations):
        made = cls.for_epsilon(
            epsilon,
            n_keys=n_keys,
            pairs_per_user=pairs_per_user,
            allocation=allocation,
            **cls.small_options,
        )
        yield from _variants(made)


def _variants(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """An instance, and the same where ids are handed out, if that makes a difference."""
    issued = mechanism.with_issued_ids()
    return (mechanism,) if issued is mechanism else (mechanism, issued)


def _enumerable(
    cls: type[Calibrated], epsilons: Sequence[str], sizes: Sequence[tuple[int, int]]
) -> Iterator[Mechanism]:
    """Those instances whose records and answers can all be tried; at least one must be among them."""
    small = [m for m in _instances(cls, epsilons, sizes) if enumeration_size(m) <= _LARGEST]
    assert small, f"{cls.__name__}: no instance is small enough to be enumerated"
    return iter(small)


def _with_short_words(
    cls: type[Calibrated], n_keys: int, pairs_per_user: int, allocation: Allocation
) -> Mechanism | None:
    """An instance whose reports take at most 16 random bits in all, if one exists."""
    size = {"n_keys": n_keys, "pairs_per_user": pairs_per_user, **cls.small_options, "allocation": allocation}
    n_words = cls.for_epsilon(3, **size).n_words
    for bits in _BITS:
        try:
            return cls.for_epsilon(3, word_bits=min(max(3, bits // n_words), 16 // n_words), **size)
        except MechanismError:
            continue
    return None


def _records(n_keys: int) -> list[Record]:
    """Nothing, one key at either end, two keys, all keys; values at the ends and between."""
    values = itertools.cycle((1.0, -1.0, 0.25))
    wanted = [(), (0,), (n_keys - 1,), (0, n_keys - 1), tuple(range(n_keys))]
    return [Record.of({code: next(values) for code in codes}) for codes in dict.fromkeys(wanted)]


def _short_records(mechanism: Mechanism) -> list[Record]:
    """Records that padding does not truncate."""
    values = itertools.cycle((1.0, -1.0, 0.25, -0.5))
    codes = range(mechanism.n_keys)
    wanted = [c for size in range(mechanism.pairs_per_user + 1) for c in itertools.combinations(codes, size)]
    return [Record.of({code: next(values) for code in held}) for held in wanted]


def _heard_law(mechanism: Mechanism, record: Record, code: int) -> dict[tuple[bool, str | None], Fraction]:
    """Whether one report could speak of a key, and what it said: None, plus, minus or other."""
    law: dict[tuple[bool, str | None], Fraction] = defaultdict(Fraction)
    for answer in mechanism.answers():
        ticks = [name for name, place in mechanism.ticks(answer) if place[0] == code]
        everybody = isinstance(mechanism, (UeSw, EncodedOracle))
        said = next((name for name in ticks if name != "asked"), None)
        heard = said if said in (None, "plus", "minus") else "other"
        law[everybody or "asked" in ticks, heard] += mechanism.probability(answer, record)
    return law


def _asked_and_reported(
    mechanism: Mechanism, records: Sequence[Record], code: int
) -> dict[tuple[int, int], Fraction]:
    """The joint law of how many users were asked about a key and how many reported it."""
    joint: dict[tuple[int, int], Fraction] = {(0, 0): Fraction(1)}
    for record in records:
        grown: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
        for (was_asked, said), step in _heard_law(mechanism, record, code).items():
            for (asked, heard), chance in joint.items():
                grown[asked + was_asked, heard + (said is not None)] += chance * step
        joint = {cell: chance for cell, chance in grown.items() if chance}
    return joint
