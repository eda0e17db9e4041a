"""Plans: crowds, choices, and that solving undoes predicting."""

import math
from dataclasses import replace

import numpy as np
import pytest

from keyveil.errors import DomainError, KeyveilError, MechanismError, PlanError
from keyveil.estimate import detectable_frequency
from keyveil.estimate.sizes import SizeLaw, Truncation
from keyveil.mechanisms import build
from keyveil.plan import Central, Crowd, best, candidates, even_sizes, lengths, make_plan, options
from keyveil.plan.choice import Choosing, promise
from keyveil.plan.draft import draft_plan
from keyveil.plan.solve import guess_in_words
from keyveil.shuffle import keeps


def crowd_of(users=50_000, keys=100, pairs=1, skew=1.0):
    law = SizeLaw(sizes=np.arange(1.0, pairs + 1), shares=np.full(pairs, 1 / pairs))
    return Crowd(users=users, n_keys=keys, law=law, skew=skew)


# --- the crowd ---


@pytest.mark.parametrize("keys", [1, 2, 100, 5000, 300_000])
@pytest.mark.parametrize("pairs", [1, 4])
@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_frequencies_descend_and_add_up_to_the_pairs_of_a_user(keys, pairs, skew):
    crowd = crowd_of(keys=keys, pairs=min(keys, pairs), skew=skew)
    assert crowd.counts.sum() == pytest.approx(keys)
    held = crowd.frequency @ crowd.counts
    assert held == pytest.approx(min(crowd.law.mean, 0.999 * keys), rel=2e-3)
    assert np.all(np.diff(crowd.frequency) <= 1e-15)
    assert crowd.frequency.max() <= 1 + 1e-9
    assert crowd.at_ranks(np.array([1.0])) == pytest.approx(crowd.frequency[:1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"users": 0}, "at least one user and one key, got 0 and 5"),
        ({"n_keys": 0}, "at least one user and one key"),
        ({"skew": -0.5}, "skew must be a number from 0 on, got -0.5"),
        ({"skew": math.nan}, "skew must be a number from 0 on, got nan"),
        ({"skew": math.inf}, "skew must be a number from 0 on, got inf"),
    ],
)
def test_crowds_that_are_none_are_refused(wrong, message):
    with pytest.raises(DomainError, match=message):
        Crowd(**{"users": 10, "n_keys": 5, "law": SizeLaw.exactly(1)} | wrong)


# --- the choice ---


def test_lengths_cover_all_but_one_in_a_thousand():
    assert lengths(SizeLaw.exactly(1)) == [1]
    assert lengths(SizeLaw.exactly(0)) == [1]
    assert lengths(SizeLaw.exactly(3)) == [1, 2, 3]
    assert 100 <= 1.33 * lengths(SizeLaw.exactly(100))[-1] <= 133
    rare = SizeLaw(sizes=np.array([2.0, 500.0]), shares=np.array([0.9995, 0.0005]))
    assert lengths(rare) == [1, 2]


def test_dense_records_over_few_keys_are_asked_one_key_and_sparse_ones_hashed():
    dense = Crowd(users=50_000, n_keys=100, law=SizeLaw.exactly(72), skew=0.3)
    sparse = crowd_of(keys=5000)
    for want in ("frequency", "mean", "both"):
        chosen = best(1, dense, at=dense.at_ranks(np.arange(1.0, 10)), reports=50_000, want=want)
        assert chosen.mechanism.id == "kvue"
        chosen = best(1, sparse, at=sparse.at_ranks(np.arange(1.0, 10)), reports=50_000, want=want)
        assert chosen.mechanism.id == "bucket"


def test_the_choice_is_the_least_of_all_options():
    crowd = crowd_of(pairs=6)
    at = crowd.at_ranks(np.arange(1.0, 10))
    for want in ("frequency", "mean"):
        rho = 1.0 if want == "frequency" else 0.0
        scores = [each.score(want) for each in options(1, crowd, at=at, reports=5000, rho=rho)]
        assert best(1, crowd, at=at, reports=5000, want=want).score(want) == min(scores)


