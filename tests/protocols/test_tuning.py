"""Every tuned number of `auto` matters: for each there is something that moves with it, up or down.

What is observed for a number is recorded, so that a changed number fails; and halving and doubling it moves
the observation the way its reason says, so that the record means something. `bench/tuning.py` measures what
the same changes do to errors and intervals.
"""

import csv
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from keyveil.estimate.shrink import Anchor, Evidence, shrink
from keyveil.estimate.sizes import SizeLaw, Truncation, class_ends, class_means, size_classes, with_tail
from keyveil.mechanisms import PopularSize, Response, SizeClass, build
from keyveil.plan import Crowd, lengths, options
from keyveil.plan.choice import promise
from keyveil.protocols.auto import NEWEST, TUNINGS, Auto, check, discover, notes, values
from keyveil.protocols.auto.answers import Answered, Answers
from keyveil.protocols.auto.choose import choose, interest
from keyveil.protocols.auto.opening import Opening
from keyveil.shuffle import Promise
from keyveil.simulate import insecure_generator, play, synthetic
from keyveil.tally import Tally

ROOT = Path(__file__).parents[2]
OWN = TUNINGS[NEWEST]


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield import_module("tuning")
        sys.modules.pop("tuning")


class Scene(NamedTuple):
    """Numbers on trial, and the version that has them."""

    tuning: object
    version: int

    def auto(self, **settings):
        known = {"epsilon": Fraction(1), "n_keys": 600, "users": 10_000, "pairs_per_user": 8, "top": 20}
        return Auto(**(known | {"version": self.version} | settings))

    def asked(self, purpose, **settings):
        """How many of all users a round asks."""
        protocol = self.auto(rounds=2, **settings)
        stage = next(stage for stage in protocol.stages() if stage.purpose == purpose)
        return float(stage.group[1] - stage.group[0]) * protocol.users


WHOLE = Truncation(law=SizeLaw.exactly(1), l=1)
OPENING = Opening("c", 2, Fraction(3, 100))
EVEN = SizeLaw(sizes=np.arange(1.0, 101), shares=np.full(100, 0.01))

TAILED = SizeLaw(sizes=2.0 ** np.arange(12), shares=0.5 ** np.arange(1, 13))


def first(values, wanted):
    """The first value that does."""
    return next(value for value in values if wanted(value))


# --- who is asked ---


def enough_users(scene):
    """From how many users on the keys themselves tell where means lie."""
    tried = [int(1000 * 1.3**step) for step in range(70)]
    law = SizeLaw.exactly(1)
    return first(tried, lambda n: not values.are_needed(scene.auto(users=n, n_keys=3000), law))


# --- what is asked ---


def declared_with_response(scene):
    """The most pairs whose classes are told by randomized response."""
    ids = {n: scene.auto(pairs_per_user=n).start("c").mechanism.id for n in range(2, 120)}
    return max((n for n, id in ids.items() if id == "size-class"), default=1)


def holders_at_least(scene):
    """How many are taken to hold anything where everybody says that they hold nothing."""
    protocol = scene.auto(pairs_per_user=1)
    opened = protocol.start("c")
    tally = Tally.of(question=opened.question, n_reports=1000, support=[1000, 0, 0])
    return values.read(protocol, Answers([(opened, tally)])).law.mean


def frequency_of_interest(scene):
    protocol = scene.auto()
    return float(interest(protocol, protocol.crowd(SizeLaw.exactly(8), 600))[0])


def mean_of_interest(scene):
    """Popularity falls ever slower with rank, so the ends weigh less, and the mean is less, of more ranks."""
    protocol = scene.auto()
    return float(interest(protocol, protocol.crowd(SizeLaw.exactly(8), 600)).mean())


def takes_two(scene, l, keys=600):
    """Whether there are two rounds where nothing else is compared: something is promised."""
    promise = Promise(1.0, 1e-6, 8000, 0.5)
    choice = SimpleNamespace(mechanism=SimpleNamespace(pairs_per_user=l))
    return discover.pays(scene.auto(n_keys=keys, promise=promise), OPENING, choice, WHOLE.law)


