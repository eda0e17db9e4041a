import math
from fractions import Fraction

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.audit import certify_protocol
from keyveil.client import Reporter
from keyveil.errors import CampaignError, MechanismError, ProtocolError, Refusal, ReportRejected
from keyveil.mechanisms import BroadcastIndex
from keyveil.methods import METHODS, has_several_rounds, mechanism_of
from keyveil.numerics import epsilon_above
from keyveil.protocols import Outcome, Round, build_protocol, split_groups, total_loss
from keyveil.release import release_outcome
from keyveil.simulate import Population, draw_tally, insecure_generator, play, synthetic
from keyveil.simulate.apps import APPS, app_minutes
from keyveil.tally import Tally
from keyveil.testing import Z

SEVERAL_ROUNDS = [name for name in METHODS if has_several_rounds(name)]


def one_key(n, f, m):
    """A share f of n users holds the only key, with signs of mean m."""
    holders = np.arange(round(f * n))
    values = np.sign(np.linspace(-1, 1, holders.size) + m)
    return Population.from_pairs(holders, np.zeros_like(holders), values, n_users=n, names=["k"])


# --- every protocol ---


@pytest.mark.parametrize("name", METHODS)
def test_every_method_plays_to_its_end_and_repeats_itself(name):
    people = synthetic(users=3000, keys=12, pairs_per_user=3, seed=2)
    protocol = build_protocol(name, 2, n_keys=12, pairs_per_user=3)
    one, two = (play(protocol, people, insecure_generator(4)) for _ in range(2))
    assert np.array_equal(one.raw.frequency, two.raw.frequency)
    assert one.published.frequency.size == 12
    assert np.nanmax(np.abs(one.published.mean)) <= 1
    assert 1 <= one.rounds <= len(protocol.stages())


@pytest.mark.parametrize("name", SEVERAL_ROUNDS)
def test_rounds_never_lose_more_than_the_stages_that_were_certified(name):
    people = synthetic(users=3000, keys=6, pairs_per_user=2, seed=2)
    protocol = build_protocol(name, 2, n_keys=6, pairs_per_user=2)
    losses = {stage.number: stage.mechanism.loss for stage in protocol.stages()}
    step, rng = protocol.start("c"), insecure_generator(1)
    history = []
    while isinstance(step, Round):
        assert step.mechanism.loss <= losses[step.number]
        asked = people if step.keys is None else people.restrict(np.array(step.keys))
        history.append((step, draw_tally(step.mechanism, asked, rng, question=step.question)))
        step = protocol.next(history)


def test_registries_agree_on_rounds_and_reports():
    for name in METHODS:
        stages = build_protocol(name, 1, n_keys=4, pairs_per_user=2).stages()
        if name == "privkvm-virtual":
            assert has_several_rounds(name)
            continue
        assert (len(stages) > 1) == has_several_rounds(name)
        if not has_several_rounds(name):
            assert stages[0].mechanism.id == mechanism_of(name)


@pytest.mark.parametrize("name", METHODS)
def test_tallies_of_other_rounds_and_campaigns_are_refused(name):
    protocol = build_protocol(name, 2, n_keys=6, pairs_per_user=2)
    first = protocol.start("mine")
    people = synthetic(users=50, keys=6, seed=1)
    for question in ("other/1", "mine/2", "mine"):
        tally = draw_tally(first.mechanism, people, insecure_generator(1), question=question)
        with pytest.raises(ProtocolError, match="expected a tally of round 1"):
            protocol.next([(first, tally)])


def test_a_round_of_another_protocol_is_refused():
    one, other = (build_protocol(name, 1, n_keys=3) for name in ("privkvm", "privkvm-plus"))
    tally = Tally.of(question="c/1", n_reports=1, plus=[1, 0, 0], minus=[0, 0, 0], asked=[1, 0, 0])
    with pytest.raises(ProtocolError, match='expected a round of "privkvm-plus/1", got one of "privkvm/1"'):
        other.next([(one.start("c"), tally)])


