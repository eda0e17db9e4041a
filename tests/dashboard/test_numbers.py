"""The Python behind the pages: lies, ranks, labels, plans, files."""

import gzip
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from collecting import drawn_tally, make_question
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keyveil.audit import largest_promised
from keyveil.collector.campaigns.campaigns import read_campaign
from keyveil.dashboard.assets import HEADERS, answer, assets
from keyveil.dashboard.planning import MOST_KEYS, MOST_PAIRS, PlanQuestion
from keyveil.dashboard.planning import _crowd as crowd_of
from keyveil.dashboard.planning import answer as planned
from keyveil.dashboard.precision import Telling, noise_per_report, telling
from keyveil.dashboard.privacy import promise
from keyveil.dashboard.reach import reach
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import PlanError
from keyveil.estimate import estimate, lever
from keyveil.estimate.intervals import _ranges_by_pairs, rank_ranges
from keyveil.mechanisms import build
from keyveil.plan import candidates
from keyveil.simulate import draw_tally, insecure_generator, synthetic
from keyveil.tally import Tally


@pytest.mark.parametrize("name", ["pckv-ue", "pckv-grr", "ks-ue", "kvue", "privkv", "bucket", "levels"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
def test_what_liars_could_do_is_the_bound_of_the_mechanism_number_for_number(name, share):
    campaign = make_question(name, pairs_per_user=1, value_range=(10.0, 70.0))
    release = campaign.estimate(drawn_tally(campaign))
    found, pull, raw = reach(release, share), lever(campaign.build()), release.raw
    moved = pull.shift(raw.frequency, raw.mean, share)
    assert found.codes == sorted(range(40), key=lambda code: -raw.frequency[code])[:30]
    for place, code in enumerate(found.codes):
        assert found.frequency_low[place] == raw.frequency[code] - moved.frequency_down[code]
        assert found.frequency_high[place] == raw.frequency[code] + moved.frequency_up[code]
        mean = 40 + 30 * np.clip(np.nan_to_num(raw.mean[code]), -1, 1)
        assert found.mean_low[place] == mean - 30 * moved.mean_down[code]
        assert found.mean_high[place] == mean + 30 * moved.mean_up[code]
        assert 10 - 1e-9 <= found.mean_low[place] <= found.mean_high[place] <= 70 + 1e-9
        if share == 0.01:
            larger = max(moved.frequency_down[code], moved.frequency_up[code])
            assert release.columns["frequency_hostile"][code] == larger


def test_where_no_bound_is_known_none_is_claimed():
    campaign = make_question()
    release = replace(campaign.estimate(drawn_tally(campaign)), raw=None)
    assert reach(release, 0.01).codes == []
    campaign = make_question("ue-sw", bins=8)
    spread = reach(campaign.estimate(drawn_tally(campaign)), 0.01)
    assert np.isnan(spread.mean_low).all()


@pytest.mark.parametrize("name", ["pckv-ue", "pckv-grr", "ks-ue", "bucket", "kvue"])
def test_ranks_by_halving_are_those_of_all_pairs(name):
    people = synthetic(users=20_000, keys=60, seed=3)
    mechanism = build(name, 3, n_keys=60)
    raw = estimate(mechanism, draw_tally(mechanism, people, insecure_generator(4)))
    for moments in (mechanism.moments, None):
        quick, slow = rank_ranges(raw, moments), _ranges_by_pairs(raw, moments, 0.95)
        assert (quick.best == slow.best).all()
        assert (quick.worst == slow.worst).all()
        assert (quick.best <= quick.worst).all()


def test_results_are_the_release_number_for_number():
    campaign = make_question(pairs_per_user=1, epsilon=3.0)
    tally = drawn_tally(campaign, users=5_000)
    for post in ("none", "clip", "shrink"):
        shown = json.loads(
            gzip.decompress(pack(make_results(campaign, campaign.estimate(tally, post=post), is_open=True)))
        )
        rows = campaign.estimate(tally, post=post).rows()
        for name, column in shown["columns"].items():
            assert column == [row[name] for row in rows], name
        assert [row["frequency_low"] for row in rows] == [
            raw - shown["z"] * error
            for raw, error in zip(
                shown["columns"].get("frequency_raw", shown["columns"]["frequency"]),
                shown["columns"]["frequency_se"],
                strict=True,
            )
        ]


def test_results_without_reports_claim_nothing():
    campaign = make_question()
    shown = make_results(campaign, campaign.estimate(campaign.tally([])), is_open=True)
    assert shown.rank_best == [1] * 40
    assert shown.rank_worst == [40] * 40
    assert shown.metadata["users"] == 0


def test_the_label_is_exact_and_names_a_pair():
    label = promise(make_question("pckv-grr"))
    ratio = Fraction(int(label.ratio[0]), int(label.ratio[1]))
    assert label.is_sound
    assert float(ratio) == pytest.approx(np.exp(label.epsilon_exact))
    assert label.epsilon_exact <= label.epsilon_promised
    assert label.worst_pair.first
    assert label.worst_pair.first != label.worst_pair.second
    assert label.guess_after == "73 %"
    several = promise(make_question("privkvm", rounds=3))
    assert len(several.rounds) == 3
    assert several.epsilon_exact <= 1.0


@pytest.mark.parametrize("solve", ["users", "keys", "epsilon", "pairs_per_user", "error"])
def test_any_one_of_five_is_solved_for(solve):
    asked = PlanQuestion(users=50_000, keys=200, epsilon=1.0, pairs_per_user=3, error=0.02)
    found = planned(replace_solve(asked, solve))
    assert found.plan["error"] <= 0.02 * 1.001 or solve == "error"
    again = planned(
        PlanQuestion(
            solve="error",
            users=int(found.solved["users"]),
            keys=int(found.solved["keys"]),
            epsilon=found.solved["epsilon"],
            pairs_per_user=int(found.solved["pairs_per_user"]),
        )
    )
    assert again.plan["error"] == pytest.approx(found.plan["error"], rel=1e-6)
    assert len(found.users) == len(found.curves[0].errors)
    # The plan's own epsilon is one of those that are shown around it, and dearer ones are no worse.
    [here] = [each for each in found.epsilons if each.epsilon == pytest.approx(found.solved["epsilon"])]
    assert here.error == pytest.approx(found.plan["error"])
    errors = [each.error for each in found.epsilons]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("solve", ["users", "error", "keys"])
def test_where_a_relay_hides_reports_epsilon_is_the_central_one_and_drafts_keep_it(solve):
    asked = PlanQuestion(
        solve=solve, users=40_000, keys=30, epsilon=0.8, error=0.01, relay=True, delta=1e-7, honest=0.6
    )
    found = planned(asked)
    assert found.solved["epsilon"] == 0.8
    assert found.plan["central"]["local_epsilon"] > 2
    assert found.plan["error"] <= 0.01
    assert not found.epsilons
    names = [f"key {place}" for place in range(int(found.solved["keys"]))]
    rest = {"name": "planned", "keys": names, "value_range": [0, 1]}
    for draft in found.drafts:
        campaign = read_campaign(json.loads(json.dumps(rest | draft.fields)))
        assert (campaign.relay, campaign.central_epsilon, campaign.delta) == ("required", 0.8, 1e-7)
        assert largest_promised(campaign) == campaign.epsilon, draft.label


def test_a_central_epsilon_is_not_solved_for():
    with pytest.raises(PlanError, match="promised, not solved for"):
        planned(PlanQuestion(solve="epsilon", relay=True))


def check_drafts(asked):
    """Every campaign that a plan offers parses, and is asked by the very mechanism that was ranked."""
    found = planned(asked)
    ranked = candidates(asked.epsilon, crowd_of(asked), want=asked.want, at=None)
    rest = {"name": "planned", "keys": [f"key {place}" for place in range(asked.keys)], "value_range": [0, 1]}
    made = [read_campaign(json.loads(json.dumps(rest | draft.fields))) for draft in found.drafts]
    chosen, itself = made[: len(ranked)], made[len(ranked) :]
    assert [one["mechanism"] for one in found.plan["candidates"]] == [each.name for each in ranked]
    assert [campaign.build() for campaign in chosen] == [each.mechanism for each in ranked]
    assert [campaign.protocol().start("q").mechanism for campaign in chosen] == [
        each.mechanism for each in ranked
    ]
    assert [(campaign.mechanism, campaign.want) for campaign in itself] == [("auto", asked.want)]
    assert all(campaign.protocol().users == asked.users for campaign in itself)
    assert all(campaign.protocol().want == asked.want for campaign in itself)


def questions(most_keys, most_pairs):
    return st.builds(
        PlanQuestion,
        users=st.integers(10, 10**8),
        keys=st.integers(1, most_keys),
        epsilon=st.floats(0.05, 12).map(lambda x: float(f"{x:.2g}")),
        pairs_per_user=st.integers(1, most_pairs),
        want=st.sampled_from(["frequency", "mean", "distribution"]),
    )


@settings(max_examples=12, deadline=None)
@given(questions(300, 6))
@example(PlanQuestion(keys=26_744, pairs_per_user=2, want="frequency"))
def test_every_campaign_that_a_plan_offers_is_asked_as_the_plan_says(asked):
    check_drafts(asked)


@pytest.mark.nightly
@settings(max_examples=60, deadline=None)
@given(questions(MOST_KEYS, MOST_PAIRS))
def test_every_campaign_that_any_plan_offers_is_asked_as_the_plan_says(asked):
    check_drafts(asked)


def test_a_campaign_for_frequencies_alone_has_no_means_and_says_so():
    campaign = make_question("bucket", rho=1, cohorts=1024)
    assert campaign.id == make_question("bucket", rho=1.0, cohorts=1024).id != make_question("bucket").id
    shown = campaign.estimate(drawn_tally(campaign, users=3_000))
    assert np.isnan(shown.columns["mean"]).all()
    assert (shown.columns["mean_low"] == campaign.value_range[0]).all()
    noise_with_means = noise_per_report(make_question("bucket").build())
    assert np.nanmax(shown.columns["frequency_se"]) < np.sqrt(noise_with_means / 3_000)


def replace_solve(asked, solve):
    import msgspec

    return msgspec.structs.replace(asked, solve=solve)


def test_a_plan_that_nothing_reaches_says_what_would():
    with pytest.raises(PlanError, match="even one key has an error of"):
        planned(PlanQuestion(solve="keys", users=100, epsilon=0.1, error=0.001))


def test_the_error_bar_is_that_of_the_estimate():
    campaign = make_question("kvue", pairs_per_user=1)
    mechanism = campaign.build()
    n = 40_000
    tally = Tally.of(question="q", n_reports=n, plus=[0] * 40, minus=[0] * 40, asked=[n // 40] * 40)
    error = estimate(mechanism, tally).frequency_se[0]
    found = telling(campaign, [(campaign.protocol().start("q"), n)])
    assert np.sqrt(found.noise / n) == pytest.approx(error, rel=1e-3)
    assert (found.round, found.is_planned) == (1, False)


def test_of_several_rounds_the_one_that_knows_most_has_the_error_bar():
    """PrivKVM's first round tells frequencies, its later ones do not; auto's first round asks for sizes."""
    several = make_question("privkvm", rounds=3)
    first, second, _ = several.protocol().stages()
    for opened in ([(first, 0)], [(first, 500), (second, 0)], [(first, 500), (second, 9_000)]):
        found = telling(several, opened)
        assert (found.round, found.is_planned) == (1, False)
    planned_by_itself = make_question("auto", pairs_per_user=3)
    sizes, values, collect, _ = planned_by_itself.protocol().stages()
    for opened in ([(sizes, 100)], [(sizes, 100), (values, 100)]):
        found = telling(planned_by_itself, opened)
        assert (found.round, found.purpose, found.is_planned) == (3, "collect", True)
    assert telling(planned_by_itself, [(sizes, 9), (values, 9), (collect, 9)]) == Telling(
        round=3, purpose="collect", noise=found.noise, is_planned=False
    )


@pytest.mark.parametrize(
    "name", ["privkvm", "privkvm-plus", "privkvm-virtual", "privkvm-star", "ks-grr", "auto"]
)
def test_every_protocol_says_which_round_tells_frequencies(name):
    campaign = make_question(name, pairs_per_user=2)
    assert telling(campaign, []).noise > 0


def test_files_are_sent_once_packed_and_by_name_only():
    page = assets()["index.html"]
    assert b"<script>" not in page.body
    assert b"style=" not in page.body
    status, headers, body = answer("app.js", takes_gzip=True, known_tag=None)
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert gzip.decompress(body) == assets()["app.js"].body
    assert answer("app.js", takes_gzip=True, known_tag=headers["etag"])[0] == 304
    for name in ("../assets.py", "nothing.js", "", "vendor/../app.js", "vendor/README.md"):
        assert answer(name, takes_gzip=False, known_tag=None) is None
    assert "unsafe" not in HEADERS["content-security-policy"]


def test_no_asset_names_another_address():
    """What the pages load, they load from here."""
    for name, asset in assets().items():
        if name.startswith("vendor/"):
            continue
        text = asset.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text.replace("https://...", ""), name
        assert "innerHTML" not in text, name
        assert "insertAdjacentHTML" not in text, name