def shortest_in_two_rounds(scene):
    return first(range(1, 40), lambda l: takes_two(scene, l))


def fewest_keys_in_two_rounds(scene):
    return first(range(50, 900, 50), lambda keys: takes_two(scene, 40, keys))


def candidates(scene, in_top, **settings):
    found = SimpleNamespace(shrunk=SimpleNamespace(in_top=np.array(in_top)))
    return len(discover.candidates(scene.auto(n_keys=len(in_top), **settings), found))


def check_question(scene):
    main = scene.auto(rounds=1).stages()[-2]
    main = replace(main, mechanism=build("bucket", 1, n_keys=600, pairs_per_user=4))
    return check.ask_about(scene.auto(), main, (0,), 4.0).mechanism.encoder


# --- contradictions ---


def declared_in_doubt(scene):
    """How many declared numbers of pairs are noted where everybody holds 8."""
    doubted = 0
    for declared in range(2, 60):
        protocol = scene.auto(pairs_per_user=declared, n_keys=200)
        opened = protocol.start("c")
        ends = class_ends(opened.mechanism.encoder.starts)
        shares = np.eye(ends.size)[min(int(np.searchsorted(ends, 8)), ends.size - 1)]
        tally = Tally.of(question=opened.question, n_reports=10**6, support=[0])
        law = SizeLaw(sizes=ends, shares=shares)
        doubted += bool(notes.other_sizes(protocol, Answered(opened, tally), law))
    return doubted


def skew_in_doubt(scene, *, skew, noise, keys=300):
    """Whether a skew of 1 is noted to be another."""
    protocol = scene.auto(n_keys=keys, pairs_per_user=1, skew=skew)
    frequency = Crowd(users=1, n_keys=keys, law=SizeLaw.exactly(1), skew=1.0).frequency
    frequency = np.interp(np.arange(keys), np.linspace(0, keys - 1, frequency.size), frequency)
    error = np.full(keys, noise)
    # As squares come out on average: larger by the variance.
    seen = SimpleNamespace(frequency=np.sqrt(frequency**2 + error**2), frequency_se=error)
    return bool(notes.other_skew(protocol, seen, WHOLE))


def skews_in_doubt(scene):
    return sum(skew_in_doubt(scene, skew=skew, noise=1e-6) for skew in np.linspace(0, 3, 61))


def noise_that_hides(scene, **crowd):
    """From which noise on an even spread is no longer told from a skew of 1."""
    return first(
        np.geomspace(1e-5, 1, 200), lambda noise: not skew_in_doubt(scene, skew=0.0, noise=noise, **crowd)
    )


# --- choices ---


def chosen(scene, *, epsilon=1, users=10_000, law=EVEN, keys=600, want="both"):
    return choose(scene.auto(epsilon=Fraction(epsilon), users=users, want=want), law, keys, Fraction(1))


def mean_promised(scene):
    crowd = Crowd(users=10**6, n_keys=100, law=SizeLaw.exactly(1))
    found = options(1, crowd, at=np.array([0.02]), reports=1e6, tuning=scene.tuning.choosing)
    return first(found, lambda choice: choice.mechanism.id == "bucket").mean_error


def hashes_asked_for(scene):
    """Among how many hashes a million holders of one pair choose."""
    return chosen(scene, users=10**6, law=SizeLaw.exactly(1), keys=64).mechanism.cohorts


def most_keys_alone(scene):
    """The most keys of which one may be told alone."""
    law = SizeLaw.exactly(1)
    tried = [*range(400, 2401, 16), 4000]
    return max(
        keys for keys in tried if chosen(scene, law=law, keys=keys, want="frequency").mechanism.id == "subset"
    )


def users_for_means(scene):
    """From how many users on means are hoped for."""
    tried = [int(300 * 1.3**step) for step in range(40)]
    law = SizeLaw.exactly(1)

    return first(tried, lambda users: dial(chosen(scene, users=users, law=law)) == 0)


def dial_without_means(scene):
    return dial(chosen(scene, users=200, law=SizeLaw.exactly(1)))


def dial(choice):
    """How many keys have both signs in one bucket: all where no mean is told."""
    return dict(choice.mechanism.parameters.fields)["tie"] / 2**32