def test_keys_alone_are_asked_where_frequencies_are_wanted_and_that_promises_less():
    def chosen(want="frequency", keys=20, pairs=1, **numbers):
        crowd = crowd_of(keys=keys, pairs=pairs)
        at = crowd.at_ranks(np.arange(1.0, 10))
        return best(2, crowd, at=at, reports=5000, want=want, tuning=Choosing(**numbers))

    alone = chosen()
    assert alone.mechanism.id == "subset"
    crowd = crowd_of(keys=20)
    at = crowd.at_ranks(np.arange(1.0, 10))
    variance = np.mean([alone.mechanism.variance(float(f), 5000, 5000) for f in at])
    assert alone.frequency_error == pytest.approx(variance)
    assert alone.frequency_error < min(
        each.frequency_error for each in options(2, crowd, at=at, reports=5000, rho=1.0)
    )
    assert alone.mean_error == pytest.approx(1 / 3)
    # Cut to one pair, long records lose too much; and who wants means, or has many keys, is asked otherwise.
    for other in (chosen(pairs=6), chosen("mean"), chosen("both"), chosen(keys=1001), chosen(own_keys=19)):
        assert other.mechanism.id != "subset"
    assert chosen(own_keys=20).mechanism == alone.mechanism


def test_promises_shrink_with_reports_and_know_keys_that_nobody_holds():
    cut = Truncation(law=SizeLaw.exactly(4), l=4)
    m = build("bucket", 1, n_keys=10, pairs_per_user=4)
    at = np.array([0.1, 0.3])
    few, many = (promise(m, cut, at, reports) for reports in (1e3, 1e5))
    assert many.frequency_error == pytest.approx(few.frequency_error / 100)
    assert many.mean_error < few.mean_error < 1 / 3
    nobody = promise(m, cut, np.zeros(2), 1e5)
    assert nobody.mean_error == pytest.approx(1 / 3)
    tied = promise(build("bucket", 1, n_keys=10, pairs_per_user=4, rho=1), cut, at, 1e5)
    assert tied.mean_error == pytest.approx(1 / 3)
    assert tied.frequency_error < many.frequency_error


# --- predictions ---


def test_predictions_are_the_mechanisms_own_moments():
    crowd = crowd_of()
    for candidate in candidates(1, crowd, want="frequency", at=None):
        told = candidate.predict(crowd)
        asked = crowd.users / 100 if candidate.moments.drawn else crowd.users
        noise = candidate.moments.covariance(crowd.frequency, 0.0, asked).frequency
        assert told.frequency_rmse == pytest.approx(math.sqrt(noise.mean()), rel=1e-6)
        assert told.detectable_frequency == pytest.approx(detectable_frequency(candidate.moments, asked, 100))
        assert told.bits_per_report == 8 * candidate.mechanism.layout.n_bytes
        assert 0 <= told.precision_top <= 1
        at = candidate.frequency_rmse(crowd, 0.05)
        assert at == pytest.approx(math.sqrt(candidate.moments.covariance(0.05, 0.0, asked).frequency))


def test_candidates_come_best_first_with_their_best_length():
    crowd = crowd_of(pairs=5)
    for want in ("frequency", "mean", "distribution"):
        errors = [each.error(crowd, want, None, 50) for each in candidates(1, crowd, want=want, at=None)]
        assert errors == sorted(errors)
        assert np.isfinite(errors).all()
    hashed = candidates(1, crowd, want="frequency", at=None)[0]
    assert hashed.label == "bucket rho=1"
    for l in lengths(crowd.law):
        other = build("bucket", 1, n_keys=100, pairs_per_user=l, rho=1)
        alike = replace(hashed, mechanism=other)
        assert alike.frequency_rmse(crowd, None) >= hashed.frequency_rmse(crowd, None) - 1e-12


def test_errors_shrink_with_users_and_epsilon_and_names_can_be_built():
    for want in ("frequency", "mean", "distribution"):
        errors = [
            make_plan(crowd_of(users), epsilon=epsilon, users=users, want=want).error
            for users, epsilon in ((10_000, 1.0), (100_000, 1.0), (100_000, 3.0))
        ]
        assert errors[0] > errors[1] > errors[2]
    for prediction in make_plan(crowd_of(pairs=3), epsilon=1.0, users=10_000).candidates:
        build(prediction.mechanism, 1, n_keys=100, pairs_per_user=3, **prediction.options)


def test_one_key_one_user_and_many_keys_are_planned():
    for crowd in (crowd_of(1, 1), crowd_of(1000, 1), crowd_of(100, 200_000), crowd_of(1000, 2, 2)):
        for want in ("frequency", "mean", "distribution"):
            plan = make_plan(crowd, epsilon=1.0, users=crowd.users, want=want)
            assert plan.error > 0
            assert plan.is_met


def test_an_unknown_wish_is_refused():
    with pytest.raises(MechanismError, match='want must be one of frequency, mean, distribution, got "both"'):
        candidates(1, crowd_of(), want="both", at=None)


# --- solving ---


SETTINGS = [
    ("frequency", None, 1, 0.004),
    ("frequency", None, 8, 0.004),
    ("frequency", 0.02, 1, 0.003),
    ("mean", None, 1, 0.3),
    ("mean", 0.1, 4, 0.05),
    ("distribution", 0.1, 1, 0.05),
]