def test_a_stale_round_does_not_take_a_later_tally_and_answering_twice_changes_nothing():
    protocol = build_protocol("privkvm", 2, n_keys=3, rounds=3)
    people, rng = synthetic(users=500, keys=3, seed=1), insecure_generator(1)
    first = protocol.start("c")
    tally = draw_tally(first.mechanism, people, rng, question=first.question)
    second = protocol.next([(first, tally)])
    assert protocol.next([(first, tally)]) == second
    later = draw_tally(second.mechanism, people, rng, question=second.question)
    with pytest.raises(ProtocolError, match="is the round stale"):
        protocol.next([(first, later)])
    with pytest.raises(ProtocolError, match="was it counted already"):
        protocol.next([(first, tally), (second, tally)])
    with pytest.raises(ProtocolError, match="expected round 1, got round 2"):
        protocol.next([(second, later)])


def empty(round):
    people = Population.from_pairs(
        np.array([], dtype=np.int64),
        np.array([], dtype=np.int64),
        np.array([]),
        n_users=0,
        names=[str(k) for k in range(round.mechanism.n_keys)],
    )
    return draw_tally(round.mechanism, people, insecure_generator(1), question=round.question)


# auto goes on without its small groups: tests/protocols/test_auto.py.
@pytest.mark.parametrize("name", [name for name in SEVERAL_ROUNDS if name != "auto"])
def test_a_first_round_without_reports_is_refused(name):
    protocol = build_protocol(name, 2, n_keys=6, pairs_per_user=2)
    first = protocol.start("c")
    with pytest.raises(ProtocolError, match="has no reports, and no earlier round stands in"):
        protocol.next([(first, empty(first))])


@pytest.mark.parametrize(
    ("name", "words"), [("privkvm", "means of round 1 stand"), ("privkvm-star", "first phase stands")]
)
def test_a_later_round_without_reports_leaves_the_one_before_and_says_so(name, words):
    protocol = build_protocol(name, 4, n_keys=3)
    people, rng = synthetic(users=20_000, keys=3, seed=1), insecure_generator(1)
    first = protocol.start("c")
    history = [(first, draw_tally(first.mechanism, people, rng, question=first.question))]
    outcome = second = protocol.next(history)
    while isinstance(outcome, Round):
        assert outcome.number == 2 or outcome.mechanism.levels == second.mechanism.levels
        history.append((outcome, empty(outcome)))
        outcome = protocol.next(history)
    assert words in outcome.notes[0]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("privkvm", {"rounds": 0}, "at least one round, got 0"),
        ("privkvm-virtual", {"virtual": -1}, "no fewer than 0 virtual rounds"),
        ("privkvm-plus", {"max_rounds": 0}, "expected a round or more"),
        ("ks-grr", {"shares": ("0.4", "0.1", "0.6")}, "sum to 1, got 0.4, 0.1, 0.6"),
        ("ks-grr", {"shares": ("0.5", "0.5")}, "expected 3 group shares, got 2"),
        ("ks-grr", {"top": 0}, "top and largest_size must be at least 1"),
        ("privkvm-star", {"bins": 1}, "bins must be at least 2"),
        ("privkvm-star", {"bins": 1, "oracle": "oue"}, "bins must be at least 2"),
        ("privkvm-star", {"oracle": "olh"}, 'oracle must be one of grr, oue, got "olh"'),
        ("privkvm-star", {"share": "1"}, r"must be in \(0, 1\)"),
        ("ue-sw", {"bins": 1}, "bins must be at least 2"),
        ("privkvm", {"roundz": 3}, "no such option: 'roundz'"),
        ("pckv-ue", {"rounds": 3}, "no such option: 'rounds'"),
        ("privkvm:naive", {}, 'has no allocation "naive"'),
    ],
)
def test_parameters_that_leave_no_round_are_refused(name, options, message):
    with pytest.raises((ProtocolError, MechanismError), match=message):
        build_protocol(name, 1, n_keys=5, pairs_per_user=2, **options)