def times_levels_are_taken(scene):
    taken = 0
    for epsilon in np.linspace(0.2, 5, 25):
        crowd = Crowd(users=10**5, n_keys=8, law=SizeLaw.exactly(6))
        found = options(epsilon, crowd, at=crowd.frequency, reports=1e5, tuning=scene.tuning.choosing)
        taken += list(found)[-1].mechanism.id == "levels"
    return taken


def mean_told_by_levels(scene):
    mechanism, tuning = build("levels", 4, n_keys=8), scene.tuning.choosing
    return promise(mechanism, WHOLE, np.array([0.5]), 1e5, tuning).mean_error


def length_chosen(scene, **crowd):
    """Padding lengths added up over budgets and numbers of users."""
    return sum(
        chosen(scene, epsilon=epsilon, users=users, **crowd).mechanism.pairs_per_user
        for epsilon in (2, 4)
        for users in (10**4, 10**5, 10**6)
    )


def length_for_means(scene):
    """The same where records have a long tail and budgets are small: means are the harder part."""
    return sum(
        chosen(scene, epsilon=epsilon, users=users, law=TAILED).mechanism.pairs_per_user
        for epsilon in (1, 2)
        for users in (10**5, 10**6, 10**7)
    )


# --- sizes and truncation ---


def classes(scene, largest):
    return size_classes(largest, scene.tuning.size_model)


def single_sizes(scene):
    """How many sizes have a class of their own."""
    starts = classes(scene, 60)
    return sum(after - start == 1 for start, after in pairwise(starts))


def sizes_apart(scene):
    """How many classes there are at a large budget, for short records and long ones."""
    asked = (scene.auto(epsilon=Fraction(4), pairs_per_user=pairs).start("c") for pairs in (6, 20))
    return sum(len(each.mechanism.encoder.starts) for each in asked)


def mean_in_a_class(scene):
    """Of sizes from 10 to 29, where fewer hold more."""
    ends, shares = np.array([0.0, 4.0, 9.0, 29.0]), np.array([0.0, 0.7, 0.25, 0.05])
    return float(class_means((0, 1, 5, 10), ends, shares, scene.tuning.size_model.steepest)[-1])


def told_law(scene, support, expected=None):
    oracle = Response.for_epsilon(1, 5)
    tally = Tally.of(question="q", n_reports=1000, support=support)
    classes = SizeClass(n_keys=9, starts=(0, 1, 2, 3, 4))
    return SizeLaw.from_answers(classes, oracle, tally, scene.tuning.size_model, expected=expected)


def strength(scene, heard, *, much=0.5, n=10**6):
    """How much truncation is believed if those with popular keys are so spread over sizes 1, 60 and more.

    A part of the users holds much; a cut leaves one pair.
    """
    asked = PopularSize(n_keys=3, popular=(0,), most=1, starts=(1, 60))
    oracle = Response.for_epsilon(1, 3)
    a, b = float(oracle.a), float(oracle.b)
    spread = np.array([1 - sum(heard), *heard])
    tally = Tally.of(question="q", n_reports=n, support=np.round(n * (b + (a - b) * spread)).astype(int))
    cut = Truncation(law=SizeLaw(sizes=np.array([1.0, 75.0]), shares=np.array([1 - much, much])), l=1)
    return cut.checked(asked, oracle, tally, np.full(3, 0.002), scene.tuning.size_model).strength


@cache
def few_pairs():
    return synthetic(users=4000, keys=40, pairs_per_user=4, seed=2)


def error_of_whole_records(scene):
    people = few_pairs()
    protocol = scene.auto(epsilon=Fraction(2), n_keys=40, users=4000, pairs_per_user=4)
    return float(play(protocol, people, insecure_generator(1)).raw.frequency_se.max())


# --- shrinking ---