@pytest.mark.parametrize(("want", "at", "pairs", "error"), SETTINGS)
def test_solved_users_reach_the_error_and_fewer_do_not(want, at, pairs, error):
    crowd = crowd_of(pairs=pairs)
    plan = make_plan(crowd, epsilon=1.0, users=None, error=error, want=want, at=at)
    users = plan.choice.users
    assert plan.is_met
    assert plan.error == pytest.approx(error, rel=5e-3)
    again = make_plan(crowd, epsilon=1.0, users=users, want=want, at=at)
    assert again.error == plan.error
    fewer = make_plan(crowd, epsilon=1.0, users=int(0.99 * users), want=want, at=at)
    assert fewer.error > error
    assert f"{users:,} users are enough" in plan.words[0]


@pytest.mark.parametrize(("want", "at", "pairs", "error"), SETTINGS[:3])
def test_solved_epsilon_reaches_the_error_and_less_does_not(want, at, pairs, error):
    crowd = crowd_of(200_000, pairs=pairs)
    plan = make_plan(crowd, epsilon=None, users=200_000, error=error, want=want, at=at)
    epsilon = plan.choice.epsilon
    assert plan.is_met
    assert plan.error == pytest.approx(error, rel=0.01)
    assert make_plan(crowd, epsilon=0.98 * epsilon, users=200_000, want=want, at=at).error > error
    assert f"epsilon {epsilon:g} is enough" in plan.words[0]


def test_users_and_epsilon_are_solved_alike():
    crowd = crowd_of()
    by_users = make_plan(crowd, epsilon=1.0, users=None, error=0.003)
    by_epsilon = make_plan(crowd, epsilon=None, users=by_users.choice.users, error=0.003)
    assert by_epsilon.choice.epsilon == pytest.approx(1.0, rel=5e-3)
    assert make_plan(crowd, epsilon=None, users=10**7, error=0.5).choice.epsilon == 0.05


def test_three_wishes_are_answered_by_predicted_against_wanted():
    crowd = crowd_of()
    met = make_plan(crowd, epsilon=2.0, users=10**6, error=0.01)
    assert met.is_met
    assert met.words[0].endswith(": met")
    missed = make_plan(crowd, epsilon=1.0, users=10_000, error=0.002)
    assert not missed.is_met
    assert "not met; it would take 9" in missed.words[0]
    assert "users or epsilon 4." in missed.words[0]
    hopeless = make_plan(crowd, epsilon=1.0, users=100, error=1e-7)
    assert hopeless.words[0].endswith("it would take more users and a larger epsilon")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": None, "users": None}, "give at least users or epsilon"),
        ({"epsilon": None, "users": 10}, "to solve for epsilon, say which error is wanted"),
        ({"epsilon": 1.0, "users": None}, "to solve for users, say which error is wanted"),
        ({"epsilon": 1.0, "users": 10, "error": 0.0}, "between 0 and 1, got 0"),
        ({"epsilon": 1.0, "users": 10, "error": math.nan}, "between 0 and 1, got nan"),
        ({"epsilon": 1.0, "users": 10, "at": 1.5}, "a frequency lies between 0 and 1, got 1.5"),
        ({"epsilon": 1.0, "users": None, "error": 1e-9}, "ask for .* or more, or raise epsilon"),
        ({"epsilon": None, "users": 10, "error": 1e-5}, "it takes more users, or a wanted error of"),
    ],
)
def test_what_cannot_be_planned_says_why_and_what_would(given, message):
    with pytest.raises(PlanError, match=message):
        make_plan(crowd_of(), **given)


def test_an_error_named_as_reachable_is_reachable():
    with pytest.raises(PlanError) as refusal:
        make_plan(crowd_of(pairs=8), epsilon=1.0, users=None, error=1e-9)
    floor = float(str(refusal.value).split("ask for ")[1].split(" or more")[0])
    assert make_plan(crowd_of(pairs=8), epsilon=1.0, users=None, error=floor).is_met


def test_the_effect_of_skew_is_shown_and_what_an_observer_can_guess():
    plan = make_plan(crowd_of(), epsilon=2.0, users=1000)
    assert "if all keys were equally popular" in " ".join(plan.words)
    assert plan.words[-1] == guess_in_words(2.0)
    assert "88 %" in plan.words[-1]
    assert "equally popular" not in " ".join(make_plan(crowd_of(skew=0.0), epsilon=2.0, users=1000).words)