def test_groups_are_disjoint_and_total_loss_is_that_of_the_worst_place():
    assert split_groups(("0.4", "0.1", "0.5")) == [
        (Fraction(0), Fraction(2, 5)),
        (Fraction(2, 5), Fraction(1, 2)),
        (Fraction(1, 2), Fraction(1)),
    ]
    stages = build_protocol("ks-grr", 1, n_keys=50, pairs_per_user=3).stages()
    assert total_loss(stages) == max(stage.mechanism.loss for stage in stages)
    rounds = build_protocol("privkvm", 1, n_keys=5, rounds=3).stages()
    assert total_loss(rounds) == math.prod(stage.mechanism.loss for stage in rounds)


# --- PrivKVM and its kin ---


@pytest.mark.parametrize("rounds", [1, 2, 6])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_privkvm_spends_what_the_tight_composition_says(epsilon, rounds):
    coins = build_protocol("privkvm", epsilon, n_keys=3, rounds=rounds)
    sign = epsilon / (2 * rounds)
    tight = epsilon / 2 + math.log(2 / (1 + math.exp(-sign))) + (rounds - 1) * sign
    assert certify_protocol(coins).epsilon == pytest.approx(tight, abs=1e-9)
    told = build_protocol("privkvm", epsilon, n_keys=3, rounds=rounds, broadcast=True)
    assert certify_protocol(told).epsilon == pytest.approx(epsilon, abs=1e-9)
    assert certify_protocol(told).epsilon <= epsilon


@pytest.mark.statistical
def test_privkvm_approaches_the_truth_as_slowly_as_its_expectation_says():
    """f = 0.05, epsilon = 4, six rounds: the mean of 0.8 is still 0.354."""
    outcome = play(
        build_protocol("privkvm", 4, n_keys=1, rounds=6), one_key(2_000_000, 0.05, 0.8), insecure_generator(3)
    )
    assert abs(outcome.raw.mean[0] - 0.354) < Z * 1.5 * outcome.raw.mean_se[0]
    assert outcome.raw.frequency[0] == pytest.approx(0.05, abs=Z * outcome.raw.frequency_se[0])


@pytest.mark.statistical
def test_virtual_rounds_debias_where_real_ones_have_not_arrived():
    people = one_key(1_000_000, 0.3, 0.8)
    real = play(build_protocol("privkvm", 2, n_keys=1, rounds=1), people, insecure_generator(1))
    virtual = play(build_protocol("privkvm-virtual", 2, n_keys=1, virtual=50), people, insecure_generator(1))
    assert real.raw.mean[0] < 0.6
    assert virtual.raw.mean[0] == pytest.approx(0.8, abs=0.05)


def test_privkvm_plus_never_spends_more_than_epsilon_and_the_printed_update_does():
    protocol = build_protocol("privkvm-plus", 1, n_keys=3)
    assert sum(protocol.budgets()) < 1
    assert epsilon_above(total_loss(protocol.stages())) <= 1
    printed, last = [], Fraction(0)
    for _ in range(3):
        last = (1 - last) / 2
        printed.append(last)
    levels = (2**63,) * 3
    spent = math.prod(BroadcastIndex.for_budgets(b / 2, b / 2, levels=levels).loss for b in printed)
    assert sum(printed) == Fraction(9, 8)
    assert epsilon_above(spent) > 1.12


@pytest.mark.statistical
def test_privkvm_plus_stops_when_the_means_move_apart():
    people = synthetic(users=100_000, keys=100, seed=3)
    outcome = play(build_protocol("privkvm-plus", 1, n_keys=100), people, insecure_generator(2))
    assert 2 <= outcome.rounds < 6
    assert outcome.notes[0] == f"round {outcome.rounds} moved the means apart; its means are not used"


@pytest.mark.parametrize("name", ["privkvm", "privkvm-plus", "privkvm-virtual", "krr-harmony", "oue-harmony"])
def test_biased_means_claim_no_interval(name):
    people = synthetic(users=20_000, keys=3, seed=1)
    outcome = play(build_protocol(name, 4, n_keys=3), people, insecure_generator(1))
    low, high = outcome.raw.mean_interval()
    assert (low == -1).all()
    assert (high == 1).all()
    assert "means are biased" in outcome.notes[-1]
    honest = play(build_protocol("pckv-ue", 4, n_keys=3), people, insecure_generator(1))
    assert honest.raw.mean_interval()[1][0] - honest.raw.mean_interval()[0][0] < 1
    assert honest.notes == ()