def told(frequency, mean, users, *, epsilon=1, rho=0, seed=1):
    """Gaussian estimates of these keys with the law of bucket reports."""
    rng = insecure_generator(seed)
    moments = build("bucket", epsilon, n_keys=frequency.size, rho=rho).moments
    spread = moments.covariance(frequency, mean, float(users))
    one, other = rng.standard_normal((2, frequency.size))
    slope = spread.crossed / np.sqrt(spread.frequency)
    return Evidence(
        frequency=frequency + np.sqrt(spread.frequency) * one,
        signed=frequency * mean + slope * one + np.sqrt(spread.signed - slope**2) * other,
        asked=np.full(frequency.size, float(users)),
        moments=moments,
        truncation=WHOLE,
    )


def zipf(keys):
    return 0.4 / np.arange(1, keys + 1.0)


def shrunk(scene, evidence, **options):
    return shrink(evidence, tuning=scene.tuning.shrinking, **options)


def places(scene, users, epsilon=1):
    return shrunk(scene, told(zipf(40), np.zeros(40), users, epsilon=epsilon)).prior.grid.size


def roughness(scene):
    """How far the spread is from even: large where it keeps to few places."""
    weights = shrunk(scene, told(zipf(200), np.zeros(200), 20_000)).prior.weights
    return float(weights @ weights)


def centre_of_layers(scene):
    """The centre of means where keys have lower means the rarer they are."""
    frequency = np.linspace(0.05, 0.02, 7000)
    return shrunk(scene, told(frequency, np.linspace(0.9, -0.9, 7000), 40_000)).centre


def spread_of(scene, means, users):
    return shrunk(scene, told(np.full(len(means), 0.2), np.array(means), users), anchor=Anchor(0.0, 0.1)).tau


def crowds_with_common_keys(scene):
    """In how many crowds, sparse to dense, the keys of everybody are kept apart from the others."""
    kept = 0
    for level in np.geomspace(0.02, 0.6, 7):
        evidence = told(np.concatenate([np.full(29, level), np.ones(1)]), np.zeros(30), 1000, epsilon=2)
        apart = replace(scene.tuning.shrinking, dense=0.0)
        own, other = shrunk(scene, evidence), shrink(evidence, tuning=apart)
        kept += np.array_equal(own.frequency, other.frequency)
    return kept


def top_of_noise(scene):
    return float(shrunk(scene, told(zipf(200) / 4, np.zeros(200), 12_000), top=20).frequency_top[:20].sum())


def centre_without_evidence(scene):
    """Where means are taken to lie if all that is known is that they may lie above the middle."""
    evidence = told(zipf(5), np.full(5, 0.5), 300)
    return shrunk(scene, evidence, anchor=Anchor(0.9, 0.5)).centre


def halves_with_a_top(scene):
    """In how many crowds a top of half the keys stands out."""
    found = (
        shrunk(scene, told(zipf(20) / 4, np.zeros(20), n, seed=seed), top=10)
        for n in np.geomspace(300, 10**5, 8)
        for seed in range(3)
    )
    return sum(not np.array_equal(each.frequency, each.frequency_top) for each in found)


def crowds_with_a_top(scene):
    """In how many crowds, small to large, a top stands out."""
    found = (
        shrunk(scene, told(zipf(400) / 40, np.zeros(400), n), top=1) for n in np.geomspace(30, 10**5, 30)
    )
    return sum(not np.array_equal(each.frequency, each.frequency_top) for each in found)


UP, DOWN = 1, -1
# What decides for none of the table's people: limits of time and for crowds of more than 65,536, guards
# against noise, a warning's doubt, what is asked of those who want frequencies or distributions alone, what
# levels are chosen by where budgets are larger, and two rounds, which none of these few are asked.
QUIET = {
    "bins",
    "choosing.longest",
    "choosing.own_keys",
    "choosing.rounding",
    "choosing.sharing",
    "few_tops",
    "fewest_tops",
    "likely",
    "long",
    "shrinking.concentrated",
    "shrinking.dense",
    "shrinking.most_keys",
    "size_model.least_kept",
    "skew_doubt",
    "top_points",
}


class Consequence(NamedTuple):
    """What is seen of a number, what it is with the number as it is, and which way it goes with it."""

    observe: object
    recorded: float
    goes: int