def test_a_bound_on_the_bias_of_cut_records_is_kept_and_holds_the_interval():
    """What an interval of a mechanism of one round does not know of must be small beside it."""
    law = SizeLaw(sizes=np.array([1.0, 2.0, 4.0, 8.0]), shares=np.array([0.4, 0.3, 0.2, 0.1]))
    crowd = Crowd(users=50_000, n_keys=20, law=law, skew=1.0)
    free = {each.name: each for each in candidates(4, crowd, want="frequency", at=None)}
    bound = {each.name: each for each in candidates(4, crowd, want="frequency", at=None, most_bias=1 / 3)}
    assert max(each.bias(crowd) for each in free.values()) > 1, "without a bound some are cut"
    for name, each in bound.items():
        assert each.bias(crowd) <= 1 / 3 or each.length == max(lengths(law)), name
        assert each.length >= free[name].length


def test_a_draft_says_what_is_wanted_where_the_method_heeds_it():
    plan = make_plan(crowd_of(), epsilon=1.0, users=1000, want="mean")
    keys = ["a", "b"]
    assert draft_plan(plan, keys=keys, name="x", value_range=(0.0, 1.0)).want is None
    planned = replace(plan, choice=replace(plan.choice, mechanism="auto", options={}))
    draft = draft_plan(planned, keys=keys, name="x", value_range=(0.0, 1.0))
    assert draft.campaign().want == "mean"
    assert 'want = "mean"                   # what is to be known best' in draft.to_toml().splitlines()


# --- where a relay hides reports ---


HIDDEN = Central(epsilon=1.0, delta=1e-8)
SMALL = Crowd(users=1, n_keys=50, law=even_sizes(3))


def test_every_candidate_has_the_largest_local_epsilon_that_keeps_the_promise():
    plan = make_plan(SMALL, epsilon=None, users=100_000, central=HIDDEN)
    for each in plan.candidates:
        made = build(
            each.mechanism, each.epsilon, n_keys=50, pairs_per_user=each.pairs_per_user, **each.options
        )
        assert keeps(made, 40_000, 1.0, 1e-8), each.mechanism
        more = each.epsilon + 1 / 64
        if each.epsilon < 12:
            made = build(each.mechanism, more, n_keys=50, pairs_per_user=each.pairs_per_user, **each.options)
            assert not keeps(made, 40_000, 1.0, 1e-8), each.mechanism
    said = plan.to_fields()["central"]
    assert (said["epsilon"], said["delta"], said["batch"], said["honest"]) == (1.0, 1e-8, 80_000, 0.5)
    assert said["local_epsilon"] == plan.choice.epsilon
    assert said["frequency_rmse"] == plan.choice.frequency_rmse
    plain = make_plan(SMALL, epsilon=1.0, users=100_000)
    assert said["without_relay"]["frequency_rmse"] == plain.choice.frequency_rmse
    assert said["frequency_rmse"] < said["without_relay"]["frequency_rmse"] / 7


def test_a_batch_or_honest_share_that_is_smaller_allows_less():
    def local(**changes):
        central = HIDDEN._replace(**changes)
        return make_plan(SMALL, epsilon=None, users=100_000, central=central).to_fields()["central"][
            "local_epsilon"
        ]

    assert local(batch=10_000) < local(honest=0.25) < local() < local(honest=1.0)
    assert make_plan(SMALL, epsilon=3.0, users=100_000, central=HIDDEN).choice.epsilon == 3.0


def test_users_are_solved_for_a_local_epsilon_and_for_an_error():
    plan = make_plan(SMALL, epsilon=6.0, users=None, central=HIDDEN)
    mechanism, hidden = build("bucket", 6.0, n_keys=50), plan.choice.users * 4 // 10
    assert keeps(mechanism, hidden, 1.0, 1e-8)
    assert not keeps(mechanism, hidden * 99 // 100, 1.0, 1e-8)
    wanted = make_plan(SMALL, epsilon=None, users=None, error=0.005, central=HIDDEN)
    assert wanted.error <= 0.005
    fewer = make_plan(SMALL, epsilon=None, users=wanted.choice.users * 97 // 100, central=HIDDEN)
    assert fewer.error > 0.005


@pytest.mark.parametrize(
    ("changes", "asked", "what"),
    [
        ({}, {"users": None}, "give users"),
        ({"batch": 200}, {"users": 100}, "never fill a batch of 200"),
        ({"honest": 0.0}, {"users": 100}, "honest share"),
        ({"epsilon": 0.0}, {"users": 100}, "central epsilon"),
        ({"delta": 1.0}, {"users": 100}, "delta"),
        ({"batch": 1}, {"users": 100}, "at least 2"),
    ],
)
def test_promises_that_cannot_be_planned_are_refused(changes, asked, what):
    with pytest.raises(KeyveilError, match=what):
        make_plan(SMALL, epsilon=None, central=HIDDEN._replace(**changes), **asked)