# --- KS-GRR ---


@pytest.mark.statistical
@pytest.mark.parametrize("l", [1, 3])
def test_ks_grr_divides_by_p_minus_q(l):
    """True mean 0.8; the printed p + q would make 0.37 of it at epsilon 1."""
    rng, n = insecure_generator(1), 400_000
    codes = rng.integers(0, 10, n)
    people = Population.from_pairs(
        np.arange(n), codes, np.where(rng.random(n) < 0.9, 1.0, -1.0), n_users=n, names=list("abcdefghij")
    )
    outcome = play(build_protocol("ks-grr", 1, n_keys=10, pairs_per_user=l, top=5), people, rng)
    assert outcome.raw.mean == pytest.approx(people.mean(), abs=float(Z * outcome.raw.mean_se.max()))
    assert abs(outcome.raw.mean.mean() - 0.8) < 0.1
    final = build_protocol("ks-grr", 1, n_keys=10, top=5).stages()[-1].mechanism.channel
    printed = (final.keep - final.fake) / (final.keep + final.fake)
    assert printed * 0.8 == pytest.approx(0.37, abs=5e-3)


def test_ks_grr_finds_the_popular_keys_and_leaves_the_rest_unmeasured():
    people = synthetic(users=50_000, keys=200, pairs_per_user=2, skew=1.5, seed=4)
    outcome = play(
        build_protocol("ks-grr", 4, n_keys=200, pairs_per_user=2, top=5), people, insecure_generator(2)
    )
    measured = np.isfinite(outcome.raw.frequency_se)
    assert measured.sum() == 10
    assert measured[:3].all()
    assert (outcome.raw.frequency[~measured] == 0).all()
    assert np.isnan(outcome.raw.mean[~measured]).all()


def test_ks_grr_without_a_size_group_keeps_the_length_asked_for():
    protocol = build_protocol("ks-grr", 2, n_keys=6, pairs_per_user=3)
    people = synthetic(users=2000, keys=6, pairs_per_user=3, seed=1)
    first = protocol.start("c")
    history = [(first, draw_tally(first.mechanism, people, insecure_generator(1), question=first.question))]
    sizes = protocol.next(history)
    history.append((sizes, empty(sizes)))
    final = protocol.next(history)
    assert final.mechanism.pairs_per_user == 3
    asked = people.restrict(np.array(final.keys))
    history.append(
        (final, draw_tally(final.mechanism, asked, insecure_generator(2), question=final.question))
    )
    assert "nobody told a size" in protocol.next(history).notes[0]


# --- PrivKVM* ---


@pytest.mark.statistical
@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_star_recovers_frequencies_means_and_boundaries(oracle):
    people = Population.from_pairs(
        np.arange(160_000),
        np.zeros(160_000, dtype=np.int64),
        np.linspace(-0.2, 0.8, 160_000),
        n_users=400_000,
        names=["k", "unused"],
    )
    outcome = play(
        build_protocol("privkvm-star", 4, n_keys=2, bins=9, oracle=oracle), people, insecure_generator(3)
    )
    assert outcome.raw.frequency[0] == pytest.approx(0.4, abs=Z * outcome.raw.frequency_se[0])
    assert outcome.raw.mean[0] == pytest.approx(0.3, abs=0.05)
    assert outcome.distribution.shares[0].sum() == pytest.approx(1)