CONSEQUENCES = {
    "sizes": Consequence(lambda s: s.asked("sizes"), 300, UP),
    "most_values": Consequence(lambda s: s.asked("values", epsilon=Fraction(1, 2)), 500, UP),
    "fewest_values": Consequence(lambda s: s.asked("values", users=10**6), 10_000, UP),
    "anchors": Consequence(lambda s: s.asked("values", users=40_000), 937, UP),
    "anchored": Consequence(enough_users, 9727860, DOWN),
    "discover": Consequence(lambda s: s.asked("discover", users=10**6), 480000, UP),
    "overlap": Consequence(lambda s: s.asked("overlap"), 200, UP),
    "check": Consequence(lambda s: s.asked("check"), 200, UP),
    "size_reach": Consequence(
        lambda s: len(s.auto(pairs_per_user=20).start("c").mechanism.encoder.starts), 15, UP
    ),
    "size_tail": Consequence(
        lambda s: s.auto(pairs_per_user=20, n_keys=3000).start("c").mechanism.encoder.starts[-1], 144, UP
    ),
    "few_classes": Consequence(declared_with_response, 4, UP),
    "fewest_holders": Consequence(holders_at_least, 0.05, UP),
    "top_head": Consequence(frequency_of_interest, 0.22848751, DOWN),
    "top_points": Consequence(mean_of_interest, 0.11790684, DOWN),
    "long": Consequence(shortest_in_two_rounds, 5, UP),
    "few_tops": Consequence(fewest_keys_in_two_rounds, 200, UP),
    "likely": Consequence(lambda s: candidates(s, 2.0 ** -np.arange(40), top=1), 9, DOWN),
    "fewest_tops": Consequence(lambda s: candidates(s, np.zeros(500)), 40, UP),
    "most_candidates": Consequence(lambda s: candidates(s, np.ones(9000)), 3000, UP),
    "bins": Consequence(lambda s: s.auto(want="distribution").stages()[-1].mechanism.bins, 64, UP),
    "most_popular": Consequence(lambda s: check_question(s).most, 10, UP),
    "check_classes": Consequence(lambda s: check_question(s).starts[-1], 21, UP),
    "other_sizes": Consequence(declared_in_doubt, 44, DOWN),
    "other_skew": Consequence(skews_in_doubt, 49, DOWN),
    "surely": Consequence(noise_that_hides, 0.017426334, DOWN),
    "skew_doubt": Consequence(lambda s: noise_that_hides(s, keys=5000), 0.0097712415, UP),
    "choosing.typical_mean": Consequence(mean_promised, 0.021651921, UP),
    "choosing.hopeless": Consequence(users_for_means, 74119, UP),
    "choosing.frequencies_first": Consequence(dial_without_means, 0.8, UP),
    "choosing.dear_levels": Consequence(times_levels_are_taken, 8, UP),
    "choosing.means_weigh": Consequence(length_for_means, 34, DOWN),
    "choosing.unmodelled": Consequence(lambda s: length_chosen(s, want="frequency"), 388, UP),
    "choosing.worst": Consequence(lambda s: length_chosen(s, law=TAILED), 42, UP),
    "choosing.sharing": Consequence(hashes_asked_for, 524288, DOWN),
    "choosing.own_keys": Consequence(most_keys_alone, 992, UP),
    "choosing.rounding": Consequence(mean_told_by_levels, 6.6335478e-05, UP),
    "choosing.longest": Consequence(lambda s: max(lengths(TAILED, s.tuning.choosing)), 476, DOWN),
    "choosing.longer": Consequence(lambda s: len(lengths(EVEN, s.tuning.choosing)), 15, DOWN),
    "size_model.every": Consequence(single_sizes, 6, UP),
    "size_model.wider": Consequence(lambda s: len(classes(s, 300)), 20, DOWN),
    "size_model.resolved": Consequence(sizes_apart, 30, UP),
    "size_model.steepest": Consequence(mean_in_a_class, 15.131248, DOWN),
    "size_model.most_heard": Consequence(lambda s: strength(s, (0.3, 0.3), much=0.1), 0.1368546, UP),
    "size_model.tail": Consequence(lambda s: len(with_tail((0, 1, 2), 100, s.tuning.size_model)), 8, DOWN),
    "size_model.beyond": Consequence(lambda s: class_ends((0, 1, 2, 8), s.tuning.size_model)[-1], 12, UP),
    "size_model.mean_error": Consequence(
        lambda s: told_law(s, [100, 250, 200, 350, 100]).mean_error, 0.1341274, UP
    ),
    "size_model.least_spread": Consequence(
        lambda s: told_law(s, [0, 0, 1000, 0, 0]).mean_error, 0.013686043, UP
    ),
    "size_model.expected_users": Consequence(
        lambda s: told_law(s, [150, 450, 150, 125, 125], expected=9.0).mean, 1.287019, UP
    ),
    "size_model.unmodelled": Consequence(error_of_whole_records, 0.041605136, UP),
    "size_model.strength": Consequence(lambda s: strength(s, (0.0, 0.0)), 0.79999621, UP),
    "size_model.strength_error": Consequence(lambda s: strength(s, (0.18, 0.02), n=3000), 0.033150797, DOWN),
    "size_model.most_strength": Consequence(lambda s: strength(s, (0.0, 0.2), much=0.01, n=10**8), 1.5, UP),
    "size_model.least_kept": Consequence(lambda s: strength(s, (0.0, 0.2)), 0.83198273, DOWN),
    "shrinking.step": Consequence(lambda s: places(s, 10_000), 50, DOWN),
    "shrinking.fewest": Consequence(lambda s: places(s, 20), 12, UP),
    "shrinking.largest_grid": Consequence(lambda s: places(s, 10**9), 640, UP),
    "shrinking.iterations": Consequence(roughness, 0.36624964, UP),
    "shrinking.bandwidth": Consequence(roughness, 0.36624964, DOWN),
    "shrinking.most_keys": Consequence(centre_of_layers, 0.69444444, DOWN),
    "shrinking.centre": Consequence(centre_without_evidence, 0.41666667, UP),
    "shrinking.likelier": Consequence(halves_with_a_top, 11, DOWN),
    "shrinking.spread": Consequence(lambda s: spread_of(s, (-0.9, 0.0, 0.9), 3000), 0.45, UP),
    "shrinking.dense": Consequence(crowds_with_common_keys, 4, DOWN),
    "shrinking.sharp": Consequence(top_of_noise, 0.34946373, UP),
    "shrinking.concentrated": Consequence(crowds_with_a_top, 3, DOWN),
    "shrinking.spreads": Consequence(lambda s: spread_of(s, (-0.95, 0.95) * 20, 10**6), 1, UP),
}


@cache
def seen(bench, name, tried=None):
    """What is observed with the number as it is, halved or doubled."""
    tuning = OWN
    if tried is not None:
        value = bench.scaled(name, bench.numbers(OWN)[name], bench.FACTORS[tried])
        tuning = bench.changed(OWN, name, value)
    with bench.on_trial(tuning) as version:
        return float(CONSEQUENCES[name].observe(Scene(tuning, version)))


def test_every_number_has_a_consequence_and_rows_of_the_table(bench):
    names = set(bench.numbers(OWN))
    assert set(CONSEQUENCES) == names
    with bench.RESULTS.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["number"] for row in rows} == names
    assert all(row["is"] == bench.text_of(bench.numbers(OWN)[row["number"]]) for row in rows)
    assert {row["people"] for row in rows} == set(bench.crowds())
    # All others reach the estimates or the notes of somebody in the table.
    assert names - {row["number"] for row in rows if float(row["otherwise"])} == QUIET


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_a_number_has_the_consequence_that_is_recorded(bench, name):
    assert seen(bench, name) == pytest.approx(CONSEQUENCES[name].recorded, rel=1e-6)


@pytest.mark.parametrize("name", CONSEQUENCES)
@pytest.mark.parametrize("tried", ["halved", "doubled"])
def test_half_or_twice_a_number_is_noticed(bench, name, tried):
    now, then = seen(bench, name), seen(bench, name, tried)
    assert then != pytest.approx(now, rel=1e-5)
    assert (then > now) == (CONSEQUENCES[name].goes == (UP if tried == "doubled" else DOWN))