# --- baselines ---


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["krr-harmony", "rappor-harmony", "oue-harmony"])
def test_perturbing_apart_keeps_frequencies_and_loses_the_tie_to_the_key(name):
    rng, n = insecure_generator(2), 500_000
    codes = rng.choice(20, size=n, p=np.arange(1, 21) / 210)
    people = Population.from_pairs(
        np.arange(n), codes, codes / 10 - 0.95, n_users=n, names=[str(k) for k in range(20)]
    )
    outcome = play(build_protocol(name, 2, n_keys=20), people, rng)
    together = play(build_protocol("pckv-ue", 2, n_keys=20), people, rng)
    off = (outcome.raw.frequency - people.frequency()) / outcome.raw.frequency_se
    assert np.abs(off).max() < Z
    assert np.ptp(outcome.raw.mean) < 0.75 * np.ptp(people.mean())
    apart, tied = (np.mean((o.raw.mean - people.mean()) ** 2) for o in (outcome, together))
    assert apart > 5 * tied


# --- over the real client ---


def drive(campaign, people, seed=1):
    """Every round by real reports of the users in its group; returns the outcome and the tallies."""
    protocol, reporter = campaign.protocol(), Reporter(campaign)
    places = insecure_generator(seed).random(len(people))
    step, tallies, rounds = protocol.start(campaign.id), [], []
    while isinstance(step, Round):
        group = [
            held for held, place in zip(people, places, strict=True) if step.group[0] <= place < step.group[1]
        ]
        reports = [reporter.report(held, step) for held in group]
        rounds.append(step)
        tallies.append(campaign.tally(reports[:50], round=step) + campaign.tally(reports[50:], round=step))
        step = protocol.next(list(zip(rounds, tallies, strict=True)))
    return protocol, step, tallies


@pytest.mark.parametrize("mechanism", SEVERAL_ROUNDS)
def test_protocols_run_over_real_reports(mechanism):
    campaign = Campaign(
        name="apps", epsilon=6.0, keys=APPS, value_range=(0, 120), pairs_per_user=3, mechanism=mechanism
    )
    protocol, outcome, tallies = drive(campaign, app_minutes(users=1500))
    assert isinstance(outcome, Outcome)
    assert len({tally.question for tally in tallies}) == len(tallies)
    release = release_outcome(campaign, protocol, outcome, post="published")
    assert release.metadata["epsilon_exact"] <= 6.0
    assert release.metadata["rounds"] == len(tallies)
    assert len(release.rows()) == 50


@pytest.mark.parametrize("mechanism", [m for m in METHODS if m not in SEVERAL_ROUNDS])
def test_one_round_campaigns_release_what_they_can(mechanism):
    campaign = Campaign(
        name="apps", epsilon=4.0, keys=APPS[:8], value_range=(0, 120), pairs_per_user=2, mechanism=mechanism
    )
    reporter = Reporter(campaign)
    release = campaign.estimate(campaign.tally(reporter.report(held) for held in app_minutes(users=400)))
    row = release.rows()[0]
    # What a person reads lies inside its range, so an estimate of 0 is the end of its interval.
    assert row["frequency_low"] <= row["frequency"] <= row["frequency_high"] != row["frequency_low"]
    if METHODS[mechanism].gives_distribution:
        assert len(row["bins"]) == len(release.metadata["bins"]) == 17
        assert release.to_csv().splitlines()[0].endswith("bin_high_16")
        assert release.to_arrow().column("bins").to_pylist()[0] == row["bins"]


def test_a_device_must_be_told_the_open_round():
    campaign = Campaign(
        name="apps",
        epsilon=4.0,
        keys=APPS,
        value_range=(0, 120),
        pairs_per_user=2,
        mechanism="privkvm",
        rounds=2,
    )
    reporter = Reporter(campaign)
    with pytest.raises(CampaignError, match="several rounds; pass the open round"):
        reporter.report({})
    protocol = campaign.protocol()
    first = protocol.start(campaign.id)
    reports = [reporter.report({}, first) for _ in range(40)]
    with pytest.raises(ProtocolError, match="goes on with round 2"):
        campaign.estimate(campaign.tally(reports))
    second = protocol.next([(first, campaign.tally(reports, round=first))])
    with pytest.raises(ReportRejected, match="answers round 1, this is round 2") as refusal:
        campaign.tally(reports, round=second)
    assert refusal.value.code is Refusal.WRONG_ROUND
